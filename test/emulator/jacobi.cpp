// SPDX-License-Identifier: BSD-3-Clause
// The kernels of examples/jacobi/kernels.cu: one sweep of the stencil, with and without norm, and the fixed
// columns. One turn each.
#include <algorithm>
#include <cstring>

#include "../../examples/jacobi/kernels.hpp"
#include "kernel.hpp"
#include "world.hpp"

namespace emucuda {
namespace {

using jacobi::kernel::Norm;
using jacobi::kernel::Strips;

template <class T>
T value(void** parameters, size_t index) {
  T copied;
  std::memcpy(&copied, parameters[index], sizeof copied);
  return copied;
}

/// The memory of a kernel's pointer; null: not accessible.
template <class T>
T* mapped(const ContextObject& context, T* pointer, size_t count) {
  return reinterpret_cast<T*>(
      translate_for(context, reinterpret_cast<uintptr_t>(pointer), count * sizeof(T)));
}

class StencilSweep final : public Kernel {
 public:
  StencilSweep(ContextObject& context, void** parameters, bool with_norm)
      : context_(context),
        from_(value<float*>(parameters, 0)),
        to_(value<float*>(parameters, 1)),
        strips_(value<Strips>(parameters, 2)),
        norm_(value<Norm>(parameters, 3)),
        with_norm_(with_norm) {}
  [[nodiscard]] std::unique_ptr<Kernel> clone() const override {
    return std::make_unique<StencilSweep>(*this);
  }

  Turn turn(uint64_t) override {
    double sum = 0;
    unsigned blocks = 0;
    for (int row = strips_.first; row < strips_.end; row += strips_.stride) {
      blocks += static_cast<unsigned>(strips_.column_blocks);
      for (int y = row; y < std::min(row + strips_.height, strips_.end); ++y)
        if (!relax_row(y, sum)) return Turn::illegal_address;
    }
    return !with_norm_ || add_to_norm(sum, blocks) ? Turn::ended : Turn::illegal_address;
  }

 private:
  bool relax_row(int y, double& sum) const {
    const auto nx = static_cast<size_t>(strips_.nx), before = (static_cast<size_t>(y) - 1) * nx;
    const float* const up = mapped(context_, from_ + before, 3 * nx);
    float* const out = mapped(context_, to_ + before + nx, nx);
    if (up == nullptr || out == nullptr) return false;
    const float *const here = up + nx, *const down = here + nx;
    for (size_t x = 1; x + 1 < nx; ++x) {
      out[x] = 0.25f * (here[x + 1] + here[x - 1] + down[x] + up[x]);
      const float change = out[x] - here[x];
      sum += static_cast<double>(change * change);
    }
    return true;
  }

  /// Adds the sum of this launch; the last launch of a norm writes the total and resets the sum.
  bool add_to_norm(double sum, unsigned blocks) const {
    double* const total = mapped(context_, norm_.sum, 1);
    unsigned* const arrived = mapped(context_, norm_.arrived, 1);
    double* const result = mapped(context_, norm_.result, 1);
    if (total == nullptr || arrived == nullptr || result == nullptr) return false;
    *total += sum;
    *arrived += blocks;
    if (*arrived != norm_.blocks) return true;
    *result = *total;
    *total = 0;
    *arrived = 0;
    return true;
  }

  const ContextObject& context_;
  float *from_, *to_;
  Strips strips_;
  Norm norm_;
  bool with_norm_;
};

class SetColumns final : public Kernel {
 public:
  SetColumns(ContextObject& context, void** parameters)
      : context_(context),
        grid_(value<float*>(parameters, 0)),
        nx_(value<int>(parameters, 1)),
        values_(value<float*>(parameters, 2)),
        rows_(value<int>(parameters, 3)) {}
  Turn turn(uint64_t) override {
    const auto nx = static_cast<size_t>(nx_), rows = static_cast<size_t>(rows_);
    float* const cells = mapped(context_, grid_, nx * rows);
    const float* const values = mapped(context_, values_, rows);
    if (cells == nullptr || values == nullptr) return Turn::illegal_address;
    for (size_t row = 0; row < rows; ++row) cells[row * nx] = cells[row * nx + nx - 1] = values[row];
    return Turn::ended;
  }

 private:
  const ContextObject& context_;
  float* grid_;
  int nx_;
  float* values_;
  int rows_;
};

}  // namespace

std::unique_ptr<Kernel> create_sweep(ContextObject& context, void** parameters) {
  return std::make_unique<StencilSweep>(context, parameters, false);
}
std::unique_ptr<Kernel> create_sweep_norm(ContextObject& context, void** parameters) {
  return std::make_unique<StencilSweep>(context, parameters, true);
}
std::unique_ptr<Kernel> create_set_columns(ContextObject& context, void** parameters) {
  return std::make_unique<SetColumns>(context, parameters);
}

}  // namespace emucuda
