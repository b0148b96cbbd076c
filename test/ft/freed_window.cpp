// SPDX-License-Identifier: BSD-3-Clause
// Nobody writes into the memory of a process whose MPI_Win_free has returned, also not a process that is
// still in its access epoch: rank 1 frees the window while rank 0 puts, after a revocation, or after the
// death of the last rank (usage: freed_window revoke|kill). A window with open epochs can be freed after a
// death.
#include <mpi-ext.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../live_objects.h"

namespace {

constexpr int kBytes = 200000;
constexpr char kOwn = 7;
int rank, size, errors;

void expect(bool right, const char* what, int code = MPI_SUCCESS) {
  if (right) return;
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(code, text, &length);
  std::printf("rank %d: %s: %s\n", rank, what, text);
  std::fflush(stdout);
  ++errors;
}

bool is_failure(int code) {
  int found = MPI_SUCCESS;
  MPI_Error_class(code, &found);
  return found == MPIX_ERR_REVOKED || found == MPIX_ERR_PROC_FAILED;
}

struct Memory {
  MPI_Win win;
  char* bytes;
  MPI_Aint disp = 0;
};

Memory make(MPI_Comm comm, const char* kind) {
  Memory made{};
  if (std::strcmp(kind, "alloc_mem") == 0)
    MPI_Alloc_mem(kBytes, MPI_INFO_NULL, &made.bytes);
  else
    made.bytes = static_cast<char*>(std::calloc(kBytes, 1));
  if (std::strcmp(kind, "dynamic") == 0) {
    MPI_Win_create_dynamic(MPI_INFO_NULL, comm, &made.win);
    MPI_Win_attach(made.win, made.bytes, kBytes);
    MPI_Get_address(made.bytes, &made.disp);
    MPI_Bcast(&made.disp, 1, MPI_AINT, 1, comm);
  } else {
    MPI_Win_create(made.bytes, kBytes, 1, MPI_INFO_NULL, comm, &made.win);
  }
  MPI_Win_set_errhandler(made.win, MPI_ERRORS_RETURN);
  MPI_Win_lock_all(0, made.win);
  return made;
}

/// Puts into the memory of rank 1 until an error.
void put_until_error(Memory& window, int bytes) {
  const std::vector<char> zeros(static_cast<size_t>(bytes));
  int code = MPI_SUCCESS;
  for (const double end = MPI_Wtime() + 10; code == MPI_SUCCESS && MPI_Wtime() < end;) {
    code = MPI_Put(zeros.data(), bytes, MPI_BYTE, 1, window.disp, bytes, MPI_BYTE, window.win);
    if (code == MPI_SUCCESS) code = MPI_Win_flush(1, window.win);
  }
  expect(is_failure(code), "puts into a window that its target has freed", code);
}

/// Frees the window, and looks at its memory for a while.
void free_and_look(Memory& window, int bytes) {
  MPI_Win_free(&window.win);
  expect(window.win == MPI_WIN_NULL, "the handle is null");
  std::memset(window.bytes, kOwn, kBytes);
  int foreign = 0;
  for (const double end = MPI_Wtime() + 0.05; MPI_Wtime() < end;) {
    int flag;
    MPI_Iprobe(0, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    for (int i = 0; i < bytes; i += 64)
      if (static_cast<volatile char*>(window.bytes)[i] != kOwn) ++foreign;
  }
  expect(foreign == 0, "nobody writes after MPI_Win_free");
}

void test(MPI_Comm comm, const char* kind, int bytes, bool kills) {
  Memory window = make(comm, kind);
  MPI_Barrier(comm);
  if (rank == 0) {
    put_until_error(window, bytes);
  } else if (rank == 1 && !kills) {
    usleep(3000);
    MPIX_Win_revoke(window.win);
    free_and_look(window, bytes);
  } else if (rank == 1) {
    int code = MPI_SUCCESS;
    while (code == MPI_SUCCESS) code = MPI_Win_flush(size - 1, window.win);
    expect(is_failure(code), "flush of a process that has died", code);
    free_and_look(window, bytes);
  } else if (kills && rank == size - 1) {
    usleep(3000);
    kill(getpid(), SIGKILL);
  }
  if (window.win != MPI_WIN_NULL) {
    if (rank > 1) MPI_Win_unlock_all(window.win);  // it may not know of the death
    const int code = MPI_Win_free(&window.win);
    expect(is_failure(code) && window.win == MPI_WIN_NULL, "free", code);
  }
}

/// The last rank dies before it calls anything.
void test_open_epochs(MPI_Comm comm) {
  MPI_Win win;
  char* memory;
  MPI_Group group;
  MPI_Win_allocate(64, 1, MPI_INFO_NULL, comm, &memory, &win);
  MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
  MPI_Comm_group(comm, &group);
  if (rank == size - 1) kill(getpid(), SIGKILL);
  const int posted = MPI_Win_post(group, 0, win);
  expect(posted == MPI_SUCCESS || is_failure(posted), "post", posted);
  const auto fails = [](int code, const char* what) { expect(is_failure(code), what, code); };
  fails(MPI_Win_start(group, 0, win), "start");
  fails(MPI_Win_complete(win), "complete");
  fails(MPI_Win_wait(win), "wait");
  fails(MPI_Win_fence(0, win), "fence");
  fails(MPI_Win_free(&win), "free");
  expect(win == MPI_WIN_NULL, "the handle is null");
  MPI_Group_free(&group);
}

MPI_Comm shrink(MPI_Comm comm) {
  MPI_Comm smaller;
  MPIX_Comm_shrink(comm, &smaller);
  MPI_Comm_set_errhandler(smaller, MPI_ERRORS_RETURN);
  MPI_Comm_size(smaller, &size);
  return smaller;
}

}  // namespace

int main(int argc, char** argv) {
  ends_with_live_objects = 1;  // of communicators with failed ranks
  const bool kills = argc > 1 && std::strcmp(argv[1], "kill") == 0;
  MPI_Init(&argc, &argv);
  MPI_Comm comm = MPI_COMM_WORLD;
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  for (const char* kind : {"create", "alloc_mem", "dynamic"})
    for (const int bytes : {8, 4096, kBytes}) {
      if (kills && bytes != 4096) continue;
      test(comm, kind, bytes, kills);
      if (kills)
        comm = shrink(comm);
      else
        MPI_Barrier(comm);
    }
  if (kills) {
    test_open_epochs(comm);
    comm = shrink(comm);
  }
  if (rank == 0 && errors == 0) std::puts("good");
  MPI_Finalize();
  return errors == 0 ? 0 : 1;
}
