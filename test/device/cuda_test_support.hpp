// SPDX-License-Identifier: BSD-3-Clause
// The CUDA application side of tests: driver calls by dlsym (WEFT_CUDA_DRIVER, else libcuda.so.1), buffers of
// every memory kind. The same tests run on the emulated driver and on a real GPU.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "device/copy.hpp"
#include "device/cuda/driver_types.hpp"
#include "device/memory.hpp"

namespace weft::test {

using device::Memory;
using device::MemoryKind;
using device::cuda::Address;
using device::cuda::Code;
using device::cuda::Context;
using device::cuda::Ordinal;
using device::cuda::Stream;

/// CUmemLocation, CUmemAllocationProp, CUmemAccessDesc
struct Location {
  int type = 1, id = 0;  // a device
};
struct AllocationProperties {
  int type = 1, handle_types = 1;  // pinned; exported as a file descriptor
  Location location;
  void* win32 = nullptr;
  unsigned char flags[8] = {};
};
struct AccessDescription {
  Location location;
  int flags = 3;  // read and write
};

#define WEFT_TEST_CUDA(F)                                                                                  \
  F(cuInit, (unsigned))                                                                                    \
  F(cuDeviceGetCount, (int*))                                                                              \
  F(cuDevicePrimaryCtxRetain, (Context*, Ordinal))                                                         \
  F(cuDevicePrimaryCtxRelease_v2, (Ordinal))                                                               \
  F(cuDevicePrimaryCtxReset_v2, (Ordinal))                                                                 \
  F(cuDevicePrimaryCtxGetState, (Ordinal, unsigned*, int*))                                                \
  F(cuCtxCreate_v2, (Context*, unsigned, Ordinal))                                                         \
  F(cuCtxDestroy_v2, (Context))                                                                            \
  F(cuCtxSetCurrent, (Context))                                                                            \
  F(cuCtxGetCurrent, (Context*))                                                                           \
  F(cuCtxSynchronize, ())                                                                                  \
  F(cuMemAlloc_v2, (Address*, size_t))                                                                     \
  F(cuMemFree_v2, (Address))                                                                               \
  F(cuMemAllocManaged, (Address*, size_t, unsigned))                                                       \
  F(cuMemAllocAsync, (Address*, size_t, Stream))                                                           \
  F(cuMemAddressReserve, (Address*, size_t, size_t, Address, unsigned long long))                          \
  F(cuMemAddressFree, (Address, size_t))                                                                   \
  F(cuMemCreate, (unsigned long long*, size_t, const AllocationProperties*, unsigned long long))           \
  F(cuMemRelease, (unsigned long long))                                                                    \
  F(cuMemMap, (Address, size_t, size_t, unsigned long long, unsigned long long))                           \
  F(cuMemUnmap, (Address, size_t))                                                                         \
  F(cuMemRetainAllocationHandle, (unsigned long long*, void*))                                             \
  F(cuMemSetAccess, (Address, size_t, const AccessDescription*, size_t))                                   \
  F(cuMemFreeAsync, (Address, Stream))                                                                     \
  F(cuMemHostAlloc, (void**, size_t, unsigned))                                                            \
  F(cuMemFreeHost, (void*))                                                                                \
  F(cuMemcpyHtoD_v2, (Address, const void*, size_t))                                                       \
  F(cuMemcpyDtoH_v2, (void*, Address, size_t))                                                             \
  F(cuMemcpyDtoD_v2, (Address, Address, size_t))                                                           \
  F(cuMemsetD8_v2, (Address, unsigned char, size_t))                                                       \
  F(cuModuleLoadData, (void**, const void*))                                                               \
  F(cuModuleUnload, (void*))                                                                               \
  F(cuModuleGetFunction, (void**, void*, const char*))                                                     \
  F(cuLaunchKernel,                                                                                        \
    (void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void**, void**)) \
  F(cuDeviceGetAttribute, (int*, int, Ordinal))                                                            \
  F(cuStreamCreate, (Stream*, unsigned))                                                                   \
  F(cuStreamQuery, (Stream))                                                                               \
  F(cuStreamDestroy_v2, (Stream))                                                                          \
  F(cuStreamSynchronize, (Stream))                                                                         \
  F(cuStreamWaitValue32_v2, (Stream, Address, unsigned, unsigned))                                         \
  F(cuMemcpyDtoDAsync_v2, (Address, Address, size_t, Stream))                                              \
  F(cuStreamBeginCapture_v2, (Stream, int))                                                                \
  F(cuStreamEndCapture, (Stream, void**))                                                                  \
  F(cuGraphInstantiateWithFlags, (void**, void*, unsigned long long))                                      \
  F(cuGraphLaunch, (void*, Stream))                                                                        \
  F(cuGraphDestroy, (void*))                                                                               \
  F(cuGraphExecDestroy, (void*))

/// Driver functions of the application, and control functions of the emulator if available.
struct Cuda {
#define WEFT_TEST_MEMBER(name, parameters) Code(*name) parameters = nullptr;
  WEFT_TEST_CUDA(WEFT_TEST_MEMBER)
#undef WEFT_TEST_MEMBER
  unsigned long (*calls)(const char*) = nullptr;
  unsigned long (*forbidden)() = nullptr;
  const char* (*last_forbidden)() = nullptr;
  int (*fail)(const char*) = nullptr;
  unsigned long (*hold)(const char*) = nullptr;
  void (*delay)(unsigned) = nullptr;
  void (*peer)(int) = nullptr;
  unsigned long (*live)() = nullptr;
  unsigned long (*live_bytes)() = nullptr;
  unsigned long (*resident_kernel_waits)(int, unsigned long*) = nullptr;
  unsigned long (*resident_kernel_commands)() = nullptr;
  unsigned long (*batch_copies)() = nullptr;
  unsigned long (*collectives)(unsigned long*) = nullptr;
  unsigned long (*resident_kernel_calls)() = nullptr;
  unsigned long (*direct_collectives)() = nullptr;
  unsigned long (*block_collectives)() = nullptr;
  unsigned long (*pair_collectives)() = nullptr;
  unsigned long (*ll128_collectives)() = nullptr;
  void (*kernels)(unsigned) = nullptr;
  unsigned long (*images)(unsigned long*) = nullptr;
  int (*remote_write)(unsigned long, const void*, unsigned long) = nullptr;

  bool loaded = false;  // loaded and initialised, with at least one device
  int devices = 0;
  std::vector<Context> primary;  // retained, one per device
  [[nodiscard]] bool emulated() const { return calls != nullptr; }
};

/// Loads the driver; with `initialise`, cuInit and all primary contexts, device 0 current.
[[nodiscard]] Cuda& cuda(bool initialise = true);

/// For MPI programs: makes GPU LOCAL_RANK modulo the number of GPUs current and returns its number. Exits
/// with 77 (skipped) without a driver, without a launcher, or with fewer GPUs than TEST_GPUS; fails if
/// WEFT_CUDA_DRIVER is set but unusable.
[[nodiscard]] int own_device();
/// Whether MPS shares the first device.
[[nodiscard]] bool mps();

/// Memory of one kind; freed with the object. `mapped`: cuMemMap memory of two or more allocations,
/// exportable as file descriptors; `unshared`: the same without a handle type.
class Buffer {
 public:
  enum class Kind { host, pinned, device, managed, pool, mapped, unshared };
  Buffer(Kind kind, size_t size, int device = 0);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] char* data() const { return data_; }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] Memory memory() const { return device::classify(data_); }
  void write(const std::vector<char>& bytes, size_t offset = 0);  ///< blocking
  [[nodiscard]] std::vector<char> read() const { return read(0, size_); }
  [[nodiscard]] std::vector<char> read(size_t offset, size_t n) const;
  /// For `mapped`: unmaps one allocation and maps another, or the same, at its address.
  void replace(size_t allocation, bool by_another);

 private:
  void map();
  [[nodiscard]] unsigned long long create() const;
  [[nodiscard]] Address first() const;
  void unmap();

  Kind kind_;
  size_t size_;
  int device_;
  char* data_ = nullptr;
};
[[nodiscard]] const char* name(Buffer::Kind kind);

/// A kernel of the application that occupies the whole GPU until release().
class FullGpu {
 public:
  explicit FullGpu(int device);
  ~FullGpu();
  FullGpu(const FullGpu&) = delete;
  FullGpu& operator=(const FullGpu&) = delete;
  void fill();     ///< starts the kernel
  void end();      ///< ends the kernel, without a call of the driver
  void release();  ///< ends the kernel and waits
  [[nodiscard]] bool full() const;

 private:
  void launch(unsigned blocks);

  Context context_ = nullptr;
  Buffer flag_;
  void *module_ = nullptr, *function_ = nullptr;
  Stream stream_ = nullptr;
  int processors_ = 1;
};

/// Bytes that depend on seed and offset.
[[nodiscard]] std::vector<char> pattern(size_t n, unsigned seed);

/// Reads the WEFT_* settings, once.
[[nodiscard]] const Status& settings_loaded();

/// Skips without a driver; opens the device layer; fails if Weft made a forbidden call.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
};

#define EXPECT_OK(expression)                                         \
  do {                                                                \
    const auto& weft_result_ = (expression);                          \
    EXPECT_TRUE(weft_result_.ok()) << weft_result_.error().message(); \
  } while (0)
#define ASSERT_OK(expression)                                         \
  do {                                                                \
    const auto& weft_result_ = (expression);                          \
    ASSERT_TRUE(weft_result_.ok()) << weft_result_.error().message(); \
  } while (0)

}  // namespace weft::test
