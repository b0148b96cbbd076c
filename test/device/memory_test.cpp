// SPDX-License-Identifier: BSD-3-Clause
// Classification of every memory kind, device properties, and faults on host access to device memory.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cuda_test_support.hpp"
#include "device/info.hpp"

namespace weft::test {
namespace {

using Kind = Buffer::Kind;

// Runs first (GoogleTest runs DeathTest suites first): the application has not called cuInit yet, and Weft
// must not call it.
TEST(BeforeInitDeathTest, EverythingIsHostAndNothingIsInitialised) {
  if (cuda(false).cuInit == nullptr) GTEST_SKIP() << "no CUDA driver";
  ASSERT_OK(settings_loaded());
  ASSERT_OK(device::open());
  ASSERT_TRUE(device::available()) << device::absence();
  const auto heap = std::make_unique<char[]>(1 << 20);  // an own mapping, not in the brk heap
  EXPECT_EQ(device::classify(heap.get()).kind, MemoryKind::host);
  EXPECT_EQ(device::classify(nullptr).kind, MemoryKind::host);
  EXPECT_TRUE(device::host_without_query(heap.get()));
  EXPECT_FALSE(device::devices(device::Initialise::no).ok());
  int count = 0;
  EXPECT_EQ(cuda(false).cuDeviceGetCount(&count), device::cuda::kNotInitialized) << "Weft called cuInit";
}

class MemoryTest : public CudaTest {};

TEST_F(MemoryTest, ClassifiesEachKind) {
  const std::pair<Kind, MemoryKind> kinds[] = {
      {Kind::host, MemoryKind::host},          {Kind::pinned, MemoryKind::host_pinned},
      {Kind::device, MemoryKind::cuda_device}, {Kind::managed, MemoryKind::cuda_managed},
      {Kind::pool, MemoryKind::cuda_device},   {Kind::mapped, MemoryKind::cuda_device}};
  for (const auto& [kind, expected] : kinds) {
    const Buffer buffer(kind, 10000);
    for (const size_t offset : {size_t{0}, size_t{1}, size_t{9999}}) {
      const Memory memory = device::classify(buffer.data() + offset);
      EXPECT_EQ(memory.kind, expected) << name(kind) << " at " << offset;
      EXPECT_EQ(memory.on_device(), expected == MemoryKind::cuda_device);
      EXPECT_EQ(memory.legacy_ipc, kind == Kind::device) << name(kind);
      EXPECT_EQ(memory.fault, 0);
      if (kind == Kind::host) continue;
      EXPECT_EQ(memory.device, 0) << name(kind);
      EXPECT_TRUE(kind == Kind::mapped || memory.covers(buffer.data(), 10000)) << name(kind);
    }
    if (kind == Kind::device) {
      EXPECT_EQ(buffer.memory().context, cuda().primary[0]);
      EXPECT_EQ(buffer.memory().base, reinterpret_cast<uintptr_t>(buffer.data()));
      EXPECT_FALSE(buffer.memory().covers(buffer.data() + 1, buffer.memory().size));
    }
  }
}

TEST_F(MemoryTest, ThreadWithoutContextClassifiesTheSame) {
  const Buffer buffer(Kind::device, 4096), host(Kind::host, 4096);
  Memory on_device, on_host;
  std::thread([&] {
    on_device = buffer.memory();
    on_host = host.memory();
  }).join();
  EXPECT_EQ(on_device.kind, MemoryKind::cuda_device);
  EXPECT_EQ(on_device.buffer_id, buffer.memory().buffer_id);
  EXPECT_EQ(on_host.kind, MemoryKind::host);
}

char static_data[64];

// Memory of the driver is never classified as static data or heap of the program.
TEST_F(MemoryTest, StaticDataAndHeapNeedNoQuery) {
  const auto small = std::make_unique<char[]>(100);  // in the brk heap
  static char local_static[64];
  const unsigned long before = cuda().emulated() ? cuda().calls("cuPointerGetAttributes") : 0;
  EXPECT_TRUE(device::host_without_query(static_data));
  EXPECT_TRUE(device::host_without_query(local_static));
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers do not use the brk heap
  EXPECT_TRUE(device::host_without_query(small.get()));
#endif
  EXPECT_EQ(cuda().emulated() ? cuda().calls("cuPointerGetAttributes") : 0, before);
  for (const Kind kind : {Kind::pinned, Kind::device, Kind::managed, Kind::pool, Kind::mapped}) {
    const Buffer buffer(kind, 10000);
    EXPECT_FALSE(device::host_without_query(buffer.data())) << name(kind);
    EXPECT_FALSE(device::host_without_query(buffer.data() + 9999)) << name(kind);
  }
}

TEST_F(MemoryTest, StackIsHostWithoutAQuery) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "locals are not on the stack";
#endif
  char local[64] = {};
  const unsigned long before = cuda().emulated() ? cuda().calls("cuPointerGetAttributes") : 0;
  EXPECT_EQ(device::classify(local).kind, MemoryKind::host);
  std::thread([] {
    char in_thread[64] = {};
    EXPECT_EQ(device::classify(in_thread).kind, MemoryKind::host);
  }).join();
  if (cuda().emulated()) {
    EXPECT_EQ(cuda().calls("cuPointerGetAttributes"), before);
  }
}

// A query of the type alone comes first while the buffers are host memory.
TEST_F(MemoryTest, OneQueryPerCall) {
  if (!cuda().emulated()) GTEST_SKIP() << "needs the emulated driver's counters";
  const Buffer buffer(Kind::device, 4096);
  const auto host = std::make_unique<char[]>(100);
  const auto queries = [&](const void* p, bool on_device) {
    const unsigned long before = cuda().calls("cuPointerGetAttributes");
    EXPECT_EQ(device::classify(p).on_device(), on_device);
    return cuda().calls("cuPointerGetAttributes") - before;
  };
  EXPECT_LE(queries(buffer.data(), true), 2u);
  EXPECT_EQ(queries(buffer.data(), true), 1u);
  EXPECT_EQ(queries(host.get(), false), 1u);
  EXPECT_EQ(queries(host.get(), false), 1u);
  EXPECT_EQ(queries(buffer.data(), true), 2u);
  EXPECT_EQ(queries(buffer.data(), true), 1u);
  EXPECT_EQ(cuda().calls("cuPointerGetAttribute"), 0u);
}

TEST_F(MemoryTest, ReusedAddressHasANewIdentity) {
  uint64_t first = 0, second = 0;
  uintptr_t base = 0;
  {
    const Buffer buffer(Kind::device, 1 << 20);
    first = buffer.memory().buffer_id;
    base = buffer.memory().base;
  }
  const Buffer buffer(Kind::device, 1 << 20);
  second = buffer.memory().buffer_id;
  EXPECT_NE(first, second);
  if (cuda().emulated()) {
    EXPECT_EQ(buffer.memory().base, base) << "the emulator reuses addresses at once";
  }
}

TEST_F(MemoryTest, FailedQueryForbidsCpuAccess) {
  if (!cuda().emulated()) GTEST_SKIP() << "needs fault injection";
  const Buffer host(Kind::host, 64), other(Kind::host, 64);
  ASSERT_EQ(cuda().fail("cuPointerGetAttributes:1:719"), 0);
  const Memory memory = host.memory();
  EXPECT_TRUE(memory.on_device());
  EXPECT_EQ(memory.fault, 719);
  const Status copied = device::copy(host.data(), memory, other.data(), other.memory(), 64);
  ASSERT_FALSE(copied.ok());
  EXPECT_NE(copied.error().message().find("cannot be classified"), std::string::npos)
      << copied.error().message();
}

TEST_F(MemoryTest, DeviceProperties) {
  auto list = device::devices(device::Initialise::no);
  ASSERT_OK(list);
  ASSERT_EQ(list->size(), static_cast<size_t>(cuda().devices));
  for (const device::DeviceInfo& info : *list) {
    EXPECT_FALSE(info.name.empty());
    EXPECT_GT(info.memory, size_t{1} << 30);
    EXPECT_GE(info.capability_major, 5);
    EXPECT_TRUE(info.context_active);
    auto found = device::find_device({info.uuid, 0});
    ASSERT_OK(found);
    EXPECT_EQ(*found, info.ordinal);
    EXPECT_EQ(device::text(info.uuid).size(), 40u);
  }
  EXPECT_EQ(device::only_active_device(), cuda().devices == 1 ? 0 : -1);
  device::Uuid strange{};
  const auto hidden = device::find_device({strange, 0});
  ASSERT_OK(hidden);
  EXPECT_EQ(*hidden, -1);
  EXPECT_EQ(device::id_of(99).error().code(), Errc::arg);
}

TEST_F(MemoryTest, ComputeModeAndMps) {
  const char* mps = std::getenv("EMUCUDA_MPS");
  const char* portion = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  const auto mode = device::compute_mode(0);
  const auto enabled = device::mps_enabled(0);
  const auto multiprocessors = device::multiprocessors(0);
  ASSERT_OK(mode);
  ASSERT_OK(multiprocessors);
  EXPECT_GE(*multiprocessors, 1);
  EXPECT_FALSE(device::mps_enabled(99).ok());
  if (!cuda().emulated()) return;
  ASSERT_OK(enabled);
  EXPECT_EQ(*enabled, mps != nullptr);
  EXPECT_EQ(*mode, mps != nullptr ? device::ComputeMode::exclusive_process : device::ComputeMode::shared);
  EXPECT_EQ(*multiprocessors, portion != nullptr ? 33 : 132);
}

using MemoryDeathTest = MemoryTest;

TEST_F(MemoryDeathTest, HostCodeTrapsOnDeviceMemory) {
  const Buffer buffer(Kind::device, 4096), pool(Kind::pool, 4096);
  EXPECT_DEATH({ [[maybe_unused]] volatile char c = buffer.data()[0]; }, "");
  EXPECT_DEATH(buffer.data()[0] = 1, "");
  EXPECT_DEATH(pool.data()[0] = 1, "");
}

TEST_F(MemoryTest, NoDriverNoQuery) {
  device::close();
  EXPECT_FALSE(device::available());
  EXPECT_FALSE(device::absence().empty());
  auto heap = std::make_unique<char[]>(64);
  constexpr int kCalls = 1'000'000;
  const auto start = std::chrono::steady_clock::now();
  int hosts = 0;
  for (int i = 0; i < kCalls; ++i) hosts += device::classify(heap.get() + i % 64).kind == MemoryKind::host;
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(hosts, kCalls);
  EXPECT_LT(time.count() / kCalls, 100) << "ns a call";
  ASSERT_OK(device::open());
}

}  // namespace
}  // namespace weft::test
