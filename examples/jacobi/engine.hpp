// SPDX-License-Identifier: BSD-3-Clause
// Engine: where the grid lives and what computes on it, a GPU or the CPU.
// Work on a GPU is queued: only wait(), wait_boundary(), residual(), download() and finish() wait for it.
#pragma once
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace jacobi {

/// Any failure of an engine: the message says what failed and why.
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
  int slot;  ///< 0 or 1: sum the squared changes there; -1: no norm wanted
};

/// The part of the rows that a call computes.
enum class Part {
  all,
  boundary,  ///< rows 1 and `rows`, which the neighbours wait for
  interior   ///< the others
};

class Engine {
 public:
  virtual ~Engine() = default;

  /// What it is, for people: "NVIDIA H200" or "host memory".
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual bool on_gpu() const = 0;
  /// Tells physical devices apart, also across hosts; empty on the CPU.
  [[nodiscard]] virtual std::string identity() const = 0;

  /// Zeroed cells; grids live as long as the engine unless released.
  [[nodiscard]] virtual float* allocate(size_t cells) = 0;
  virtual void release(float* grid) = 0;
  /// Zeroed host memory from which the engine copies fast.
  [[nodiscard]] virtual float* allocate_staging(size_t cells) = 0;

  /// Writes `values[row]` to the first and the last column of every row.
  virtual void set_columns(float* grid, int nx, const std::vector<float>& values) = 0;

  /// A slot must not be used again before residual() has read it. `boundary` is computed before `interior`
  /// of the same iteration is complete, and after `interior` of the one before.
  virtual void sweep(const Sweep& sweep, Part part) = 0;
  /// Copies `cells` after everything queued so far, before every later sweep.
  virtual void copy(float* to, const float* from, size_t cells) = 0;
  virtual void copy_to_staging(float* staging, const float* from, size_t cells) = 0;
  virtual void copy_from_staging(float* to, const float* staging, size_t cells) = 0;

  /// Until sweeps of all rows, and copies, are done.
  virtual void wait() = 0;
  /// Until the latest boundary sweep is done.
  virtual void wait_boundary() = 0;
  /// Sum of the squared changes of the sweeps with this slot, over the rows of this engine.
  [[nodiscard]] virtual double residual(int slot) = 0;
  /// Until everything is done.
  virtual void finish() = 0;
  /// To ordinary memory; waits.
  virtual void download(float* to, const float* from, size_t cells) = 0;
};

std::unique_ptr<Engine> make_host_engine();

/// GPUs that make_cuda_engine() can use; 0 without a driver or without kernels in this program.
int count_gpus();

/// Uses device `local_rank` modulo the number of devices; throws EngineError if there is no usable GPU.
std::unique_ptr<Engine> make_cuda_engine(int local_rank);

}  // namespace jacobi
