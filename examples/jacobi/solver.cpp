// SPDX-License-Identifier: BSD-3-Clause
#include "solver.hpp"

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>

#include "progress.hpp"

namespace jacobi {
namespace {

constexpr int print_every = 100;    // iterations
constexpr int warm_up_rounds = 10;  // exchanges before the clock starts

size_t cells(int nx, int rows) { return static_cast<size_t>(rows) * nx; }

// Creates the two grids of rows [first - 1, first + rows], zero except for the fixed columns.
void make_grids(Engine& engine, const Options& options, const Partition& part, float* grids[2]) {
  const std::vector<float> values = fixed_columns(options, part);
  for (int g = 0; g < 2; ++g) {
    grids[g] = engine.allocate(cells(options.nx, part.rows + 2));
    engine.set_columns(grids[g], options.nx, values);
  }
}

// Checks the norm: interval of the checks, output, end of the iteration.
class Norm {
 public:
  Norm(Engine& engine, const Options& options, bool verbose, bool distributed)
      : engine_(engine),
        progress_(distributed ? "Distributed" : "One device", options.niter, verbose),
        interval_(options.nccheck),
        verbose_(verbose),
        distributed_(distributed) {}

  /// Returns the slot of sweep `k`, or -1 if its norm is not checked.
  [[nodiscard]] int slot(int k) const { return k % interval_ == 0 ? k & 1 : -1; }

  /// Checks the norm of sweep `k` if due; returns whether the iteration ends.
  bool reached(int k) {
    progress_.at(k + 1, latest_);
    if (k < 0 || slot(k) < 0) return false;
    double sum = engine_.residual(slot(k));
    if (distributed_) MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    latest_ = std::sqrt(sum);
    if (verbose_ && k >= next_print_) {
      progress_.clear();
      std::printf("%5d, %0.6f\n", k, latest_);
      std::fflush(stdout);
      next_print_ = (k / print_every + 1) * print_every;
    }
    return latest_ <= tolerance;
  }

  [[nodiscard]] double latest() const { return latest_; }

 private:
  Engine& engine_;
  Progress progress_;
  int interval_;
  bool verbose_, distributed_;
  int next_print_ = 0;
  double latest_ = std::numeric_limits<double>::infinity();
};

// First launches load code and first messages set up connections, which the measured time must not include.
// The first iteration overwrites the results.
void warm_up(Engine& engine, const Options& options, float* const grids[2], int rows, Halo* halo) {
  for (int slot : {-1, 0}) {
    const Sweep sweep{grids[0], grids[1], options.nx, rows, slot};
    engine.sweep(sweep, Part::all);
    engine.finish();
    if (options.variant != Variant::overlap) continue;
    engine.sweep(sweep, Part::boundary);
    engine.sweep(sweep, Part::interior);
    engine.finish();
  }
  for (int i = 0; halo && i < warm_up_rounds; ++i) {
    halo->begin(grids[i % 2]);
    halo->finish(grids[i % 2]);
  }
  engine.finish();
  for (int k = 0; halo && halo->in_stream() && k < 2; ++k) {
    for (int slot : {-1, k}) halo->capture({grids[k], grids[1 - k], options.nx, rows, slot});
  }
}

// One iteration of the distributed solver; returns whether the norm of the previous iteration ends the
// solution.
bool iterate(Engine& engine, Halo& halo, const Sweep& sweep, int k, bool overlap, Norm& norm) {
  if (halo.in_stream()) {
    halo.launch(sweep);
    return norm.reached(k - 1);
  }
  halo.begin(sweep.to);
  if (overlap) {
    engine.sweep(sweep, Part::boundary);
    engine.sweep(sweep, Part::interior);
    engine.wait_boundary();
    halo.finish(sweep.to);
    return norm.reached(k - 1);
  }
  engine.sweep(sweep, Part::all);
  if (norm.reached(k - 1)) return true;
  engine.wait();
  halo.finish(sweep.to);
  return false;
}

double difference(const float* a, const float* b, size_t count) {
  double largest = 0;
  for (size_t i = 0; i < count; ++i) {
    const double distance = std::fabs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(distance)) return std::numeric_limits<double>::infinity();
    if (distance > largest) largest = distance;
  }
  return largest;
}

}  // namespace

std::vector<float> fixed_columns(const Options& options, const Partition& part) {
  std::vector<float> values(static_cast<size_t>(part.rows) + 2);
  for (size_t row = 0; row < values.size(); ++row) {
    const double y = static_cast<double>(part.first - 1) + static_cast<double>(row);
    values[row] = static_cast<float>(std::sin(2.0 * std::numbers::pi * y / (options.ny - 1)));
  }
  return values;
}

Outcome run_single(Engine& engine, const Options& options, bool verbose) {
  const int rows = options.ny - 2, nx = options.nx;
  Outcome outcome{};
  make_grids(engine, options, {1, rows}, outcome.grids);
  warm_up(engine, options, outcome.grids, rows, nullptr);
  Norm norm(engine, options, verbose, false);
  const double start = MPI_Wtime();
  int k = 0;
  bool done = false;
  for (; k < options.niter && !done; ++k) {
    float* to = outcome.grids[(k + 1) % 2];
    engine.sweep({outcome.grids[k % 2], to, nx, rows, norm.slot(k)}, Part::all);
    engine.copy(to, to + cells(nx, rows), nx);
    engine.copy(to + cells(nx, rows + 1), to + nx, nx);
    done = norm.reached(k - 1);
  }
  engine.finish();
  if (!done) norm.reached(k - 1);
  outcome.seconds = MPI_Wtime() - start;
  outcome.iterations = done ? k - 1 : k;
  outcome.result = outcome.grids[outcome.iterations % 2];
  outcome.norm = norm.latest();
  return outcome;
}

Outcome run_distributed(Engine& engine, const Options& options, int rank, int ranks, bool verbose) {
  const Partition part = partition(options.ny, ranks, rank);
  const Position place{rank, ranks, (rank + ranks - 1) % ranks, (rank + 1) % ranks, options.nx, part.rows};
  Outcome outcome{};
  make_grids(engine, options, part, outcome.grids);
  const std::unique_ptr<Halo> halo = make_halo(options.variant, engine, place, outcome.grids);
  warm_up(engine, options, outcome.grids, part.rows, halo.get());
  Norm norm(engine, options, verbose && rank == 0, true);
  constexpr size_t large = size_t{1} << 24;  // cells whose sweep takes longer than an exchange by a window
  const bool overlap = options.variant == Variant::overlap ||
                       (options.variant == Variant::window && cells(options.nx, part.rows) >= large);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  int k = 0;
  bool done = false;
  for (; k < options.niter && !done; ++k) {
    const Sweep sweep{outcome.grids[k % 2], outcome.grids[(k + 1) % 2], options.nx, part.rows, norm.slot(k)};
    done = iterate(engine, *halo, sweep, k, overlap, norm);
  }
  engine.finish();
  if (!done) norm.reached(k - 1);
  MPI_Barrier(MPI_COMM_WORLD);
  outcome.seconds = MPI_Wtime() - start;
  outcome.iterations = done ? k - 1 : k;
  outcome.result = outcome.grids[outcome.iterations % 2];
  outcome.norm = norm.latest();
  return outcome;
}

double compare(Engine& engine, const Options& options, int rank, int ranks, const float* single,
               const float* part) {
  constexpr size_t most_bytes = 16 << 20;  // of one message
  const size_t row_bytes = cells(options.nx, 1) * sizeof(float);
  const int step = static_cast<int>(most_bytes / row_bytes > 0 ? most_bytes / row_bytes : 1);
  std::vector<float> mine(cells(options.nx, step)), reference(cells(options.nx, step));
  double largest = 0;
  for (int owner = 0; owner < ranks; ++owner) {
    if (rank != 0 && rank != owner) continue;
    const Partition rows = partition(options.ny, ranks, owner);
    for (int done = 0; done < rows.rows; done += step) {
      const int now = std::min(step, rows.rows - done);
      const int count = now * options.nx;
      if (rank == 0) engine.download(reference.data(), single + cells(options.nx, rows.first + done), count);
      if (rank == 0 && owner != 0) MPI_Send(reference.data(), count, MPI_FLOAT, owner, 0, MPI_COMM_WORLD);
      if (rank != owner) continue;
      if (owner != 0) MPI_Recv(reference.data(), count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      engine.download(mine.data(), part + cells(options.nx, 1 + done), count);
      largest = std::max(largest, difference(mine.data(), reference.data(), count));
    }
  }
  double all = 0;
  MPI_Allreduce(&largest, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

}  // namespace jacobi
