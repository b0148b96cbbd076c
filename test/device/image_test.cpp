// SPDX-License-Identifier: BSD-3-Clause
// Selection of the kernels' image on the emulated driver, by driver version and compute capability.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "cuda_test_support.hpp"

namespace weft::test {
namespace {

#ifdef WEFT_HAVE_KERNELS
constexpr bool kHaveKernels = true;
constexpr int kPtxGeneration = WEFT_TEST_PTX;
constexpr std::initializer_list<int> kGenerations = {WEFT_TEST_GENERATIONS};
#else
constexpr bool kHaveKernels = false;
constexpr int kPtxGeneration = 0;
constexpr std::initializer_list<int> kGenerations = {};
#endif

/// Returns true if the build has machine code for a GPU: for its major generation, and not for a later GPU.
bool has_machine_code(int capability) {
  return std::any_of(kGenerations.begin(), kGenerations.end(), [&](int generation) {
    return generation / 10 == capability / 10 && generation <= capability;
  });
}

int number(const char* variable, int standard) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : standard;
}

class ImageTest : public CudaTest {};

TEST_F(ImageTest, LoadsTheFittingImage) {
  if (!kHaveKernels) GTEST_SKIP() << "skipped: needs a build with kernels";
  const char* setting = std::getenv("WEFT_GPU_KERNELS");
  const bool on = setting == nullptr || std::string(setting) == "auto";
  const int version = number("EMUCUDA_VERSION", 13000), capability = number("EMUCUDA_CAPABILITY", 90);
  const bool machine_code = on && has_machine_code(capability);
  const bool ptx = on && !machine_code && capability >= kPtxGeneration && version >= 12080;

  Buffer from(Buffer::Kind::device, 1000), to(Buffer::Kind::device, 1000);
  from.write(pattern(1000, 1));
  EXPECT_OK(device::copy(to.data(), to.memory(), from.data(), from.memory(), 1000));
  EXPECT_EQ(to.read(), pattern(1000, 1)) << "copies go on without kernels";
  unsigned long compiled = 0;
  EXPECT_EQ(cuda().images(&compiled) != 0, machine_code);
  EXPECT_EQ(compiled != 0, ptx);
}

}  // namespace
}  // namespace weft::test
