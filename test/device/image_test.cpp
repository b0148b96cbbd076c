// SPDX-License-Identifier: BSD-3-Clause
// Selection of the kernel build on the emulated driver, by driver version and compute capability.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "cuda_test_support.hpp"

namespace weft::test {
namespace {

#ifdef WEFT_HAVE_KERNELS
constexpr bool kHaveFatBinaries = true;
#else
constexpr bool kHaveFatBinaries = false;
#endif
#ifdef WEFT_HAVE_CUBINS
constexpr bool kHaveCubins = true;
#else
constexpr bool kHaveCubins = false;
#endif

int number(const char* variable, int standard) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : standard;
}

class ImageTest : public CudaTest {};

TEST_F(ImageTest, LoadsTheFittingBuild) {
  const char* setting = std::getenv("WEFT_GPU_KERNELS");
  const std::string kernels = setting != nullptr ? setting : "auto";
  const int version = number("EMUCUDA_VERSION", 13000), capability = number("EMUCUDA_CAPABILITY", 90);
  const bool fat = kHaveFatBinaries && version >= 13000 && capability >= 75 && kernels == "auto";
  const bool cubins = kHaveCubins && !fat && capability < 100 && kernels != "off";
  if (kernels == "cuda12" && !kHaveCubins) GTEST_SKIP() << "skipped: needs a build with CUDA12=1";

  Buffer from(Buffer::Kind::device, 1000), to(Buffer::Kind::device, 1000);
  from.write(pattern(1000, 1));
  EXPECT_OK(device::copy(to.data(), to.memory(), from.data(), from.memory(), 1000));
  EXPECT_EQ(to.read(), pattern(1000, 1)) << "copies go on without kernels";
  unsigned long machine = 0;
  EXPECT_EQ(cuda().images(&machine) != 0, fat);
  EXPECT_EQ(machine != 0, cubins);
}

}  // namespace
}  // namespace weft::test
