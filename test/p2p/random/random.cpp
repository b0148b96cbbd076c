// SPDX-License-Identifier: BSD-3-Clause
// Random sends, receives, probes, matched probes and cancels between all processes, on several communicators,
// from one thread or several; matching is checked against a naive model.
// usage: random rounds COUNT SEED; random seconds TIME [SEED]
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "p2p/random/traffic.hpp"
#include "reference/rounds.hpp"

namespace {

using randomized::CommInfo;
using randomized::Process;
using randomized::Traffic;

constexpr int kActs = 150;
long receives = 0;

CommInfo make_info(MPI_Comm comm, const std::vector<int>& rank_of) {
  CommInfo info{comm, rank_of, std::vector<int>(rank_of.size())};
  for (size_t world = 0; world < rank_of.size(); ++world)
    info.world_of[static_cast<size_t>(rank_of[world])] = static_cast<int>(world);
  return info;
}

/// MPI_COMM_WORLD, a duplicate, and the ranks in reverse order.
void make_rooms(Process& process) {
  std::vector<int> same, reversed;
  for (int i = 0; i < process.size; ++i) same.push_back(i), reversed.push_back(process.size - 1 - i);
  MPI_Comm copy, turned;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(MPI_COMM_WORLD, 0, -process.rank, &turned);
  process.comms = {make_info(MPI_COMM_WORLD, same), make_info(copy, same), make_info(turned, reversed)};
}

/// The thread that also detects when all messages of the round have arrived.
class Closing {
 public:
  Closing(Process& process, MPI_Comm control) : process_(process), control_(control) {
    ours_.resize(static_cast<size_t>(process.size));
    theirs_ = ours_;
  }
  void look() {
    if (state_ == State::sending && process_.sending == 0) {
      for (size_t i = 0; i < ours_.size(); ++i) ours_[i] = process_.sent[i];
      MPI_Ialltoall(ours_.data(), 1, MPI_INT, theirs_.data(), 1, MPI_INT, control_, &request_);
      state_ = State::counting;
    }
    int known = 0;
    if (state_ == State::counting) MPI_Test(&request_, &known, MPI_STATUS_IGNORE);
    if (known != 0) {
      for (const int n : theirs_) expected_ += n;
      state_ = State::receiving;
    }
    if (state_ == State::receiving && process_.received == expected_) process_.over = true;
  }

 private:
  enum class State { sending, counting, receiving };
  Process& process_;
  MPI_Comm control_;
  State state_ = State::sending;
  std::vector<int> ours_, theirs_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  int expected_ = 0;
};

void work(Process& process, Traffic& traffic, Closing* closing) {
  for (int i = 0; i < kActs; ++i) traffic.act();
  for (bool sending = true; !process.over;) {
    traffic.settle();
    if (sending && !traffic.sending()) sending = false, process.sending.fetch_sub(1);
    if (closing != nullptr) closing->look();
  }
  traffic.close();
}

void round(Process& process, MPI_Comm control, uint64_t seed) {
  process.received = 0;
  process.over = false;
  process.sending = process.threads;
  for (auto& n : process.sent) n = 0;
  Closing closing(process, control);
  std::vector<Traffic> traffic;
  for (int i = 0; i < process.threads; ++i)
    traffic.emplace_back(process, i, seed + static_cast<uint64_t>(process.rank * 100 + i));
  std::vector<std::thread> threads;
  for (size_t i = 1; i < traffic.size(); ++i)
    threads.emplace_back([&, i] { work(process, traffic[i], nullptr); });
  work(process, traffic[0], &closing);
  for (std::thread& thread : threads) thread.join();
  std::vector<randomized::Receipt> receipts;
  for (const Traffic& part : traffic)
    receipts.insert(receipts.end(), part.receipts.begin(), part.receipts.end());
  if (const std::string wrong = check_order(receipts); !wrong.empty()) {
    std::fprintf(stderr, "rank %d: %s\n", process.rank, wrong.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  receives += process.received;
  MPI_Barrier(control);  // no receive of this round may remain when the next one sends
}

}  // namespace

int main(int argc, char** argv) {
  const char* threads = std::getenv("TEST_THREADS");
  int provided, rank, size;
  MPI_Init_thread(&argc, &argv, threads != nullptr ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  Process process(size);
  process.rank = rank;
  process.size = size;
  process.threads = threads != nullptr ? std::atoi(threads) : 1;
  make_rooms(process);
  MPI_Comm control;
  MPI_Comm_dup(MPI_COMM_WORLD, &control);
  std::vector<char> buffer(size_t{64} << 20);
  MPI_Buffer_attach(buffer.data(), static_cast<int>(buffer.size()));
  const long rounds =
      randomized::run_rounds(argc, argv, [&](uint64_t seed) { round(process, control, seed); });
  if (rank == 0) std::printf("%ld rounds, %ld messages received by rank 0\n", rounds, receives);
  void* address;
  int bytes;
  MPI_Buffer_detach(&address, &bytes);
  for (size_t i = 1; i < process.comms.size(); ++i) MPI_Comm_free(&process.comms[i].comm);
  MPI_Comm_free(&control);
  MPI_Finalize();
  return 0;
}
