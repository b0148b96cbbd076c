// SPDX-License-Identifier: BSD-3-Clause
#include "persistent.hpp"

#ifdef JACOBI_PERSISTENT
#include <mpi.h>
#include <weft.h>

#include <cstdio>
#include <string>

#include "partition.hpp"

namespace jacobi {
namespace {

size_t cells(int nx, int rows) { return static_cast<size_t>(rows) * nx; }

// The memory of a rank's window: slots for norms, then two grids.
struct Layout {
  size_t head;
  int nx, rows;
  Layout(const Options& options, int ranks, int rank)
      : head((2 * static_cast<size_t>(kernel::norm_slots) * ranks + 63) / 64 * 64),
        nx(options.nx),
        rows(partition(options.ny, ranks, rank).rows) {}
  [[nodiscard]] size_t grid(int g) const { return head + g * cells(nx, rows + 2); }
  [[nodiscard]] size_t floats() const { return grid(2); }
};

void print_norms(const kernel::Report& report, const double* history, const Options& options) {
  constexpr int print_every = 100;  // iterations
  int next = 0;
  for (int k = 0; k < report.iterations; k += options.nccheck) {
    if (k < next) continue;
    std::printf("%5d, %0.6f\n", k, history[k / options.nccheck]);
    next = (k / print_every + 1) * print_every;
  }
  std::fflush(stdout);
}

[[noreturn]] void report_failure(MPI_Win window) {
  int error = 0, rank = 0, notification = 0;
  MPIX_Win_device_status(window, &error, &rank, &notification);
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  throw EngineError("the kernel of -variant device failed: " + std::string(text) + " (notification " +
                    std::to_string(notification) + ")");
}

}  // namespace

Outcome run_persistent(Engine& engine, const Options& options, int rank, int ranks, int ranks_on_gpu,
                       bool verbose) {
  const Partition part = partition(options.ny, ranks, rank);
  const int above = (rank + ranks - 1) % ranks, below = (rank + 1) % ranks;
  const Layout own(options, ranks, rank), upper(options, ranks, above), lower(options, ranks, below);
  float* const memory = engine.allocate(own.floats());
  Outcome outcome{};
  kernel::Persistent call{};
  for (int g = 0; g < 2; ++g) {
    call.grids[g] = outcome.grids[g] = memory + own.grid(g);
    engine.set_columns(outcome.grids[g], options.nx, fixed_columns(options, part));
    call.above_halo[g] = upper.grid(g) + cells(options.nx, upper.rows + 1);
    call.below_halo[g] = lower.grid(g);
  }
  engine.finish();
  MPI_Win window;
  MPI_Win_create(memory, static_cast<MPI_Aint>(own.floats() * sizeof(float)), sizeof(float), MPI_INFO_NULL,
                 MPI_COMM_WORLD, &window);
  MPIX_Win_create_notify(window, kernel::notifications);
  void* handle = nullptr;
  MPIX_Win_device_handle(window, &handle);
  const int checks = (options.niter + options.nccheck - 1) / options.nccheck;
  constexpr size_t report_floats = 16;
  float* const pinned = engine.allocate_staging(report_floats + 2 * static_cast<size_t>(checks));
  auto* const report = reinterpret_cast<kernel::Report*>(pinned);
  const double* const history = reinterpret_cast<double*>(pinned + report_floats);
  call.window = handle;
  call.nx = options.nx;
  call.rows = part.rows;
  call.above = above;
  call.below = below;
  call.check_interval = options.nccheck;
  call.tolerance = tolerance;
  call.norms = reinterpret_cast<const double*>(memory);
  call.report = report;
  call.history = reinterpret_cast<double*>(pinned + report_floats);
  engine.start_persistent(call, ranks_on_gpu);  // without iterations: loads the code
  engine.finish();
  call.iterations = options.niter;
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  engine.start_persistent(call, ranks_on_gpu);
  engine.finish();
  if (report->failed != 0) report_failure(window);
  MPI_Barrier(MPI_COMM_WORLD);
  outcome.seconds = MPI_Wtime() - start;
  outcome.iterations = report->iterations;
  outcome.norm = report->norm;
  outcome.result = outcome.grids[outcome.iterations % 2];
  if (verbose && rank == 0) print_norms(*report, history, options);
  MPI_Win_free(&window);
  return outcome;
}

std::string persistent_problem() { return {}; }

}  // namespace jacobi

#else

namespace jacobi {

Outcome run_persistent(Engine&, const Options&, int, int, int, bool) {
  throw EngineError(persistent_problem());
}

std::string persistent_problem() {
  return "-variant device: this program was built without nvcc or without weft_device.cuh";
}

}  // namespace jacobi

#endif

namespace jacobi {

void Engine::start_persistent(kernel::Persistent&, int) { throw EngineError(persistent_problem()); }

}  // namespace jacobi
