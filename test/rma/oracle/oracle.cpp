// SPDX-License-Identifier: BSD-3-Clause
// Random one-sided communication between all ranks, checked against a serial model: windows of every flavor,
// epochs of every synchronisation, all operations, predefined datatypes and operations, derived datatypes
// that differ on origin and target, and chains of atomic operations that must have a serial order. Uses MPI
// only. TEST_THREADS: threads per rank that issue operations.
// usage: oracle rounds COUNT SEED; oracle seconds TIME [SEED]
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "reference/rounds.hpp"
#include "rma/oracle/execute.hpp"

namespace {

using namespace oracle;

int threads = 1;
long operations = 0;

Windows draw_windows(Draw& draw, int ranks) {
  Windows windows;
  const size_t common = draw.of<size_t>({480, 4800, 96000});
  for (int i = 0; i < ranks; ++i) {
    windows.bytes.push_back(draw.one_in(6)   ? 0
                            : draw.one_in(3) ? draw.of<size_t>({48, 4800, 288000})
                                             : common);
    windows.model.emplace_back(windows.bytes.back());
    windows.undefined.emplace_back(windows.bytes.back(), false);
  }
  return windows;
}

void run_round(uint64_t seed) {
  Draw draw(seed);
  MPI_Comm comm;
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, 0, draw.one_in(2) ? -rank : rank, &comm);
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  Draw own(seed + static_cast<uint64_t>(rank) + 1);
  Windows windows = draw_windows(draw, ranks);
  Window::Hints hints{draw.one_in(6), draw.one_in(5), draw.one_in(3), draw.one_in(2)};
  {
    Window window(comm, draw, windows.bytes, hints);
    for (int epochs = 1 + draw.below(4); epochs > 0; --epochs) {
      const Epoch epoch =
          hints.no_locks ? draw.of({Epoch::fence, Epoch::pscw})
                         : draw.of({Epoch::fence, Epoch::pscw, Epoch::exclusive, Epoch::shared, Epoch::all});
      const Rules rules{ranks, epoch, !hints.unordered, !hints.same_op, !hints.same_op || hints.no_op};
      for (size_t i = 0; i < windows.undefined.size(); ++i)
        windows.undefined[i].assign(windows.undefined[i].size(), false);
      std::vector<Slot> slots = draw_slots(draw, windows);
      Executor executor(comm, window, windows, slots, threads, "rounds 1 " + std::to_string(seed));
      executor.run(draw, rules, 1 + draw.below(3), own);
      operations += executor.operations();
    }
  }
  MPI_Comm_free(&comm);
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* text = std::getenv("TEST_THREADS")) threads = std::atoi(text);
  oracle::init_memory();
  int provided;
  MPI_Init_thread(&argc, &argv, threads > 1 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  oracle::create_elements();
  const long rounds = randomized::run_rounds(argc, argv, run_round, 100);
  oracle::destroy_elements();
  long all = 0;
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Reduce(&operations, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%ld rounds, %ld operations\n", rounds, all);
  MPI_Finalize();
  return 0;
}
