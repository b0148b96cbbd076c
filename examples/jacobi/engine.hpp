// SPDX-License-Identifier: BSD-3-Clause
// Engine: stores the grid and computes on it, on a GPU or the CPU. Work on a GPU is asynchronous: only
// wait(), wait_boundary(), residual(), download() and finish() wait for it.
#pragma once
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace jacobi {

/// Failure of an engine; the message contains call and reason.
class EngineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// One sweep of the 5-point stencil. Grids have `rows + 2` rows of `nx` cells; row 0 and row `rows + 1` are
/// halos.
struct Sweep {
  const float* from;
  float* to;
  int nx;
  int rows;
  int slot;  ///< 0 or 1: slot for the sum of the squared changes; -1: no norm
};

/// Rows that a call computes.
enum class Part {
  all,
  boundary,  ///< rows 1 and `rows`, which neighbours need
  interior   ///< all other rows
};

namespace kernel {
struct Persistent;
}

class Engine {
 public:
  virtual ~Engine() = default;

  /// Returns a description for humans: "NVIDIA H200" or "host memory".
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual bool on_gpu() const = 0;
  /// Returns an identifier of the physical device, unique across hosts; empty on the CPU.
  [[nodiscard]] virtual std::string identity() const = 0;

  /// Returns zeroed cells, which live as long as the engine unless released.
  [[nodiscard]] virtual float* allocate(size_t cells) = 0;
  virtual void release(float* grid) = 0;
  /// Returns zeroed pinned host memory for staging.
  [[nodiscard]] virtual float* allocate_staging(size_t cells) = 0;

  /// Writes `values[row]` to the first and the last column of every row.
  virtual void set_columns(float* grid, int nx, const std::vector<float>& values) = 0;

  /// A slot must not be reused before residual() has read it. `boundary` is computed before `interior` of the
  /// same iteration is complete, and after `interior` of the previous iteration.
  virtual void sweep(const Sweep& sweep, Part part) = 0;
  /// Copies `cells` after all previous work and before every later sweep.
  virtual void copy(float* to, const float* from, size_t cells) = 0;
  virtual void copy_to_staging(float* staging, const float* from, size_t cells) = 0;
  virtual void copy_from_staging(float* to, const float* staging, size_t cells) = 0;

  /// Waits for sweeps of all rows and for copies.
  virtual void wait() = 0;
  /// Waits for the latest boundary sweep.
  virtual void wait_boundary() = 0;
  /// Returns the sum of the squared changes of the sweeps with this slot, over the rows of this engine.
  [[nodiscard]] virtual double residual(int slot) = 0;
  /// Starts the kernel of the variant `device`; fills in the counters and the shape of the interior. Only
  /// `1 / ranks_on_gpu` of the GPU is used.
  virtual void start_persistent(kernel::Persistent& call, int ranks_on_gpu);

  // For the variant `stream`, on a GPU only.
  /// Returns the stream of sweeps of all rows and of copies, a cudaStream_t; null on the CPU.
  [[nodiscard]] virtual void* stream() const { return nullptr; }
  /// Captures later work of the stream into a graph, until end_graph() returns its number.
  virtual void begin_graph();
  [[nodiscard]] virtual int end_graph();
  /// Launches a graph; `slot`: of the norm of its sweep, or -1. Some launches ahead of the GPU, waits for it.
  virtual void launch(int graph, int slot);
  /// Waits for all work, and destroys the graphs.
  virtual void destroy_graphs() {}

  /// Waits for all work.
  virtual void finish() = 0;
  /// Copies to pageable memory and waits.
  virtual void download(float* to, const float* from, size_t cells) = 0;
};

std::unique_ptr<Engine> make_host_engine();

/// Returns the number of GPUs for make_cuda_engine(); 0 without a driver or without kernels in this program.
int count_gpus();

/// Uses device `local_rank` modulo the number of devices; throws EngineError if there is no usable GPU.
std::unique_ptr<Engine> make_cuda_engine(int local_rank);

}  // namespace jacobi
