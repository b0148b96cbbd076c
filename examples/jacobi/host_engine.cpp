// SPDX-License-Identifier: BSD-3-Clause
// Engine without a GPU: uses host memory and one thread, with the same arithmetic per cell as the GPU
// kernels.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "engine.hpp"

namespace jacobi {
namespace {

constexpr size_t alignment = 64;

struct Free {
  void operator()(float* cells) const { std::free(cells); }
};

// Computes one row; returns the sum of the squared changes if requested.
template <bool WithNorm>
float sweep_row(const float* __restrict__ from, float* __restrict__ to, int nx) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int x = 1; x < nx - 1; ++x) {
    const float value = 0.25f * (from[x + 1] + from[x - 1] + from[x + nx] + from[x - nx]);
    to[x] = value;
    if constexpr (WithNorm) {
      const float change = value - from[x];
      sum += change * change;
    }
  }
  return sum;
}

class HostEngine final : public Engine {
 public:
  std::string description() const override { return "host memory, CPU code"; }
  bool on_gpu() const override { return false; }
  std::string identity() const override { return {}; }

  float* allocate(size_t cells) override {
    const size_t bytes = (cells * sizeof(float) + alignment - 1) / alignment * alignment;
    std::unique_ptr<float, Free> memory(static_cast<float*>(std::aligned_alloc(alignment, bytes)));
    if (!memory) throw EngineError("cannot allocate " + std::to_string(bytes) + " bytes of host memory");
    std::memset(memory.get(), 0, bytes);
    float* grid = memory.get();
    grids_.emplace(grid, std::move(memory));
    return grid;
  }

  void release(float* grid) override { grids_.erase(grid); }
  float* allocate_staging(size_t cells) override { return allocate(cells); }

  void set_columns(float* grid, int nx, const std::vector<float>& values) override {
    for (float value : values) {
      grid[0] = grid[nx - 1] = value;
      grid += nx;
    }
  }

  void sweep(const Sweep& sweep, Part part) override {
    if (part != Part::interior && sweep.slot >= 0) sums_[sweep.slot] = 0;
    if (part == Part::all) {
      sweep_rows(sweep, 1, sweep.rows + 1);
    } else if (part == Part::interior) {
      sweep_rows(sweep, 2, sweep.rows);
    } else {
      sweep_rows(sweep, 1, 2);
      if (sweep.rows > 1) sweep_rows(sweep, sweep.rows, sweep.rows + 1);
    }
  }

  void copy(float* to, const float* from, size_t cells) override { std::copy_n(from, cells, to); }
  void copy_to_staging(float* to, const float* from, size_t cells) override { copy(to, from, cells); }
  void copy_from_staging(float* to, const float* from, size_t cells) override { copy(to, from, cells); }
  void wait() override {}
  void wait_boundary() override {}
  double residual(int slot) override { return sums_[slot]; }
  void finish() override {}
  void download(float* to, const float* from, size_t cells) override { copy(to, from, cells); }

 private:
  void sweep_rows(const Sweep& sweep, int first, int end) {
    for (int row = first; row < end; ++row) {
      const size_t offset = static_cast<size_t>(row) * sweep.nx;
      if (sweep.slot >= 0) {
        sums_[sweep.slot] += sweep_row<true>(sweep.from + offset, sweep.to + offset, sweep.nx);
      } else {
        sweep_row<false>(sweep.from + offset, sweep.to + offset, sweep.nx);
      }
    }
  }

  std::map<float*, std::unique_ptr<float, Free>> grids_;
  double sums_[2] = {0, 0};
};

}  // namespace

std::unique_ptr<Engine> make_host_engine() { return std::make_unique<HostEngine>(); }

}  // namespace jacobi
