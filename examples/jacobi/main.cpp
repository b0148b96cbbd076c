// SPDX-License-Identifier: BSD-3-Clause
// Multi-GPU Jacobi solver: 2D Laplace equation, 5-point stencil, rows distributed over MPI ranks, one GPU per
// rank. Without a GPU the same program runs on host memory. See docs/jacobi.md.
#include <dlfcn.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "engine.hpp"
#include "options.hpp"
#include "partition.hpp"
#include "persistent.hpp"
#include "picture.hpp"
#include "solver.hpp"
#include "stream.hpp"

namespace jacobi {
namespace {

constexpr double largest_difference = 1e-8;  // between the distributed and the single-device result

struct Job {
  int rank = 0, ranks = 1;
  Options options;
  std::unique_ptr<Engine> engine;
  std::string no_gpu;  ///< reason why no GPU is usable; empty if one is used or none was requested
};

// Returns the local rank from the launcher's variables; -1 if none is set.
int local_rank_from_launcher() {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                           "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    const char* text = std::getenv(name);
    if (text && *text >= '0' && *text <= '9') return std::atoi(text);
  }
  return -1;
}

int local_rank_from_mpi() {
  MPI_Comm host;
  int rank = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_rank(host, &rank);
  MPI_Comm_free(&host);
  return rank;
}

void open_gpu(Job& job, int local_rank) {
  if (job.options.device == Place::host || local_rank < 0) return;
  try {
    job.engine = make_cuda_engine(local_rank);
  } catch (const EngineError& error) {
    job.no_gpu = error.what();
  }
}

// Queries the MPI library; true if the library has no query function.
bool supports_device_memory() {
  using Query = int (*)();
  void* symbol = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
  if (!symbol) return true;
  Query query = nullptr;
  std::memcpy(&query, &symbol, sizeof query);
  return query() != 0;
}

// Returns the reason why the job cannot run; empty if it can. The same on every rank.
std::string problem(const Job& job) {
  const Options& options = job.options;
  if (options.ny - 2 < job.ranks) {
    return "-ny " + std::to_string(options.ny) + ": " + std::to_string(job.ranks) + " ranks need at least " +
           std::to_string(job.ranks + 2) + " rows";
  }
  const std::string unwritable =
      job.rank == 0 && !options.plot.empty() ? picture_problem(options.plot) : std::string();
  int cannot = unwritable.empty() ? 0 : 1;
  MPI_Bcast(&cannot, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (cannot) return job.rank == 0 ? unwritable : "-plot: rank 0 cannot write it";
  int mine = job.engine ? 1 : 0, least = 0, most = 0;
  MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&mine, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (options.device == Place::cuda && least == 0) {
    return "-device cuda: not every rank has a GPU" +
           (job.no_gpu.empty() ? "" : " (rank 0: " + job.no_gpu + ")");
  }
  if (least != most) return "some ranks have a GPU and some have none: choose -device host, or other nodes";
  int takes = !job.engine || options.variant == Variant::host_staged || supports_device_memory(), all = 0;
  MPI_Allreduce(&takes, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (!all) return "this MPI library does not take device memory: use -variant host_staged";
  if (options.variant == Variant::stream)
    return job.engine ? stream_problem() : "-variant stream: needs a GPU on every rank";
  if (options.variant == Variant::device) {
    if (!job.engine) return "-variant device: needs a GPU on every rank";
    if (options.ny - 2 < 2 * job.ranks) return "-variant device: every rank needs at least two rows";
    return persistent_problem();
  }
  return {};
}

int distinct_gpus(const Job& job) {
  constexpr int bytes = 16;
  std::string mine = job.engine->identity();
  mine.resize(bytes);
  std::string all(static_cast<size_t>(bytes) * job.ranks, '\0');
  MPI_Allgather(mine.data(), bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, MPI_COMM_WORLD);
  std::set<std::string> different;
  for (int rank = 0; rank < job.ranks; ++rank)
    different.insert(all.substr(static_cast<size_t>(rank) * bytes, bytes));
  return static_cast<int>(different.size());
}

// Waits for rank 0 without using its core, since rank 0 measures time.
void wait_for_rank_0() {
  constexpr useconds_t nap = 1000;
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; !done;) {
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (!done) usleep(nap);
  }
}

void print_start(const Job& job, const char* who) {
  std::printf("%s Jacobi relaxation: %d iterations on %d x %d mesh with norm check every %d iterations\n",
              who, job.options.niter, job.options.nx, job.options.ny, job.options.nccheck);
  std::fflush(stdout);
}

void print_device(const Job& job) {
  const bool gpu = job.engine->on_gpu();
  const int gpus = gpu ? distinct_gpus(job) : 0;
  if (job.rank != 0) return;
  if (job.options.csv) {
    if (!job.no_gpu.empty()) std::fprintf(stderr, "jacobi: no GPU: host memory (%s)\n", job.no_gpu.c_str());
  } else if (gpu) {
    std::printf("Device: %s, variant %s\n", job.engine->description().c_str(), name(job.options.variant));
    if (gpus < job.ranks) std::printf("Note: %d ranks share %d GPUs\n", job.ranks, gpus);
  } else {
    const std::string why = job.no_gpu.empty() ? "as requested" : job.no_gpu;
    std::printf("no GPU: host memory, CPU code, one thread per rank (%s)\n", why.c_str());
  }
}

void print_csv(const Job& job, const Outcome& all, const Outcome* single) {
  static const char* const names[] = {"mpi",        "mpi_host_staged", "mpi_overlap",
                                      "mpi_window", "mpi_stream",      "mpi_device"};
  std::printf("%s, %d, %d, %d, %d, %d, 1, %f, ", names[static_cast<int>(job.options.variant)], job.options.nx,
              job.options.ny, job.options.niter, job.options.nccheck, job.ranks, all.seconds);
  if (single) {
    std::printf("%f\n", single->seconds);
  } else {
    std::printf("nan\n");
  }
}

void print_times(const Job& job, const Outcome& all, const Outcome* single) {
  const char* unit = job.engine->on_gpu() ? "GPU" : "rank";
  std::printf("Num %ss: %d.\n", unit, job.ranks);
  std::printf("%dx%d: ", job.options.nx, job.options.ny);
  if (single) std::printf("1 %s: %8.4f s, ", unit, single->seconds);
  std::printf("%d %s%s: %8.4f s", job.ranks, unit, job.ranks == 1 ? "" : "s", all.seconds);
  if (single) {
    const double speedup = single->seconds / all.seconds;
    std::printf(", speedup: %8.2f, efficiency: %8.2f", speedup, 100 * speedup / job.ranks);
  }
  std::printf("\n");
}

// Returns whether the distributed result equals that of a single device.
bool check_result(const Job& job, const Outcome& all, const Outcome& single) {
  const float* whole = job.rank == 0 ? single.result : nullptr;
  const double distance = compare(*job.engine, job.options, job.rank, job.ranks, whole, all.result);
  int iterations = single.iterations;
  MPI_Bcast(&iterations, 1, MPI_INT, 0, MPI_COMM_WORLD);
  const bool same = distance <= largest_difference && iterations == all.iterations;
  if (job.rank == 0 && !job.options.csv) {
    std::printf("Largest difference to the result of one %s: %g (%d and %d iterations): %s\n",
                job.engine->on_gpu() ? "GPU" : "rank", distance, all.iterations, iterations,
                same ? "ok" : "WRONG");
  } else if (job.rank == 0 && !same) {
    std::fprintf(stderr, "jacobi: the result differs from that of one device by %g (%d and %d iterations)\n",
                 distance, all.iterations, iterations);
  }
  return same;
}

int solve(const Job& job) {
  const Options& options = job.options;
  const bool verbose = !options.csv, prints = job.rank == 0;
  print_device(job);
  Outcome single{};
  if (options.single) {
    if (prints && verbose) print_start(job, job.engine->on_gpu() ? "Single GPU" : "Single rank");
    if (prints) {
      single = run_single(*job.engine, options, verbose);
      job.engine->release(single.grids[0] == single.result ? single.grids[1] : single.grids[0]);
    }
    wait_for_rank_0();
  }
  if (prints && verbose) print_start(job, "Distributed");
  const bool persistent = options.variant == Variant::device;
  const int gpus = persistent ? distinct_gpus(job) : 1;
  const Outcome all = persistent ? run_persistent(*job.engine, options, job.rank, job.ranks,
                                                  (job.ranks + gpus - 1) / gpus, verbose)
                                 : run_distributed(*job.engine, options, job.rank, job.ranks, verbose);
  const bool good = !options.single || check_result(job, all, single);
  if (!options.plot.empty()) save_picture(*job.engine, options, job.rank, job.ranks, all.result);
  if (prints) (options.csv ? print_csv : print_times)(job, all, options.single ? &single : nullptr);
  return good ? 0 : 1;
}

int run(int argc, char** argv) {
  Job job;
  const std::string misuse = parse(argc, argv, job.options);
  const bool go = misuse.empty() && !job.options.help;
  if (go && job.options.count_gpus) {
    std::printf("%d\n", count_gpus());
    return 0;
  }
  if (go) open_gpu(job, local_rank_from_launcher());  // some MPI libraries need a context in MPI_Init
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
  int code = 2;
  if (!misuse.empty()) {
    if (job.rank == 0) std::fprintf(stderr, "jacobi: %s\n", misuse.c_str());
  } else if (job.options.help) {
    if (job.rank == 0) std::fputs(help().c_str(), stdout);
    code = 0;
  } else {
    if (!job.engine && job.no_gpu.empty()) open_gpu(job, local_rank_from_mpi());
    const std::string error = problem(job);
    if (job.rank == 0 && !error.empty()) std::fprintf(stderr, "jacobi: %s\n", error.c_str());
    if (error.empty()) {
      if (!job.engine) job.engine = make_host_engine();
      code = solve(job);
    }
  }
  MPI_Finalize();
  return code;
}

}  // namespace
}  // namespace jacobi

int main(int argc, char** argv) {
  try {
    return jacobi::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "jacobi: %s\n", error.what());
    int initialised = 0;
    MPI_Initialized(&initialised);
    if (initialised) MPI_Abort(MPI_COMM_WORLD, 3);
    return 3;
  }
}
