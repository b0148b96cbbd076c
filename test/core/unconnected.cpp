// SPDX-License-Identifier: BSD-3-Clause
// A process that cannot be connected lives on, and no other one waits for it. Usage, each rank with a GPU:
//   unconnected differ FIRST: the ranks from FIRST on have another setting, which is an error of every rank
//   unconnected error: prints the error of the rank
//   unconnected store: rank 1 of four on two hosts cannot read from the store; the others connect
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "check.hpp"
#include "device/cuda_test_support.hpp"

namespace {

using weft::test::cuda;

constexpr int kStoreRanks = 4;
constexpr int kLargestValue = 1 << 16;

void select_gpu(int rank) {
  if (!cuda().loaded) return;
  CHECK(cuda().cuCtxSetCurrent(cuda().primary[static_cast<size_t>(rank % cuda().devices)]) == 0);
}

/// Communicates in a communicator of `ranks`, or all. Returns the text of the error; "" if there is none.
std::string connect(const std::vector<int>& ranks) {
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  CHECK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) == MPI_SUCCESS);
  CHECK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group) == MPI_SUCCESS);
  if (!ranks.empty()) {
    MPI_Group part;
    CHECK(MPI_Group_incl(group, static_cast<int>(ranks.size()), ranks.data(), &part) == MPI_SUCCESS);
    MPI_Group_free(&group);
    group = part;
  }
  int mine = 1, sum = 0, size = 0;
  MPI_Group_size(group, &size);
  const int code = MPI_Comm_create_from_group(group, "test", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
  MPI_Group_free(&group);
  if (code != MPI_SUCCESS) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    MPI_Session_finalize(&session);
    return {text, static_cast<size_t>(length)};
  }
  CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm) == MPI_SUCCESS && sum == size);
  MPI_Comm_free(&comm);
  MPI_Session_finalize(&session);
  return "";
}

void differ(int rank, int first) {
  if (rank >= first) ::setenv("WEFT_COLL_ORDER", "rank", 1);
  const std::string error = connect({});
  std::printf("rank %d: %s\n", rank, error.c_str());
  CHECK(error.find("WEFT_COLL_ORDER is ") != std::string::npos);
}

// The store is a folder; `state`: the own rank.
std::string folder;

int put(void*, const char* key, const void* value, int bytes) {
  const std::string path = folder + "/" + key, temporary = path + "." + std::to_string(::getpid());
  std::FILE* const file = std::fopen(temporary.c_str(), "wb");
  CHECK(file != nullptr);
  CHECK(std::fwrite(value, 1, static_cast<size_t>(bytes), file) == static_cast<size_t>(bytes));
  std::fclose(file);
  return std::rename(temporary.c_str(), path.c_str());
}

int get(void* state, const char* key, int, void* value, int capacity) {
  static char bytes[kLargestValue];
  if (*static_cast<int*>(state) == 1 && std::strncmp(key, "net.", 4) == 0) return -1;
  std::FILE* file = nullptr;
  while ((file = std::fopen((folder + "/" + key).c_str(), "rb")) == nullptr) ::usleep(1000);
  const int length = static_cast<int>(std::fread(bytes, 1, sizeof bytes, file));
  std::fclose(file);
  std::memcpy(value, bytes, static_cast<size_t>(length < capacity ? length : capacity));
  return length;
}

int run_with_store(int rank) {
  select_gpu(rank);
  CHECK(MPIX_Job_by_store(rank, kStoreRanks, "a job", put, get, &rank) == MPI_SUCCESS);
  const std::string error = rank == 1 ? connect({}) : connect({0, 2, 3});
  if (!error.empty()) std::printf("rank %d: %s\n", rank, error.c_str());
  std::fflush(stdout);
  CHECK(error.empty() == (rank != 1));
  return 0;
}

int store() {
  char name[] = "/tmp/weft-store-XXXXXX";
  CHECK(::mkdtemp(name) != nullptr);
  folder = name;
  for (int rank = 0; rank < kStoreRanks; ++rank)
    if (::fork() == 0) ::_exit(run_with_store(rank));
  bool good = true;
  for (int i = 0; i < kStoreRanks; ++i) {
    int status = 0;
    good &= ::wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  good &= std::system(("rm -r " + folder).c_str()) == 0;
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc > 1);
  if (std::strcmp(argv[1], "store") == 0) return store();
  const char* const text = std::getenv("PMI_RANK");
  CHECK(text != nullptr);
  const int rank = std::atoi(text);
  select_gpu(rank);
  if (std::strcmp(argv[1], "error") == 0) {
    const time_t begin = std::time(nullptr);
    const std::string error = connect({});
    std::printf("rank %d after %d s: %s\n", rank, static_cast<int>(std::time(nullptr) - begin),
                error.c_str());
  } else {
    CHECK(argc > 2);
    differ(rank, std::atoi(argv[2]));
  }
  return 0;
}
