// SPDX-License-Identifier: BSD-3-Clause
// MPIX_Stream_comm_create whose parent is revoked, or of which a rank dies, at random times: it ends with
// MPIX_ERR_REVOKED or MPIX_ERR_PROC_FAILED on all ranks that are inside, and no GPU memory is lost.
// usage: creation revoke|kill ROUNDS SEED. Each round has another kind of stream: one whose communicator
// kernels serve, one with which they execute ordinary calls, one with which the host does. revoke:
// several rounds in one job. kill: each round kills a rank, until two are left; then "good" is printed.
#include <signal.h>
#include <unistd.h>
#include <weft.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "stream/order_comm.hpp"

namespace {

using namespace weft::test::enqueued;

constexpr int kMaxDelayUs = 20'000;
constexpr int kTries = 200;  // communicators until the peers have said that they have unmapped a region

/// One of the kinds of streams.
class AnyStream {
 public:
  explicit AnyStream(int kind) {
    if (kind != 0) {
      ordered_.emplace(kind == 1 ? "true" : "false");
      return;
    }
    make_stream(stream_, plain_);
  }
  ~AnyStream() {
    if (ordered_) return;
    MPIX_Stream_free(&plain_);
    driver().cuStreamDestroy_v2(stream_);
  }
  AnyStream(const AnyStream&) = delete;
  AnyStream& operator=(const AnyStream&) = delete;
  [[nodiscard]] MPIX_Stream get() const { return ordered_ ? ordered_->mpi_stream : plain_; }

 private:
  std::optional<OrderedStream> ordered_;
  Stream stream_ = nullptr;
  MPIX_Stream plain_ = MPIX_STREAM_NULL;
};

/// Bytes of GPU memory that the library holds.
uint64_t held() {
  static int index = -1;
  static MPI_T_pvar_session session;
  static MPI_T_pvar_handle handle;
  if (index < 0) {
    int provided, count;
    MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
    MPI_T_pvar_get_index("gpu.pool_bytes", MPI_T_PVAR_CLASS_LEVEL, &index);
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle_alloc(session, index, nullptr, &handle, &count);
  }
  uint64_t bytes = 0;
  expect(MPI_T_pvar_read(session, handle, &bytes) == MPI_SUCCESS, "MPI_T_pvar_read");
  return bytes;
}

void pause_us(int us) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }

MPI_Comm duplicate(MPI_Comm comm) {
  MPI_Comm made = MPI_COMM_NULL;
  expect_class(MPI_Comm_dup(comm, &made), MPI_SUCCESS, "MPI_Comm_dup");
  MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  return made;
}

/// Creates a communicator, which may fail with `wanted`; frees it otherwise. Returns whether it was created.
bool create(MPI_Comm parent, const AnyStream& stream, int wanted, const std::string& round) {
  MPI_Comm made = MPI_COMM_NULL;
  const int code = MPIX_Stream_comm_create(parent, stream.get(), &made);
  if (code == MPI_SUCCESS) {
    expect_class(MPI_Comm_free(&made), MPI_SUCCESS, round + "MPI_Comm_free");
    return true;
  }
  expect_class(code, wanted, round + "MPIX_Stream_comm_create");
  expect(made == MPI_COMM_NULL, round + "no communicator");
  return false;
}

/// The memory of regions is free when all peers have unmapped them.
void expect_held(uint64_t before, const AnyStream& stream) {
  int more = 1;
  for (int tries = 0; tries < kTries && more != 0; ++tries) {
    create(MPI_COMM_WORLD, stream, MPI_SUCCESS, "afterwards: ");
    const int mine = held() != before ? 1 : 0;
    MPI_Allreduce(&mine, &more, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  }
  expect(held() == before, std::to_string(held()) + " bytes are held, not " + std::to_string(before));
}

void revoke(int rounds, unsigned seed) {
  std::mt19937 common(seed), own(seed * 1000 + static_cast<unsigned>(rank));
  const AnyStream kinds[] = {AnyStream(0), AnyStream(1), AnyStream(2)};
  for (const AnyStream& stream : kinds) create(MPI_COMM_WORLD, stream, MPI_SUCCESS, "before: ");
  const uint64_t before = held();
  int revoked = 0, created = 0;
  for (int n = 0; n < rounds; ++n) {
    const std::string round = "round " + std::to_string(n) + ": ";
    MPI_Comm parent = duplicate(MPI_COMM_WORLD);
    const bool revokes = static_cast<int>(common() % static_cast<unsigned>(ranks)) == rank;
    const bool all_enter = common() % 2 != 0;
    const int delay = static_cast<int>(common() % kMaxDelayUs);
    pause_us(static_cast<int>(own() % 1000));
    std::thread revoker;
    if (revokes)
      revoker = std::thread([&] {
        pause_us(delay);
        MPIX_Comm_revoke(parent);
      });
    if (all_enter || !revokes) {
      const bool made = create(parent, kinds[n % 3], MPIX_ERR_REVOKED, round);
      ++(made ? created : revoked);
      expect(all_enter || !made, round + "a rank is missing, but there is a communicator");
    }
    if (revoker.joinable()) revoker.join();
    expect_class(MPI_Comm_free(&parent), MPI_SUCCESS, round + "MPI_Comm_free of the parent");
    MPI_Barrier(MPI_COMM_WORLD);
  }
  expect_held(before, kinds[0]);
  if (std::getenv("TEST_VERBOSE") != nullptr)
    std::fprintf(stderr, "rank %d: %d created, %d revoked\n", rank, created, revoked);
}

void kill_ranks(int rounds, unsigned seed) {
  std::mt19937 common(seed), own(seed * 1000 + static_cast<unsigned>(rank));
  const AnyStream kinds[] = {AnyStream(0), AnyStream(1), AnyStream(2)};
  MPI_Comm all = duplicate(MPI_COMM_WORLD);
  for (int n = 0; n < rounds; ++n) {
    const std::string round = "round " + std::to_string(n) + ": ";
    int size, here;
    MPI_Comm_size(all, &size);
    MPI_Comm_rank(all, &here);
    if (size <= 2) break;
    const bool dies = static_cast<int>(common() % static_cast<unsigned>(size)) == here;
    const bool enters = common() % 2 != 0;
    const int delay = static_cast<int>(common() % kMaxDelayUs);
    pause_us(static_cast<int>(own() % 1000));
    if (dies) {
      std::thread([&] {
        pause_us(delay);
        ::raise(SIGKILL);
      }).detach();
      if (enters) create(all, kinds[n % 3], MPI_SUCCESS, round);
      for (;;) pause();
    }
    const bool made = create(all, kinds[n % 3], MPIX_ERR_PROC_FAILED, round);
    expect(enters || !made, round + "a rank is missing, but there is a communicator");
    MPI_Comm next;
    for (int left = size; left >= size; all = next) {  // the rank may have died after the creation
      expect_class(MPIX_Comm_shrink(all, &next), MPI_SUCCESS, round + "MPIX_Comm_shrink");
      MPI_Comm_set_errhandler(next, MPI_ERRORS_RETURN);
      MPI_Comm_size(next, &left);
      MPI_Comm_free(&all);
    }
  }
  int bad = failures, first;
  MPI_Comm_rank(all, &first);
  MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_SUM, all);
  MPI_Comm_free(&all);
  if (first == 0 && bad == 0) std::printf("good\n");
}

}  // namespace

int main(int argc, char** argv) {
  device = weft::test::own_device();
  weft::test::start(argc, argv, rank, ranks, MPI_THREAD_MULTIPLE);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const bool kills = argc > 1 && std::strcmp(argv[1], "kill") == 0;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 100;
  const auto seed = static_cast<unsigned>(argc > 3 ? std::atoi(argv[3]) : 1);
  if (!kills) {
    revoke(rounds, seed);
    return weft::test::finish(failures);
  }
  kill_ranks(rounds, seed);
  MPI_Finalize();
  return failures != 0;
}
