// SPDX-License-Identifier: BSD-3-Clause
// Copies between all memory kinds, delayed streams, faults, destroyed contexts, and guarantees: own streams
// only, no synchronisation, the caller's current context unchanged.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "cuda_test_support.hpp"
#include "device/info.hpp"
#include "device/pinned.hpp"
#include "heap_counter.hpp"

namespace weft::test {
namespace {

using device::StreamRole;
using Kind = Buffer::Kind;
constexpr Kind kKinds[] = {Kind::host, Kind::pinned, Kind::device, Kind::managed, Kind::pool, Kind::mapped};

class CopyTest : public CudaTest {};

void expect_equal(const std::vector<char>& seen, const std::vector<char>& expected, const std::string& what) {
  ASSERT_EQ(seen.size(), expected.size());
  for (size_t i = 0; i < seen.size(); ++i) ASSERT_EQ(seen[i], expected[i]) << what << ", byte " << i;
}

TEST_F(CopyTest, AllPairsOfKinds) {
  constexpr size_t kRoom = 300'000;
  for (const Kind from : kKinds) {
    for (const Kind to : kKinds) {
      const std::string what = std::string(name(from)) + " to " + name(to);
      Buffer src(from, kRoom), dst(to, kRoom);
      unsigned seed = 1;
      for (const size_t n : {size_t{1}, size_t{8}, size_t{4097}, size_t{262'147}}) {
        auto expected = pattern(kRoom, ++seed);
        const auto bytes = pattern(kRoom, ++seed);
        src.write(bytes);
        dst.write(expected);
        std::memcpy(expected.data() + 3, bytes.data() + 5, n);
        EXPECT_OK(device::copy(dst.data() + 3, dst.memory(), src.data() + 5, src.memory(), n));
        expect_equal(dst.read(), expected, what);
      }
    }
  }
}

TEST_F(CopyTest, BetweenDevicesOfOneProcess) {
  if (cuda().devices < 2) GTEST_SKIP() << "needs 2 devices";
  Buffer here(Kind::device, 100'000, 0), there(Kind::device, 100'000, 1);
  const auto bytes = pattern(100'000, 7);
  here.write(bytes);
  EXPECT_OK(device::copy(there.data(), there.memory(), here.data(), here.memory(), 100'000));
  expect_equal(there.read(), bytes, "0 to 1");
  const auto more = pattern(100'000, 8);
  there.write(more);
  EXPECT_OK(device::copy(here.data(), here.memory(), there.data(), there.memory(), 100'000));
  expect_equal(here.read(), more, "1 to 0");
}

TEST_F(CopyTest, ZeroBytesCompleteAtOnce) {
  const Buffer a(Kind::device, 16), b(Kind::device, 16);
  auto ticket = device::copy_async(a.data(), a.memory(), b.data(), b.memory(), 0, StreamRole::in);
  ASSERT_OK(ticket);
  EXPECT_FALSE(ticket->pending());
  EXPECT_TRUE(*device::done(*ticket));
}

TEST_F(CopyTest, Batches) {
  constexpr size_t kPitch = 1000, kWidth = 301, kRows = 57, kRoom = kPitch * kRows;
  for (const Kind from : {Kind::device, Kind::pinned, Kind::host}) {
    for (const Kind to : {Kind::device, Kind::managed, Kind::pinned, Kind::host}) {
      Buffer src(from, kRoom), dst(to, kRoom);
      const auto bytes = pattern(kRoom, 3);
      auto expected = pattern(kRoom, 4);
      src.write(bytes);
      dst.write(expected);
      std::vector<device::CopyOp> pieces;
      for (size_t row = 0; row < kRows; ++row)
        pieces.push_back(
            {dst.data() + row * kPitch, src.data() + row * kPitch + 9, row % 3 == 0 ? 0 : kWidth});
      for (size_t row = 0; row < kRows; ++row)
        if (row % 3 != 0)
          std::memcpy(expected.data() + row * kPitch, bytes.data() + row * kPitch + 9, kWidth);
      auto list =
          device::copy_batch_async(pieces.data(), pieces.size(), dst.memory(), src.memory(), StreamRole::out);
      ASSERT_OK(list);
      EXPECT_OK(device::wait(*list));
      expect_equal(dst.read(), expected, std::string("pieces, ") + name(from) + " to " + name(to));
    }
  }
}

TEST_F(CopyTest, DelayedStreamsDoNotCompleteEarly) {
  if (!cuda().emulated()) GTEST_SKIP() << "needs the emulated driver's delay";
  const bool polled = std::getenv("EMUCUDA_RUN") != nullptr;
  if (polled) GTEST_SKIP() << "operations run on polls only";
  Buffer src(Kind::device, 4096), dst(Kind::device, 4096);
  const auto old = pattern(4096, 1), bytes = pattern(4096, 2);
  src.write(bytes);
  dst.write(old);
  cuda().delay(20'000);
  auto ticket = device::copy_async(dst.data(), dst.memory(), src.data(), src.memory(), 4096, StreamRole::in);
  ASSERT_OK(ticket);
  EXPECT_TRUE(ticket->pending());
  const auto at_once = device::done(*ticket);
  ASSERT_OK(at_once);
  EXPECT_FALSE(*at_once);
  expect_equal(dst.read(), old, "before the stream ran");
  EXPECT_OK(device::wait(*ticket));
  EXPECT_FALSE(ticket->pending());
  cuda().delay(30);
  expect_equal(dst.read(), bytes, "after");
}

TEST_F(CopyTest, ManyTicketsInOneStreamFinishInAnyPollingOrder) {
  constexpr size_t kCount = 40, kSize = 1000;
  Buffer src(Kind::device, kCount * kSize), dst(Kind::pinned, kCount * kSize);
  const auto bytes = pattern(kCount * kSize, 11);
  src.write(bytes);
  std::vector<device::Ticket> tickets;
  for (size_t i = 0; i < kCount; ++i) {
    auto ticket = device::copy_async(dst.data() + i * kSize, dst.memory(), src.data() + i * kSize,
                                     src.memory(), kSize, i % 2 == 0 ? StreamRole::in : StreamRole::out);
    ASSERT_OK(ticket);
    tickets.push_back(std::move(*ticket));
  }
  for (size_t i = kCount; i-- > 0;) {
    EXPECT_OK(device::wait(tickets[i]));
    EXPECT_EQ(std::memcmp(dst.data() + i * kSize, bytes.data() + i * kSize, kSize), 0) << i;
  }
}

TEST_F(CopyTest, DroppedTicketsDoNotCancel) {
  Buffer src(Kind::device, 1000), dst(Kind::device, 1000);
  const auto bytes = pattern(1000, 5);
  src.write(bytes);
  for (int i = 0; i < 10; ++i)
    ASSERT_OK(device::copy_async(dst.data(), dst.memory(), src.data(), src.memory(), 1000, StreamRole::aux));
  auto last = device::copy_async(dst.data(), dst.memory(), src.data(), src.memory(), 1000, StreamRole::aux);
  ASSERT_OK(last);
  EXPECT_OK(device::wait(*last));
  expect_equal(dst.read(), bytes, "last");
}

TEST_F(CopyTest, PathAllocatesNothing) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  if (cuda().emulated())
    GTEST_SKIP() << "a sanitizer makes the emulated driver use this program's operator new";
#endif
  Buffer src(Kind::device, 64), dst(Kind::device, 64);
  const Memory from = src.memory(), to = dst.memory();
  const auto once = [&] {
    auto ticket = device::copy_async(dst.data(), to, src.data(), from, 64, StreamRole::in);
    return ticket.ok() && device::wait(*ticket).ok();
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(once());  // creates the stream, and events if used
  const auto before = heap_allocations();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(once());
  EXPECT_EQ(heap_allocations(), before);
}

TEST_F(CopyTest, ThreadsWithoutAContext) {
  constexpr size_t kSize = 10'000;
  Buffer src(Kind::device, 4 * kSize), dst(Kind::device, 4 * kSize);
  const auto bytes = pattern(4 * kSize, 21);
  src.write(bytes);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i)
        if (!device::copy(dst.data() + t * kSize, dst.memory(), src.data() + t * kSize, src.memory(), kSize)
                 .ok())
          ++failures;
      Context context = nullptr;
      if (cuda().cuCtxGetCurrent(&context) != 0 || context != nullptr) ++failures;  // unchanged
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  expect_equal(dst.read(), bytes, "threads");
}

TEST_F(CopyTest, CallersContextIsUnchanged) {
  Context own = nullptr;
  ASSERT_EQ(cuda().cuCtxCreate_v2(&own, 0, 0), 0);  // becomes current
  Buffer src(Kind::device, 512), dst(Kind::device, 512);
  const auto bytes = pattern(512, 1);
  src.write(bytes);
  ASSERT_EQ(cuda().cuCtxSetCurrent(own), 0);
  EXPECT_OK(device::copy(dst.data(), dst.memory(), src.data(), src.memory(), 512));
  Context current = nullptr;
  ASSERT_EQ(cuda().cuCtxGetCurrent(&current), 0);
  EXPECT_EQ(current, own);
  ASSERT_EQ(cuda().cuCtxDestroy_v2(own), 0);
  ASSERT_EQ(cuda().cuCtxSetCurrent(cuda().primary[0]), 0);
  expect_equal(dst.read(), bytes, "copy from another current context");
}

TEST_F(CopyTest, DestroyedContextsAreToleratedAtClose) {
  for (int round = 0; round < 3; ++round) {
    Context own = nullptr;
    ASSERT_EQ(cuda().cuCtxCreate_v2(&own, 0, 0), 0);
    Address src = 0, dst = 0;
    ASSERT_EQ(cuda().cuMemAlloc_v2(&src, 4096), 0);
    ASSERT_EQ(cuda().cuMemAlloc_v2(&dst, 4096), 0);
    auto* to = reinterpret_cast<char*>(dst);
    auto* from = reinterpret_cast<char*>(src);
    EXPECT_EQ(device::classify(to).context, own);
    EXPECT_OK(device::copy(to, device::classify(to), from, device::classify(from), 4096));
    EXPECT_OK(device::lease_pinned(device::classify(to)));
    ASSERT_EQ(cuda().cuCtxDestroy_v2(own), 0);
    ASSERT_EQ(cuda().cuCtxSetCurrent(cuda().primary[0]), 0);
  }
  device::close();
  ASSERT_OK(device::open());
}

TEST_F(CopyTest, ContextRecreatedAtTheSameAddress) {
  // A reset primary context keeps its handle, but Weft's streams in it are destroyed.
  const int last = cuda().devices - 1;
  if (last == 0) GTEST_SKIP() << "needs 2 devices";
  for (int round = 0; round < 2; ++round) {
    {
      Buffer src(Kind::device, 4096, last), dst(Kind::device, 4096, last);
      const auto bytes = pattern(4096, static_cast<unsigned>(round));
      src.write(bytes);
      EXPECT_OK(device::copy(dst.data(), dst.memory(), src.data(), src.memory(), 4096));
      expect_equal(dst.read(), bytes, "round " + std::to_string(round));
    }
    ASSERT_EQ(cuda().cuDevicePrimaryCtxReset_v2(last), 0);
    ASSERT_EQ(cuda().cuDevicePrimaryCtxRetain(&cuda().primary[static_cast<size_t>(last)], last), 0);
  }
}

TEST_F(CopyTest, NoActiveContextIsReported) {
  Memory memory;
  memory.kind = MemoryKind::cuda_device;
  memory.device = cuda().devices;  // no such device
  char byte = 0;
  const Status status = device::copy(&byte, Memory{}, reinterpret_cast<void*>(4096), memory, 1);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code(), Errc::unsupported);
  EXPECT_NE(status.error().message().find("no active context"), std::string::npos)
      << status.error().message();
}

TEST_F(CopyTest, FailedSubmissionIsReportedAndTheNextWorks) {
  if (!cuda().emulated()) GTEST_SKIP() << "needs fault injection";
  Buffer src(Kind::device, 4096), dst(Kind::device, 4096);
  const auto bytes = pattern(4096, 9);
  src.write(bytes);
  ASSERT_OK(device::copy(dst.data(), dst.memory(), src.data(), src.memory(), 1));
  for (const char* fault : {"cuMemcpyAsync:1:1", "cuMemcpyAsync:1:2"}) {
    ASSERT_EQ(cuda().fail(fault), 0);
    const Status status = device::copy(dst.data(), dst.memory(), src.data(), src.memory(), 4096);
    ASSERT_FALSE(status.ok()) << fault;
    EXPECT_NE(status.error().message().find("cuMemcpyAsync"), std::string::npos) << status.error().message();
  }
  EXPECT_OK(device::copy(dst.data(), dst.memory(), src.data(), src.memory(), 4096));
  expect_equal(dst.read(), bytes, "after the faults");
}

TEST_F(CopyTest, FailedFirstUseOfAContextFreesEverything) {
  if (!cuda().emulated()) GTEST_SKIP() << "needs fault injection";
  device::close();
  ASSERT_OK(device::open());
  Buffer src(Kind::device, 4096), dst(Kind::device, 4096);
  const auto bytes = pattern(4096, 9);
  src.write(bytes);
  const unsigned long before = cuda().live();
  ASSERT_EQ(cuda().fail("cuStreamCreateWithPriority:3:2"), 0);
  const Status status = device::copy(dst.data(), dst.memory(), src.data(), src.memory(), 4096);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("stream"), std::string::npos) << status.error().message();
  EXPECT_EQ(cuda().live(), before);
  EXPECT_OK(device::copy(dst.data(), dst.memory(), src.data(), src.memory(), 4096));
  expect_equal(dst.read(), bytes, "after the fault");
}

TEST_F(CopyTest, StreamsThatCannotWriteFlagsUseEvents) {
  if (!cuda().emulated()) GTEST_SKIP() << "needs fault injection";
  const char* method = std::getenv("WEFT_GPU_COMPLETION");
  if (method != nullptr && std::strcmp(method, "auto") != 0) GTEST_SKIP() << "a method is set";
  device::close();
  ASSERT_OK(device::open());
  Buffer src(Kind::device, 4096), dst(Kind::device, 4096);
  const auto bytes = pattern(4096, 9);
  src.write(bytes);
  EXPECT_STREQ(device::completion_method(Memory{}), "none");
  ASSERT_EQ(cuda().fail("cuStreamWriteValue32:1:801"), 0);
  EXPECT_OK(device::copy(dst.data(), dst.memory(), src.data(), src.memory(), 4096));
  EXPECT_STREQ(device::completion_method(dst.memory()), "event");
  expect_equal(dst.read(), bytes, "by events");
  device::close();
  ASSERT_OK(device::open());
}

/// A fault is permanent, so this ends the process; exit code 0 if both copies failed as expected.
[[noreturn]] void copy_on_a_faulting_gpu() {
  Buffer src(Kind::device, 4096), dst(Kind::device, 4096);
  if (!device::copy(dst.data(), dst.memory(), src.data(), src.memory(), 1).ok()) std::_Exit(3);
  cuda().fail("op:1:700");
  const Status status = device::copy(dst.data(), dst.memory(), src.data(), src.memory(), 4096);
  if (status.ok()) std::_Exit(1);
  std::fprintf(stderr, "%s\n", status.error().message().c_str());
  const Status next = device::copy(dst.data(), dst.memory(), src.data(), src.memory(), 4096);
  device::close();
  std::_Exit(next.ok() ? 2 : 0);
}

using CopyDeathTest = CopyTest;
TEST_F(CopyDeathTest, FaultedGpuIsDetectedWithoutFlag) {
  if (!cuda().emulated()) GTEST_SKIP() << "needs fault injection";
  EXPECT_EXIT(copy_on_a_faulting_gpu(), ::testing::ExitedWithCode(0), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(CopyTest, StagingChunksAreCappedAndReused) {
  const Buffer near(Kind::device, 64);
  std::vector<device::PinnedBuffer> leased;
  for (;;) {
    auto chunk = device::lease_pinned(near.memory());
    if (!chunk) {
      EXPECT_EQ(chunk.error().code(), Errc::again);
      break;
    }
    EXPECT_EQ(device::classify(chunk->data()).kind, MemoryKind::host_pinned);
    EXPECT_EQ(chunk->memory().kind, MemoryKind::host_pinned);
    std::memset(chunk->data(), 1, chunk->size());
    leased.push_back(std::move(*chunk));
    ASSERT_LT(leased.size(), 10'000u);
  }
  EXPECT_EQ(leased.size() * leased[0].size(), size_t{8} << 20);
  char* last = leased.back().data();
  leased.pop_back();
  auto again = device::lease_pinned(near.memory());
  ASSERT_OK(again);
  EXPECT_EQ(again->data(), last);
  EXPECT_EQ(device::lease_pinned(Memory{}).error().code(), Errc::unsupported);
}

TEST_F(CopyTest, RegisteredHostMemoryIsVerified) {
  const Buffer near(Kind::device, 64);
  constexpr size_t kSize = 1 << 20;
  auto* memory = static_cast<char*>(std::aligned_alloc(4096, kSize));
  std::memset(memory, 0, kSize);
  auto* proof = reinterpret_cast<uint32_t*>(memory + 4096);
  {
    auto registration = device::register_host(memory, kSize, proof, near.memory());
    if (!registration && !cuda().emulated()) {
      EXPECT_EQ(registration.error().code(), Errc::unsupported);
      std::free(memory);
      GTEST_SKIP() << registration.error().message();
    }
    ASSERT_OK(registration);
    EXPECT_NE(*proof, 0u) << "the GPU wrote";
    EXPECT_EQ(device::classify(memory + 5000).kind, MemoryKind::host_pinned);
  }
  EXPECT_EQ(device::classify(memory + 5000).kind, MemoryKind::host);
  if (cuda().emulated()) {
    ASSERT_EQ(cuda().fail("cuMemHostRegister:1:801"), 0);
    const auto refused = device::register_host(memory, kSize, proof, near.memory());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), Errc::unsupported);
  }
  std::free(memory);
}

}  // namespace
}  // namespace weft::test
