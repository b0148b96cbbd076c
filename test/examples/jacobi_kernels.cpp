// SPDX-License-Identifier: BSD-3-Clause
// The Jacobi GPU kernels on a simulated GPU, compared with a plain loop: every shape, bit for bit.
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "simulated_gpu.hpp"
// Must follow the simulated GPU:
#include "../../examples/jacobi/kernels.cu"

namespace {

using jacobi::kernel::Norm;
using jacobi::kernel::Strips;

struct alignas(16) Sixteen {
  float v[4];
};

// Returns random cells, aligned like memory of the driver.
class Grid {
 public:
  Grid(int nx, int rows, unsigned seed) : memory_((static_cast<size_t>(nx) * rows + 3) / 4) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> value(-1, 1);
    for (Sixteen& four : memory_) {
      for (float& cell : four.v) cell = value(random);
    }
  }
  float* data() { return memory_[0].v; }

 private:
  std::vector<Sixteen> memory_;
};

double plain_sweep(const float* from, float* to, int nx, int first, int end) {
  double sum = 0;
  for (int row = first; row < end; ++row) {
    for (int x = 1; x < nx - 1; ++x) {
      const size_t at = static_cast<size_t>(row) * nx + x;
      to[at] = 0.25f * (from[at + 1] + from[at - 1] + from[at + nx] + from[at - nx]);
      const double change = to[at] - from[at];
      sum += change * change;
    }
  }
  return sum;
}

struct Shape {
  int nx, rows, height;
};

class OneCell : public testing::TestWithParam<Shape> {};
class FourCells : public testing::TestWithParam<Shape> {};

template <class Kernel>
void expect_same(const Shape& shape, int vector, Kernel kernel, bool with_norm) {
  const int column_blocks = (shape.nx + 256 * vector - 1) / (256 * vector);
  const int strips_count = (shape.rows + shape.height - 1) / shape.height;
  const unsigned blocks = static_cast<unsigned>(column_blocks * strips_count);
  Grid from(shape.nx, shape.rows + 2, 1), to(shape.nx, shape.rows + 2, 2),
      wanted(shape.nx, shape.rows + 2, 2);
  for (int row = 0; row < shape.rows + 2; ++row) {  // the outer columns are fixed
    for (int x : {0, shape.nx - 1}) {
      const size_t at = static_cast<size_t>(row) * shape.nx + x;
      to.data()[at] = wanted.data()[at] = from.data()[at];
    }
  }
  const double plain = plain_sweep(from.data(), wanted.data(), shape.nx, 1, shape.rows + 1);
  double sum = 0, result = -1;
  unsigned arrived = 0;
  const Strips strips{shape.nx, 1, shape.rows + 1, shape.height, shape.height, column_blocks};
  const Norm norm{&sum, &arrived, blocks, &result};
  simulated::launch(blocks, jacobi::kernel::threads, [&] { kernel(from.data(), to.data(), strips, norm); });
  for (size_t i = 0; i < static_cast<size_t>(shape.nx) * (shape.rows + 2); ++i) {
    ASSERT_EQ(to.data()[i], wanted.data()[i]) << "row " << i / shape.nx << ", column " << i % shape.nx;
  }
  EXPECT_EQ(arrived, 0u);
  EXPECT_EQ(sum, 0);
  if (with_norm) {
    EXPECT_NEAR(result, plain, 1e-5 * plain);
  } else {
    EXPECT_EQ(result, -1);
  }
}

TEST_P(OneCell, EqualsThePlainLoop) {
  expect_same(GetParam(), 1, jacobi_sweep_1, false);
  expect_same(GetParam(), 1, jacobi_sweep_1_norm, true);
}

INSTANTIATE_TEST_SUITE_P(Jacobi, OneCell,
                         testing::Values(Shape{3, 1, 4}, Shape{33, 4, 4}, Shape{128, 5, 4},
                                         Shape{257, 7, 16}));

// Rows must be multiples of a vector.
TEST_P(FourCells, EqualsThePlainLoop) {
  expect_same(GetParam(), 4, jacobi_sweep_4, false);
  expect_same(GetParam(), 4, jacobi_sweep_4_norm, true);
}

INSTANTIATE_TEST_SUITE_P(Jacobi, FourCells,
                         testing::Values(Shape{4, 3, 4}, Shape{128, 5, 4}, Shape{132, 9, 8},
                                         Shape{1024, 6, 4}, Shape{1028, 5, 4}));

// Rows 1 and n in one launch, the others in a second launch with the same norm, like the overlap variant.
TEST(Jacobi, BoundaryAndInteriorShareANorm) {
  constexpr int nx = 136, rows = 11;
  Grid from(nx, rows + 2, 3), to(nx, rows + 2, 4), wanted(nx, rows + 2, 4);
  const double plain = plain_sweep(from.data(), wanted.data(), nx, 1, rows + 1);
  double sum = 0, result = -1;
  unsigned arrived = 0;
  const Norm norm{&sum, &arrived, 2 + 3, &result};
  const Strips boundary{nx, 1, rows + 1, rows - 1, 1, 1}, interior{nx, 2, rows, 4, 4, 1};
  simulated::launch(2, jacobi::kernel::threads,
                    [&] { jacobi_sweep_4_norm(from.data(), to.data(), boundary, norm); });
  EXPECT_EQ(result, -1);
  simulated::launch(3, jacobi::kernel::threads,
                    [&] { jacobi_sweep_4_norm(from.data(), to.data(), interior, norm); });
  EXPECT_NEAR(result, plain, 1e-5 * plain);
  for (int row = 1; row <= rows; ++row) {
    for (int x = 1; x < nx - 1; ++x) {
      const size_t at = static_cast<size_t>(row) * nx + x;
      ASSERT_EQ(to.data()[at], wanted.data()[at]) << "row " << row << ", column " << x;
    }
  }
}

TEST(Jacobi, SetsBothColumns) {
  constexpr int nx = 5, rows = 300;
  std::vector<float> grid(static_cast<size_t>(nx) * rows, 7.0f), values(rows);
  for (int row = 0; row < rows; ++row) values[static_cast<size_t>(row)] = static_cast<float>(row);
  simulated::launch(2, jacobi::kernel::threads,
                    [&] { jacobi_set_columns(grid.data(), nx, values.data(), rows); });
  for (int row = 0; row < rows; ++row) {
    for (int x = 0; x < nx; ++x) {
      const float wanted = x == 0 || x == nx - 1 ? static_cast<float>(row) : 7.0f;
      ASSERT_EQ(grid[static_cast<size_t>(row) * nx + x], wanted) << "row " << row << ", column " << x;
    }
  }
}

}  // namespace
