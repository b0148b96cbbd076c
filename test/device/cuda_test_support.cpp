// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_test_support.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/config.hpp"

namespace weft::test {
namespace {

constexpr size_t kMappedGranularity = 2 << 20;

/// Size of the allocations of a mapped buffer: the first boundary is in the middle of the buffer, or at 2
/// MiB.
size_t mapped_size(size_t size) {
  return (size + 2 * kMappedGranularity - 1) / kMappedGranularity * kMappedGranularity;
}

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

bool load(Cuda& cuda) {
  const char* path = std::getenv("WEFT_CUDA_DRIVER");
  if (path == nullptr && ::access("/dev/nvidiactl", F_OK) != 0) return false;
  void* library = ::dlopen(path != nullptr ? path : "libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return false;
  bool complete = true;
#define WEFT_TEST_FIND(name, parameters) complete = find(library, #name, cuda.name) && complete;
  WEFT_TEST_CUDA(WEFT_TEST_FIND)
#undef WEFT_TEST_FIND
  find(library, "emucuda_calls", cuda.calls);
  find(library, "emucuda_forbidden", cuda.forbidden);
  find(library, "emucuda_last_forbidden", cuda.last_forbidden);
  find(library, "emucuda_fail", cuda.fail);
  find(library, "emucuda_hold", cuda.hold);
  find(library, "emucuda_delay", cuda.delay);
  find(library, "emucuda_peer", cuda.peer);
  find(library, "emucuda_live", cuda.live);
  find(library, "emucuda_live_bytes", cuda.live_bytes);
  find(library, "emucuda_resident_kernel_waits", cuda.resident_kernel_waits);
  find(library, "emucuda_resident_kernel_commands", cuda.resident_kernel_commands);
  find(library, "emucuda_batch_copies", cuda.batch_copies);
  find(library, "emucuda_collectives", cuda.collectives);
  find(library, "emucuda_resident_kernel_calls", cuda.resident_kernel_calls);
  find(library, "emucuda_direct_collectives", cuda.direct_collectives);
  find(library, "emucuda_block_collectives", cuda.block_collectives);
  find(library, "emucuda_pair_collectives", cuda.pair_collectives);
  find(library, "emucuda_ll128_collectives", cuda.ll128_collectives);
  find(library, "emucuda_kernels", cuda.kernels);
  find(library, "emucuda_images", cuda.images);
  find(library, "emucuda_remote_write", cuda.remote_write);
  return complete;
}

void initialise_all(Cuda& cuda) {
  if (cuda.cuInit(0) != 0 || cuda.cuDeviceGetCount(&cuda.devices) != 0 || cuda.devices == 0) return;
  cuda.primary.resize(static_cast<size_t>(cuda.devices));
  for (int i = 0; i < cuda.devices; ++i)
    if (cuda.cuDevicePrimaryCtxRetain(&cuda.primary[static_cast<size_t>(i)], i) != 0) return;
  cuda.loaded = cuda.cuCtxSetCurrent(cuda.primary[0]) == 0;
}

}  // namespace

Cuda& cuda(bool initialise) {
  static Cuda instance;
  static const bool there = load(instance);
  if (initialise && there && instance.devices == 0) initialise_all(instance);
  return instance;
}

int own_device() {
  const char* const local = std::getenv("LOCAL_RANK");
  const char* const needed = std::getenv("TEST_GPUS");
  Cuda& driver = cuda();
  if (!driver.loaded) std::exit(std::getenv("WEFT_CUDA_DRIVER") != nullptr ? 1 : 77);
  if (local == nullptr || (needed != nullptr && driver.devices < std::atoi(needed))) std::exit(77);
  const int device = std::atoi(local) % driver.devices;
  driver.cuCtxSetCurrent(driver.primary[static_cast<size_t>(device)]);
  return device;
}

bool mps() {
  constexpr int kMpsEnabled = 133;  // CUdevice_attribute
  int enabled = 0;
  return cuda().cuDeviceGetAttribute(&enabled, kMpsEnabled, 0) == 0 && enabled != 0;
}

Buffer::Buffer(Kind kind, size_t size, int device) : kind_(kind), size_(size), device_(device) {
  Cuda& driver = cuda();
  if (kind != Kind::host) driver.cuCtxSetCurrent(driver.primary[static_cast<size_t>(device)]);
  Address address = 0;
  void* host = nullptr;
  Code code = 0;
  switch (kind) {
    case Kind::host:
      host = std::malloc(size);
      break;
    case Kind::pinned:
      code = driver.cuMemHostAlloc(&host, size, 0);
      break;
    case Kind::device:
      code = driver.cuMemAlloc_v2(&address, size);
      break;
    case Kind::managed:
      code = driver.cuMemAllocManaged(&address, size, 1);
      break;
    case Kind::pool:
      code = driver.cuMemAllocAsync(&address, size, nullptr);
      driver.cuStreamSynchronize(nullptr);
      break;
    case Kind::mapped:
    case Kind::unshared:
      map();
      break;
  }
  EXPECT_EQ(code, 0) << name(kind);
  if (kind != Kind::mapped && kind != Kind::unshared)
    data_ = host != nullptr ? static_cast<char*>(host) : reinterpret_cast<char*>(address);
  if (kind != Kind::host) driver.cuCtxSetCurrent(driver.primary[0]);
}

Buffer::~Buffer() {
  Cuda& driver = cuda();
  const auto address = reinterpret_cast<Address>(data_);
  if (kind_ == Kind::host) {
    std::free(data_);
    return;
  }
  driver.cuCtxSetCurrent(driver.primary[static_cast<size_t>(device_)]);
  if (kind_ == Kind::mapped || kind_ == Kind::unshared)
    unmap();
  else if (kind_ == Kind::pinned)
    driver.cuMemFreeHost(data_);
  else if (kind_ == Kind::pool)
    driver.cuMemFreeAsync(address, nullptr);
  else
    driver.cuMemFree_v2(address);
  driver.cuCtxSetCurrent(driver.primary[0]);
}

void Buffer::map() {
  Cuda& driver = cuda();
  const size_t total = mapped_size(size_);
  const AccessDescription access{{1, device_}};
  Address base = 0;
  EXPECT_EQ(driver.cuMemAddressReserve(&base, total, 0, 0, 0), 0);
  for (size_t at = 0; at < total; at += kMappedGranularity) {
    const unsigned long long handle = create();
    EXPECT_EQ(driver.cuMemMap(base + at, kMappedGranularity, 0, handle, 0), 0);
    EXPECT_EQ(driver.cuMemRelease(handle), 0);
  }
  EXPECT_EQ(driver.cuMemSetAccess(base, total, &access, 1), 0);
  const size_t before = std::clamp<size_t>(size_ / 128 * 64, 64, kMappedGranularity);
  data_ = reinterpret_cast<char*>(base + kMappedGranularity - before);
}

unsigned long long Buffer::create() const {
  const AllocationProperties properties{.handle_types = kind_ == Kind::unshared ? 0 : 1,
                                        .location = {1, device_}};
  unsigned long long handle = 0;
  EXPECT_EQ(cuda().cuMemCreate(&handle, kMappedGranularity, &properties, 0), 0);
  return handle;
}

Address Buffer::first() const {
  return reinterpret_cast<Address>(data_) / kMappedGranularity * kMappedGranularity;
}

void Buffer::replace(size_t allocation, bool by_another) {
  Cuda& driver = cuda();
  const Address at = first() + allocation * kMappedGranularity;
  const AccessDescription access{{1, device_}};
  unsigned long long handle = 0;
  if (by_another)
    handle = create();
  else
    EXPECT_EQ(driver.cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(at)), 0);
  EXPECT_EQ(driver.cuMemUnmap(at, kMappedGranularity), 0);
  EXPECT_EQ(driver.cuMemMap(at, kMappedGranularity, 0, handle, 0), 0);
  EXPECT_EQ(driver.cuMemRelease(handle), 0);
  EXPECT_EQ(driver.cuMemSetAccess(at, kMappedGranularity, &access, 1), 0);
}

void Buffer::unmap() {
  EXPECT_EQ(cuda().cuMemUnmap(first(), mapped_size(size_)), 0);
  EXPECT_EQ(cuda().cuMemAddressFree(first(), mapped_size(size_)), 0);
}

void Buffer::write(const std::vector<char>& bytes, size_t offset) {
  ASSERT_LE(offset + bytes.size(), size_);
  if (bytes.empty()) return;
  if (kind_ == Kind::host || kind_ == Kind::pinned) {
    std::ranges::copy(bytes, data_ + offset);
    return;
  }
  Cuda& driver = cuda();
  driver.cuCtxSetCurrent(driver.primary[static_cast<size_t>(device_)]);
  EXPECT_EQ(driver.cuMemcpyHtoD_v2(reinterpret_cast<Address>(data_) + offset, bytes.data(), bytes.size()), 0);
  EXPECT_EQ(driver.cuCtxSynchronize(), 0);
  driver.cuCtxSetCurrent(driver.primary[0]);
}

std::vector<char> Buffer::read(size_t offset, size_t n) const {
  std::vector<char> bytes(n);
  if (kind_ == Kind::host || kind_ == Kind::pinned) {
    std::copy_n(data_ + offset, n, bytes.data());
    return bytes;
  }
  // A separate, otherwise unsynchronised stream: copies that Weft reported complete must be visible to it.
  Cuda& driver = cuda();
  driver.cuCtxSetCurrent(driver.primary[static_cast<size_t>(device_)]);
  EXPECT_EQ(driver.cuMemcpyDtoH_v2(bytes.data(), reinterpret_cast<Address>(data_) + offset, n), 0);
  driver.cuCtxSetCurrent(driver.primary[0]);
  return bytes;
}

namespace {

// Waits until the word at the first parameter has the value of the second. Built into the emulated driver.
constexpr char kSpin[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry emucuda_spin(.param .u64 flag, .param .u32 value) {
  .reg .pred %p<2>;
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [flag];
  ld.param.u32 %r1, [value];
again:
  ld.volatile.u32 %r2, [%rd1];
  setp.ne.s32 %p1, %r2, %r1;
  @%p1 bra again;
  ret;
}
)";
constexpr int kMultiprocessors = 16;                   // CUdevice_attribute
constexpr unsigned kNonBlocking = 1, kThreads = 1024;  // two blocks fill a multiprocessor

}  // namespace

FullGpu::FullGpu(int device) : flag_(Buffer::Kind::pinned, 4, device) {
  Cuda& driver = cuda();
  context_ = driver.primary[static_cast<size_t>(device)];
  driver.cuCtxSetCurrent(context_);
  EXPECT_EQ(driver.cuModuleLoadData(&module_, kSpin), 0);
  EXPECT_EQ(driver.cuModuleGetFunction(&function_, module_, "emucuda_spin"), 0);
  EXPECT_EQ(driver.cuStreamCreate(&stream_, kNonBlocking), 0);
  const Code known =
      driver.emulated() ? 0 : driver.cuDeviceGetAttribute(&processors_, kMultiprocessors, device);
  EXPECT_EQ(known, 0);
  *reinterpret_cast<uint32_t*>(flag_.data()) = 1;
  launch(1);  // the first launch loads the kernel
  release();
}

FullGpu::~FullGpu() {
  release();
  Cuda& driver = cuda();
  driver.cuCtxSetCurrent(context_);
  EXPECT_EQ(driver.cuStreamDestroy_v2(stream_), 0);
  EXPECT_EQ(driver.cuModuleUnload(module_), 0);
  driver.cuCtxSetCurrent(driver.primary[0]);
}

void FullGpu::launch(unsigned blocks) {
  Cuda& driver = cuda();
  driver.cuCtxSetCurrent(context_);
  auto flag = reinterpret_cast<Address>(flag_.data());
  uint32_t value = 1;
  void* parameters[] = {&flag, &value};
  EXPECT_EQ(driver.cuLaunchKernel(function_, blocks, 1, 1, kThreads, 1, 1, 0, stream_, parameters, nullptr),
            0);
  driver.cuCtxSetCurrent(driver.primary[0]);
}

void FullGpu::fill() {
  __atomic_store_n(reinterpret_cast<uint32_t*>(flag_.data()), 0u, __ATOMIC_RELEASE);
  launch(static_cast<unsigned>(processors_) * 4);  // twice the capacity
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (cuda().emulated()) cuda().kernels(1);
}

bool FullGpu::full() const {
  Cuda& driver = cuda();
  driver.cuCtxSetCurrent(context_);
  const Code code = driver.cuStreamQuery(stream_);
  driver.cuCtxSetCurrent(driver.primary[0]);
  return code == device::cuda::kNotReady;
}

void FullGpu::end() { __atomic_store_n(reinterpret_cast<uint32_t*>(flag_.data()), 1u, __ATOMIC_RELEASE); }

void FullGpu::release() {
  Cuda& driver = cuda();
  driver.cuCtxSetCurrent(context_);
  end();
  EXPECT_EQ(driver.cuStreamSynchronize(stream_), 0);
  if (driver.emulated()) driver.kernels(128);
  driver.cuCtxSetCurrent(driver.primary[0]);
}

const char* name(Buffer::Kind kind) {
  constexpr const char* kNames[] = {"host", "pinned", "device", "managed", "pool", "mapped", "unshared"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<char> pattern(size_t n, unsigned seed) {
  std::vector<char> bytes(n);
  uint32_t state = seed * 2654435761u + 1;
  for (char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

const Status& settings_loaded() {
  static const Status loaded = config::load();
  return loaded;
}

void CudaTest::SetUp() {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  ASSERT_OK(settings_loaded());
  const bool promised = std::getenv("WEFT_CUDA_DRIVER") != nullptr || std::getenv("TEST_GPUS") != nullptr;
  ASSERT_TRUE(cuda().loaded || !promised) << "the driver does not work, or has no device";
  if (!cuda().loaded) GTEST_SKIP() << "no CUDA driver: set WEFT_CUDA_DRIVER to the emulated one";
  ASSERT_OK(device::open());
  ASSERT_TRUE(device::available()) << device::absence();
}

void CudaTest::TearDown() {
  if (!cuda().loaded || !cuda().emulated()) return;
  EXPECT_EQ(cuda().forbidden(), 0u) << cuda().last_forbidden();
  EXPECT_EQ(cuda().fail(""), 0);
}

}  // namespace weft::test
