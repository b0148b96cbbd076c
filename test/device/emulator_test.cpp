// SPDX-License-Identifier: BSD-3-Clause
// The emulated driver itself: kernels, implicit synchronisation, batches.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "cuda_test_support.hpp"
#include "device/kernel/copy.hpp"
#include "emulator_calls.hpp"

namespace weft::test {
namespace {

namespace kernel = device::kernel;
using device::cuda::Event;
using Function = void*;
using Module = void*;

struct CopyAttributes {
  int access_order = 1;
  int hints[4] = {};
  unsigned flags = 0;
};

class Emulator : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    ASSERT_EQ(call("cuModuleLoadData", &module_, static_cast<const void*>("an image")), 0);
    ASSERT_EQ(call("cuStreamCreate", &stream_, 1u), 0);
  }
  void TearDown() override {
    exported<void (*)(unsigned)>("emucuda_kernels")(128);
    exported<void (*)(unsigned)>("emucuda_resident_kernel_exits")(0);
    EXPECT_EQ(call("cuStreamDestroy_v2", stream_), 0);
    EXPECT_EQ(call("cuModuleUnload", module_), 0);
    CudaTest::TearDown();
  }

  template <class... P>
  Code launch(Stream stream, const char* name, P... parameters) {
    Function function = nullptr;
    EXPECT_EQ(call("cuModuleGetFunction", &function, module_, name), 0) << name;
    void* list[] = {&parameters...};
    return call("cuLaunchKernel", function, 1u, 1u, 1u, 128u, 1u, 1u, 0u, stream, static_cast<void**>(list),
                static_cast<void**>(nullptr));
  }

  /// Loads the kernel, so that later launches do not wait.
  void load(const char* name) {
    Function function = nullptr;
    EXPECT_EQ(call("cuModuleGetFunction", &function, module_, name), 0) << name;
    EXPECT_EQ(call("cuFuncLoad", function), 0) << name;
  }

  static unsigned long waits(unsigned long* longest) {
    return exported<unsigned long (*)(int, unsigned long*)>("emucuda_resident_kernel_waits")(0, longest);
  }

  Module module_ = nullptr;
  Stream stream_ = nullptr;
};

/// Ring, status and memory of a resident kernel, and their host side.
class Doorbell {
 public:
  Doorbell()
      : shared_(Buffer::Kind::pinned, sizeof(Shared)),
        memory_(Buffer::Kind::device, sizeof(kernel::ResidentKernelParams::Memory)) {
    std::memset(shared_.data(), 0, sizeof(Shared));
    memory_.write(std::vector<char>(memory_.size(), 0));
  }
  [[nodiscard]] kernel::ResidentKernelParams instance(uint32_t first, uint32_t idle_timeout_ns,
                                                      uint32_t lifetime_ns) {
    return {address_of(shared().ring),
            address_of(&shared().status),
            address_of(memory_.data()),
            first,
            ++instance_,
            idle_timeout_ns,
            lifetime_ns,
            0};
  }
  void ring(uint32_t sequence, const void* dst, const void* src, uint32_t bytes, uint32_t blocks = 1) {
    write(sequence, {low(dst), high(dst), low(src), high(src), bytes, blocks, 0, 0});
  }
  /// Several copies by one command; the kernel must be able to access the items.
  void ring_batch(uint32_t sequence, const void* items, uint32_t count) {
    write(sequence, {0, 0, low(items), high(items), 0, 1, count, 0});
  }
  void write(uint32_t sequence, const std::array<uint32_t, 8>& words) {
    kernel::Command& line = shared().ring[sequence % kernel::ResidentKernelParams::kSlots];
    for (size_t i = 0; i < 8; ++i)
      __atomic_store_n(reinterpret_cast<uint64_t*>(&line.pairs[i]), words[i] | uint64_t{sequence} << 32,
                       __ATOMIC_RELEASE);
  }
  [[nodiscard]] kernel::ResidentKernelStatus status() {
    const uint64_t word = __atomic_load_n(&shared().status, __ATOMIC_ACQUIRE);
    return {static_cast<uint32_t>(word), static_cast<uint16_t>(word >> 32),
            static_cast<uint16_t>(word >> 48)};
  }
  void wait_done(uint32_t sequence) {
    while (status().done != sequence && status().ended != instance_) ::sched_yield();
  }
  void wait_ended() {
    while (status().ended != instance_) ::sched_yield();
  }

 private:
  struct Shared {
    kernel::Command ring[kernel::ResidentKernelParams::kSlots];
    uint64_t status;
  };
  [[nodiscard]] Shared& shared() const { return *reinterpret_cast<Shared*>(shared_.data()); }
  static uint32_t low(const void* p) { return static_cast<uint32_t>(address_of(p)); }
  static uint32_t high(const void* p) { return static_cast<uint32_t>(address_of(p) >> 32); }

  Buffer shared_, memory_;
  uint32_t instance_ = 0;
};

constexpr uint32_t kLong = 2'000'000'000;  // ns

/// Host state and device words of a batch copy launch.
class BatchLaunch {
 public:
  BatchLaunch()
      : line_(Buffer::Kind::pinned, sizeof(kernel::BatchCopyParams::HostState)),
        words_(Buffer::Kind::device, 64) {
    std::memset(line_.data(), 0, line_.size());
    words_.write(std::vector<char>(words_.size(), 0));
  }
  [[nodiscard]] kernel::BatchCopyParams of(std::initializer_list<kernel::CopyItem> items) {
    kernel::BatchCopyParams list{};
    list.host_state = address_of(line_.data());
    list.memory = address_of(words_.data());
    list.number = ++number_;
    list.chunk = 512;
    for (const kernel::CopyItem& item : items) {
      list.items[list.count++] = item;
      list.chunks += static_cast<uint32_t>(kernel::BatchCopyParams::chunks_of(item.bytes, list.chunk));
    }
    return list;
  }
  void cancel(uint32_t number) {
    std::vector<char> bytes(sizeof number);
    std::memcpy(bytes.data(), &number, sizeof number);
    words_.write(bytes, (number & 1) * sizeof(kernel::CancellableLaunch::Words) +
                            offsetof(kernel::CancellableLaunch::Words, cancel));
  }
  [[nodiscard]] uint32_t done() { return __atomic_load_n(&line().done, __ATOMIC_ACQUIRE); }
  [[nodiscard]] uint64_t state() { return __atomic_load_n(&line().state, __ATOMIC_ACQUIRE); }

 private:
  [[nodiscard]] kernel::BatchCopyParams::HostState& line() const {
    return *reinterpret_cast<kernel::BatchCopyParams::HostState*>(line_.data());
  }
  Buffer line_, words_;
  uint32_t number_ = 0;
};

TEST_F(Emulator, BatchCopyInOneLaunch) {
  Buffer from(Buffer::Kind::device, 4096), pinned(Buffer::Kind::pinned, 4096), to(Buffer::Kind::device, 4096);
  from.write(pattern(4096, 1));
  pinned.write(pattern(4096, 2));
  BatchLaunch launches;
  auto expected = pattern(4096, 1);
  const auto rest = pattern(4096, 2);
  std::copy(rest.begin() + 1000, rest.end(), expected.begin() + 1000);
  for (uint32_t number = 1; number < 4; ++number) {
    to.write(std::vector<char>(4096, 0));
    const auto list = launches.of({{address_of(to.data()), address_of(from.data()), 1000},
                                   {address_of(to.data() + 1000), address_of(pinned.data() + 1000), 3096}});
    ASSERT_EQ(launch(stream_, "weft_batch_copy", list), 0);
    ASSERT_EQ(cuda().cuStreamSynchronize(stream_), 0);
    EXPECT_EQ(to.read(), expected);
    EXPECT_EQ(launches.done(), number);
  }
}

TEST_F(Emulator, CancelledBatchCopyDoesNothing) {
  Buffer from(Buffer::Kind::device, 4096), to(Buffer::Kind::device, 4096);
  from.write(pattern(4096, 1));
  to.write(pattern(4096, 2));
  BatchLaunch launches;
  const auto list = launches.of({{address_of(to.data()), address_of(from.data()), 4096}});
  launches.cancel(1);
  ASSERT_EQ(launch(stream_, "weft_batch_copy", list), 0);
  ASSERT_EQ(cuda().cuStreamSynchronize(stream_), 0);
  EXPECT_EQ(to.read(), pattern(4096, 2));
  EXPECT_EQ(launches.done(), 0u);
  EXPECT_EQ(launches.state(), uint64_t{1} << 32 | kernel::BatchCopyParams::cancelled);
  const auto next = launches.of({{address_of(to.data()), address_of(from.data()), 4096}});
  ASSERT_EQ(launch(stream_, "weft_batch_copy", next), 0);
  ASSERT_EQ(cuda().cuStreamSynchronize(stream_), 0);
  EXPECT_EQ(to.read(), pattern(4096, 1));
}

TEST_F(Emulator, ResidentKernelServesCommandsInOrderAndEnds) {
  constexpr uint32_t kCommands = 100;
  Doorbell doorbell;
  Buffer from(Buffer::Kind::pinned, 64), to(Buffer::Kind::pinned, 64 * kCommands);
  uint32_t sent = 0;
  ASSERT_EQ(launch(stream_, "weft_resident_kernel", doorbell.instance(1, 3'000'000, kLong)), 0);
  while (sent < kCommands) {
    from.write(pattern(64, sent));  // the source changes between the commands
    ++sent;
    doorbell.ring(sent, to.data() + size_t{64} * (sent - 1), from.data(), 64);
    doorbell.wait_done(sent);
    EXPECT_EQ(doorbell.status().ended, 0u);
  }
  const auto bytes = to.read();
  for (uint32_t i = 0; i < kCommands; ++i)
    EXPECT_EQ(std::vector<char>(bytes.begin() + 64 * i, bytes.begin() + 64 * (i + 1)), pattern(64, i));
  EXPECT_EQ(call("cuStreamQuery", stream_), device::cuda::kNotReady);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream_), 0);
  EXPECT_EQ(doorbell.status().done, kCommands);
  EXPECT_EQ(doorbell.status().ended, 1u);
}

TEST_F(Emulator, ResidentKernelEndsWhenIdleAndOnRequest) {
  Doorbell doorbell;
  Buffer from(Buffer::Kind::device, 64), to(Buffer::Kind::pinned, 64);
  from.write(pattern(64, 7));
  for (const uint32_t sequence : {0xFFFFFFFFu, 0u, 1u}) {
    doorbell.ring(sequence, to.data(), from.data(), 64);
    ASSERT_EQ(launch(stream_, "weft_resident_kernel", doorbell.instance(sequence, 100'000, kLong)), 0);
    doorbell.wait_ended();
    EXPECT_EQ(doorbell.status().done, sequence);
    EXPECT_EQ(doorbell.status().started, doorbell.status().ended);
  }
  ASSERT_EQ(launch(stream_, "weft_resident_kernel", doorbell.instance(2, kLong, kLong)), 0);
  doorbell.ring(2, to.data(), from.data(), 64, 0);  // end the kernel
  doorbell.wait_ended();
  EXPECT_EQ(doorbell.status().done, 1u);
  EXPECT_EQ(to.read(), pattern(64, 7));
}

TEST_F(Emulator, CommandWithSeveralCopies) {
  Doorbell doorbell;
  Buffer from(Buffer::Kind::device, 256), to(Buffer::Kind::pinned, 256),
      items(Buffer::Kind::pinned, 2 * sizeof(kernel::CopyItem));
  from.write(pattern(256, 3));
  std::memset(to.data(), 0, 256);
  auto* item = reinterpret_cast<kernel::CopyItem*>(items.data());
  item[0] = {address_of(to.data()), address_of(from.data()), 100};
  item[1] = {address_of(to.data() + 100), address_of(from.data() + 100), 156};
  doorbell.ring_batch(1, items.data(), 2);
  ASSERT_EQ(launch(stream_, "weft_resident_kernel", doorbell.instance(1, 100'000, kLong)), 0);
  doorbell.wait_ended();
  EXPECT_EQ(doorbell.status().done, 1u);
  EXPECT_EQ(to.read(), pattern(256, 3));
}

TEST_F(Emulator, AllocationWaitsForTheResidentKernel) {
  constexpr uint32_t kLife = 1'000'000;
  Doorbell doorbell;
  Buffer from(Buffer::Kind::pinned, 64), to(Buffer::Kind::pinned, 64);
  unsigned long longest = 0;
  const unsigned long before = waits(&longest);
  doorbell.ring(1, to.data(), from.data(), 64);
  ASSERT_EQ(launch(stream_, "weft_resident_kernel", doorbell.instance(1, kLong, kLife)), 0);
  doorbell.wait_done(1);
  EXPECT_EQ(doorbell.status().ended, 0u);
  const Buffer another(Buffer::Kind::device, 64);
  EXPECT_EQ(doorbell.status().ended, 1u);
  EXPECT_EQ(waits(&longest), before + 1);
  EXPECT_GT(longest, kLife / 2);
  EXPECT_LE(longest, kLife + 1000);
}

TEST_F(Emulator, OneKernelAtATime) {
  exported<void (*)(unsigned)>("emucuda_kernels")(1);
  Doorbell doorbell;
  Buffer flag(Buffer::Kind::pinned, 4), to(Buffer::Kind::pinned, 64);
  const auto set = [&](uint32_t value) {
    __atomic_store_n(reinterpret_cast<uint32_t*>(flag.data()), value, __ATOMIC_RELEASE);
  };
  set(0);
  load("weft_resident_kernel");
  Stream second = nullptr;
  ASSERT_EQ(call("cuStreamCreate", &second, 1u), 0);
  ASSERT_EQ(launch(stream_, "emucuda_spin", address_of(flag.data()), uint32_t{1}), 0);
  ASSERT_EQ(launch(second, "weft_resident_kernel", doorbell.instance(1, 50'000, kLong)), 0);
  doorbell.ring(1, to.data(), to.data(), 64);
  for (int i = 0; i < 1000; ++i) ::sched_yield();
  EXPECT_EQ(doorbell.status().done, 0u);
  set(1);
  doorbell.wait_ended();
  EXPECT_EQ(doorbell.status().done, 1u);
  EXPECT_EQ(cuda().cuStreamDestroy_v2(second), 0);
}

// Copies must complete even if the GPU is full and no kernel can start.
TEST_F(Emulator, FullGpuDoesNotBlockSingleCopies) {
  Buffer flag(Buffer::Kind::pinned, 4), from(Buffer::Kind::device, 4096), to(Buffer::Kind::device, 4096);
  flag.write({0, 0, 0, 0});
  from.write(pattern(4096, 7));
  const Memory dst = to.memory(), src = from.memory();
  EXPECT_OK(device::copy(to.data(), dst, from.data(), src, 8));  // creates all objects of the first use
  ASSERT_EQ(launch(stream_, "emucuda_spin", address_of(flag.data()), uint32_t{1}), 0);
  exported<void (*)(unsigned)>("emucuda_kernels")(1);
  for (int i = 0; i < 200; ++i) EXPECT_OK(device::copy(to.data(), dst, from.data(), src, 4096));
  EXPECT_EQ(call("cuStreamQuery", stream_), device::cuda::kNotReady);
  __atomic_store_n(reinterpret_cast<uint32_t*>(flag.data()), 1u, __ATOMIC_RELEASE);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream_), 0);
  EXPECT_EQ(to.read(), pattern(4096, 7));
}

TEST_F(Emulator, ResidentKernelsExitAtRandomBetweenCommands) {
  exported<void (*)(unsigned)>("emucuda_resident_kernel_exits")(12345);
  constexpr uint32_t kCommands = 200;
  Doorbell doorbell;
  Buffer from(Buffer::Kind::device, 64), to(Buffer::Kind::pinned, 64);
  uint32_t done = 0, instances = 0;
  while (done < kCommands) {
    ASSERT_EQ(launch(stream_, "weft_resident_kernel", doorbell.instance(done + 1, kLong, kLong)), 0);
    ++instances;
    while (doorbell.status().ended != instances) {
      if (doorbell.status().done == done && done < kCommands)
        doorbell.ring(done + 1, to.data(), from.data(), 64);
      done = doorbell.status().done;
      ::sched_yield();
    }
    done = doorbell.status().done;
  }
  EXPECT_GT(instances, 1u);
}

TEST_F(Emulator, KernelCannotAccessMemoryOfAnotherGpu) {
  if (cuda().devices < 2) GTEST_SKIP() << "one GPU";
  Buffer there(Buffer::Kind::device, 64, 1);
  Context own = nullptr;
  ASSERT_EQ(cuda().cuCtxCreate_v2(&own, 0, 0), 0);
  const auto attempt = [&](bool enabled) {
    Module module = nullptr;
    Function function = nullptr;
    Stream stream = nullptr;
    Address here = 0;
    EXPECT_EQ(cuda().cuMemAlloc_v2(&here, 64), 0);
    const Code code = enabled ? call("cuCtxEnablePeerAccess", cuda().primary[1], 0u) : 0;
    EXPECT_EQ(code, 0);
    EXPECT_EQ(call("cuModuleLoadData", &module, static_cast<const void*>("an image")), 0);
    EXPECT_EQ(call("cuModuleGetFunction", &function, module, "weft_batch_copy"), 0);
    EXPECT_EQ(call("cuStreamCreate", &stream, 1u), 0);
    BatchLaunch launches;
    cuda().cuCtxSetCurrent(own);
    kernel::BatchCopyParams list = launches.of({{here, address_of(there.data()), 64}});
    void* parameters[] = {&list};
    EXPECT_EQ(call("cuLaunchKernel", function, 1u, 1u, 1u, 32u, 1u, 1u, 0u, stream,
                   static_cast<void**>(parameters), static_cast<void**>(nullptr)),
              0);
    return cuda().cuStreamSynchronize(stream);
  };
  EXPECT_EQ(attempt(true), 0);
  EXPECT_EQ(cuda().cuCtxDestroy_v2(own), 0);
  ASSERT_EQ(cuda().cuCtxCreate_v2(&own, 0, 0), 0);
  EXPECT_EQ(attempt(false), device::cuda::kIllegalAddress);
  EXPECT_EQ(cuda().cuCtxDestroy_v2(own), 0);
  cuda().cuCtxSetCurrent(cuda().primary[0]);
}

TEST_F(Emulator, BatchesByTheVersionOfTheInterface) {
  Buffer from(Buffer::Kind::device, 4096), to(Buffer::Kind::device, 4096);
  from.write(pattern(4096, 3));
  Address dsts[] = {address_of(to.data() + 2048), address_of(to.data())};
  Address srcs[] = {address_of(from.data() + 2048), address_of(from.data())};
  size_t sizes[] = {2048, 2048}, index = 0, failed = 0;
  CopyAttributes attributes;
  const auto find = [](int version) {
    void* function = nullptr;
    int status = 0;
    call("cuGetProcAddress_v2", "cuMemcpyBatchAsync", &function, version, uint64_t{0}, &status);
    return function;
  };
  EXPECT_EQ(find(12000), nullptr);
  const auto old = reinterpret_cast<Code (*)(Address*, Address*, size_t*, size_t, CopyAttributes*, size_t*,
                                             size_t, size_t*, Stream)>(find(12080));
  const auto recent = reinterpret_cast<Code (*)(Address*, Address*, size_t*, size_t, CopyAttributes*, size_t*,
                                                size_t, Stream)>(find(13000));
  ASSERT_NE(old, nullptr);
  ASSERT_NE(recent, nullptr);
  EXPECT_EQ(recent(dsts, srcs, sizes, 2, &attributes, &index, 0, stream_), device::cuda::kInvalidValue);
  ASSERT_EQ(old(dsts, srcs, sizes, 2, &attributes, &index, 1, &failed, stream_), 0);
  ASSERT_EQ(cuda().cuStreamSynchronize(stream_), 0);
  EXPECT_EQ(to.read(), pattern(4096, 3));
  from.write(pattern(4096, 4));
  ASSERT_EQ(recent(dsts, srcs, sizes, 2, &attributes, &index, 1, stream_), 0);
  ASSERT_EQ(cuda().cuStreamSynchronize(stream_), 0);
  EXPECT_EQ(to.read(), pattern(4096, 4));
  sizes[1] = 1 << 20;  // beyond the allocation
  EXPECT_EQ(old(dsts, srcs, sizes, 2, &attributes, &index, 1, &failed, stream_), device::cuda::kInvalidValue);
  EXPECT_EQ(failed, 1u);
}

TEST_F(Emulator, StrictAbortsIfThePinnedSourceOfACopyChangesTooEarly) {
  Buffer from(Buffer::Kind::pinned, 4096), to(Buffer::Kind::device, 4096);
  from.write(pattern(4096, 1));
  const auto copy = [&](bool early) {
    if (early) cuda().delay(100'000);  // the copy runs after the change
    auto ticket =
        device::copy_async(to.data(), to.memory(), from.data(), from.memory(), 4096, device::StreamRole::in);
    if (early) from.data()[4095] ^= 1;
    return ticket.ok() && device::wait(*ticket).ok();
  };
  EXPECT_DEATH((void)copy(true), "changed before the copy ran");
  EXPECT_TRUE(copy(false));
  EXPECT_EQ(to.read(), pattern(4096, 1));
}

}  // namespace
}  // namespace weft::test
