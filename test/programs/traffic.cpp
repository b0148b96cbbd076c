// SPDX-License-Identifier: BSD-3-Clause
// A program like those of users: long sequences of mixed collectives and messages on several communicators
// that stay, with sizes near the limits at which the library changes what it does, roots that move, and ranks
// that lag behind. Each result is compared. usage: traffic rounds COUNT SEED; traffic seconds TIME [SEED]
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "programs/operation.hpp"
#include "reference/rounds.hpp"

namespace {

using programs::Buffers;
using programs::Draw;
using programs::Group;
using programs::Operation;

constexpr int kCallsPerRound = 100;
constexpr size_t kBackToBack = 4;  // calls without a comparison between

/// This rank's part of MPI_COMM_WORLD cut in a certain way; nobody: null.
struct Cut {
  MPI_Comm comm = MPI_COMM_NULL;
  int first = 0;  // the lowest world rank in it
};

std::vector<Cut> cuts() {
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::vector<Cut> all{{MPI_COMM_WORLD, 0}};
  const auto split = [&](int color, int key) {
    Cut cut;
    MPI_Comm_split(MPI_COMM_WORLD, color, key, &cut.comm);
    if (cut.comm == MPI_COMM_NULL) return all.push_back(cut);
    MPI_Allreduce(&rank, &cut.first, 1, MPI_INT, MPI_MIN, cut.comm);
    all.push_back(cut);
  };
  split(0, -rank);                                    // all, in reverse order
  split(rank % 2, rank);                              // two halves
  split(rank == size - 1 ? MPI_UNDEFINED : 0, rank);  // all but one
  split(rank / 3, rank);                              // threes
  return all;
}

/// Makes this rank late now and then, so that the others run ahead.
class Pace {
 public:
  explicit Pace(uint64_t seed) : draw_(seed) {}
  void pause() {
    if (!draw_.one_in(6)) return;
    const auto until = std::chrono::steady_clock::now() +
                       std::chrono::microseconds(draw_.below(draw_.one_in(10) ? 500 : 30));
    while (std::chrono::steady_clock::now() < until) {
    }
  }

 private:
  Draw draw_;
};

/// One sequence; communicators keep what they have learnt from earlier sequences.
void round(uint64_t seed, const std::vector<Cut>& all, std::vector<std::unique_ptr<Buffers>>& buffers) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Draw draw(seed);
  Pace pace(seed + static_cast<uint64_t>(rank) * 7919);
  std::vector<std::optional<Group>> groups;
  for (size_t i = 0; i < all.size(); ++i) {
    groups.emplace_back();
    if (all[i].comm != MPI_COMM_NULL)
      groups.back().emplace(all[i].comm, seed + 1000 * i + static_cast<uint64_t>(all[i].first));
  }
  for (int calls = 0; calls < kCallsPerRound;) {
    std::vector<std::unique_ptr<Operation>> operations;
    const int n = 1 + draw.below(static_cast<int>(buffers.size()));
    const int same =
        draw.one_in(2) ? draw.below(static_cast<int>(all.size())) : -1;  // one communicator, or several
    for (int i = 0; i < n; ++i, ++calls) {
      const int which = same >= 0 ? same : draw.below(static_cast<int>(all.size()));
      auto& group = groups[static_cast<size_t>(which)];
      if (group) operations.push_back(std::make_unique<Operation>(*group, *buffers[static_cast<size_t>(i)]));
    }
    for (auto& operation : operations) operation->load();
    for (auto& operation : operations) {
      pace.pause();
      operation->begin();
    }
    for (auto& operation : operations) operation->complete();
    for (auto& operation : operations) operation->check();
  }
}

}  // namespace

int main(int argc, char** argv) {
  programs::init_memory();
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<Cut> all = cuts();
  std::vector<std::unique_ptr<Buffers>> buffers;
  for (size_t i = 0; i < kBackToBack; ++i) buffers.push_back(std::make_unique<Buffers>());
  const long rounds = randomized::run_rounds(
      argc, argv, [&](uint64_t seed) { round(seed, all, buffers); }, 1000);
  if (rank == 0)
    std::printf("%ld rounds of %d calls, %llu words compared in rank 0\n", rounds, kCallsPerRound,
                static_cast<unsigned long long>(programs::compared));
  buffers.clear();
  for (Cut& cut : all)
    if (cut.comm != MPI_COMM_WORLD && cut.comm != MPI_COMM_NULL) MPI_Comm_free(&cut.comm);
  MPI_Finalize();
  return 0;
}
