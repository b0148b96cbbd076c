// SPDX-License-Identifier: BSD-3-Clause
// The emulated driver itself: kernels run by their contracts, whoever must wait for them waits, batches.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "cuda_test_support.hpp"
#include "device/kernel/copy.hpp"

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

/// A driver function by its exported name.
template <class F>
F exported(const char* name) {
  static void* library = ::dlopen(std::getenv("WEFT_CUDA_DRIVER"), RTLD_NOW);
  const auto function = reinterpret_cast<F>(::dlsym(library, name));
  EXPECT_NE(function, nullptr) << name;
  return function;
}

template <class... A>
Code call(const char* name, A... arguments) {
  return exported<Code (*)(A...)>(name)(arguments...);
}

Address address_of(const void* p) { return reinterpret_cast<Address>(p); }

class Emulator : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    ASSERT_EQ(call("cuModuleLoadData", &module_, static_cast<const void*>("an image")), 0);
    ASSERT_EQ(call("cuStreamCreate", &stream_, 1u), 0);
  }
  void TearDown() override {
    exported<void (*)(unsigned)>("emucuda_kernels")(128);
    exported<void (*)(unsigned)>("emucuda_copier_exits")(0);
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

  /// As of now a launch of it waits for nothing.
  void load(const char* name) {
    Function function = nullptr;
    EXPECT_EQ(call("cuModuleGetFunction", &function, module_, name), 0) << name;
    EXPECT_EQ(call("cuFuncLoad", function), 0) << name;
  }

  static unsigned long waits(unsigned long* longest) {
    return exported<unsigned long (*)(int, unsigned long*)>("emucuda_copier_waits")(0, longest);
  }

  Module module_ = nullptr;
  Stream stream_ = nullptr;
};

/// A copier's ring, status and memory, and the host's side of them.
class Bell {
 public:
  Bell()
      : shared_(Buffer::Kind::pinned, sizeof(Shared)),
        memory_(Buffer::Kind::device, sizeof(kernel::Copier::Memory)) {
    std::memset(shared_.data(), 0, sizeof(Shared));
    memory_.write(std::vector<char>(memory_.size(), 0));
  }
  [[nodiscard]] kernel::Copier life(uint32_t first, uint32_t linger, uint32_t most) {
    return {address_of(shared().ring),
            address_of(&shared().status),
            address_of(memory_.data()),
            first,
            ++generation_,
            linger,
            most,
            0};
  }
  void ring(uint32_t sequence, const void* dst, const void* src, uint32_t bytes, uint32_t blocks = 1) {
    write(sequence, {low(dst), high(dst), low(src), high(src), bytes, blocks, 0, 0});
  }
  /// So many copies by one command; the items are in memory that the copier reaches.
  void ring_list(uint32_t sequence, const void* items, uint32_t count) {
    write(sequence, {0, 0, low(items), high(items), 0, 1, count, 0});
  }
  void write(uint32_t sequence, const std::array<uint32_t, 8>& words) {
    kernel::Command& line = shared().ring[sequence % kernel::Copier::kSlots];
    for (size_t i = 0; i < 8; ++i)
      __atomic_store_n(reinterpret_cast<uint64_t*>(&line.pairs[i]), words[i] | uint64_t{sequence} << 32,
                       __ATOMIC_RELEASE);
  }
  [[nodiscard]] kernel::Status status() {
    const uint64_t word = __atomic_load_n(&shared().status, __ATOMIC_ACQUIRE);
    return {static_cast<uint32_t>(word), static_cast<uint16_t>(word >> 32),
            static_cast<uint16_t>(word >> 48)};
  }
  void wait_done(uint32_t sequence) {
    while (status().done != sequence && status().gone != generation_) ::sched_yield();
  }
  void wait_gone() {
    while (status().gone != generation_) ::sched_yield();
  }

 private:
  struct Shared {
    kernel::Command ring[kernel::Copier::kSlots];
    uint64_t status;
  };
  [[nodiscard]] Shared& shared() const { return *reinterpret_cast<Shared*>(shared_.data()); }
  static uint32_t low(const void* p) { return static_cast<uint32_t>(address_of(p)); }
  static uint32_t high(const void* p) { return static_cast<uint32_t>(address_of(p) >> 32); }

  Buffer shared_, memory_;
  uint32_t generation_ = 0;
};

constexpr uint32_t kLong = 2'000'000'000;  // ns

/// A list's line and words, and the host's side of them.
class Listed {
 public:
  Listed() : line_(Buffer::Kind::pinned, sizeof(kernel::List::Line)), words_(Buffer::Kind::device, 64) {
    std::memset(line_.data(), 0, line_.size());
    words_.write(std::vector<char>(words_.size(), 0));
  }
  [[nodiscard]] kernel::List of(std::initializer_list<kernel::Item> items) {
    kernel::List list{};
    list.line = address_of(line_.data());
    list.memory = address_of(words_.data());
    list.number = ++number_;
    list.chunk = 512;
    for (const kernel::Item& item : items) {
      list.items[list.count++] = item;
      list.chunks += static_cast<uint32_t>(kernel::List::chunks_of(item.bytes, list.chunk));
    }
    return list;
  }
  void take_back(uint32_t number) {
    std::vector<char> bytes(sizeof number);
    std::memcpy(bytes.data(), &number, sizeof number);
    words_.write(bytes,
                 (number & 1) * sizeof(kernel::Launch::Words) + offsetof(kernel::Launch::Words, cancel));
  }
  [[nodiscard]] uint32_t done() { return __atomic_load_n(&line().done, __ATOMIC_ACQUIRE); }
  [[nodiscard]] uint64_t state() { return __atomic_load_n(&line().state, __ATOMIC_ACQUIRE); }

 private:
  [[nodiscard]] kernel::List::Line& line() const {
    return *reinterpret_cast<kernel::List::Line*>(line_.data());
  }
  Buffer line_, words_;
  uint32_t number_ = 0;
};

TEST_F(Emulator, ACopyListIsDoneInOneLaunch) {
  Buffer from(Buffer::Kind::device, 4096), pinned(Buffer::Kind::pinned, 4096), to(Buffer::Kind::device, 4096);
  from.write(pattern(4096, 1));
  pinned.write(pattern(4096, 2));
  Listed listed;
  auto expected = pattern(4096, 1);
  const auto rest = pattern(4096, 2);
  std::copy(rest.begin() + 1000, rest.end(), expected.begin() + 1000);
  for (uint32_t number = 1; number < 4; ++number) {
    to.write(std::vector<char>(4096, 0));
    const auto list = listed.of({{address_of(to.data()), address_of(from.data()), 1000},
                                 {address_of(to.data() + 1000), address_of(pinned.data() + 1000), 3096}});
    ASSERT_EQ(launch(stream_, "weft_copy_list", list), 0);
    ASSERT_EQ(cuda().cuStreamSynchronize(stream_), 0);
    EXPECT_EQ(to.read(), expected);
    EXPECT_EQ(listed.done(), number);
  }
}

TEST_F(Emulator, AListThatWasTakenBackDoesNothing) {
  Buffer from(Buffer::Kind::device, 4096), to(Buffer::Kind::device, 4096);
  from.write(pattern(4096, 1));
  to.write(pattern(4096, 2));
  Listed listed;
  const auto list = listed.of({{address_of(to.data()), address_of(from.data()), 4096}});
  listed.take_back(1);
  ASSERT_EQ(launch(stream_, "weft_copy_list", list), 0);
  ASSERT_EQ(cuda().cuStreamSynchronize(stream_), 0);
  EXPECT_EQ(to.read(), pattern(4096, 2));
  EXPECT_EQ(listed.done(), 0u);
  EXPECT_EQ(listed.state(), uint64_t{1} << 32 | kernel::List::left);
  const auto next = listed.of({{address_of(to.data()), address_of(from.data()), 4096}});
  ASSERT_EQ(launch(stream_, "weft_copy_list", next), 0);
  ASSERT_EQ(cuda().cuStreamSynchronize(stream_), 0);
  EXPECT_EQ(to.read(), pattern(4096, 1));
}

TEST_F(Emulator, ACopierServesCommandsInOrderAndLeaves) {
  constexpr uint32_t kCommands = 100;
  Bell bell;
  Buffer from(Buffer::Kind::pinned, 64), to(Buffer::Kind::pinned, 64 * kCommands);
  uint32_t rung = 0;
  ASSERT_EQ(launch(stream_, "weft_copier", bell.life(1, 3'000'000, kLong)), 0);
  while (rung < kCommands) {
    from.write(pattern(64, rung));  // the source changes between the bells
    ++rung;
    bell.ring(rung, to.data() + size_t{64} * (rung - 1), from.data(), 64);
    bell.wait_done(rung);
    EXPECT_EQ(bell.status().gone, 0u);
  }
  const auto bytes = to.read();
  for (uint32_t i = 0; i < kCommands; ++i)
    EXPECT_EQ(std::vector<char>(bytes.begin() + 64 * i, bytes.begin() + 64 * (i + 1)), pattern(64, i));
  EXPECT_EQ(call("cuStreamQuery", stream_), device::cuda::kNotReady);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream_), 0);
  EXPECT_EQ(bell.status().done, kCommands);
  EXPECT_EQ(bell.status().gone, 1u);
}

TEST_F(Emulator, ACopierLeavesWhenIdleAndWhenTold) {
  Bell bell;
  Buffer from(Buffer::Kind::device, 64), to(Buffer::Kind::pinned, 64);
  from.write(pattern(64, 7));
  for (const uint32_t sequence : {0xFFFFFFFFu, 0u, 1u}) {
    bell.ring(sequence, to.data(), from.data(), 64);
    ASSERT_EQ(launch(stream_, "weft_copier", bell.life(sequence, 100'000, kLong)), 0);
    bell.wait_gone();
    EXPECT_EQ(bell.status().done, sequence);
    EXPECT_EQ(bell.status().alive, bell.status().gone);
  }
  ASSERT_EQ(launch(stream_, "weft_copier", bell.life(2, kLong, kLong)), 0);
  bell.ring(2, to.data(), from.data(), 64, 0);  // leave
  bell.wait_gone();
  EXPECT_EQ(bell.status().done, 1u);
  EXPECT_EQ(to.read(), pattern(64, 7));
}

TEST_F(Emulator, ACommandMayBeAList) {
  Bell bell;
  Buffer from(Buffer::Kind::device, 256), to(Buffer::Kind::pinned, 256),
      items(Buffer::Kind::pinned, 2 * sizeof(kernel::Item));
  from.write(pattern(256, 3));
  std::memset(to.data(), 0, 256);
  auto* item = reinterpret_cast<kernel::Item*>(items.data());
  item[0] = {address_of(to.data()), address_of(from.data()), 100};
  item[1] = {address_of(to.data() + 100), address_of(from.data() + 100), 156};
  bell.ring_list(1, items.data(), 2);
  ASSERT_EQ(launch(stream_, "weft_copier", bell.life(1, 100'000, kLong)), 0);
  bell.wait_gone();
  EXPECT_EQ(bell.status().done, 1u);
  EXPECT_EQ(to.read(), pattern(256, 3));
}

TEST_F(Emulator, AnAllocationWaitsForTheCopierAsLongAsItLives) {
  constexpr uint32_t kLife = 1'000'000;
  Bell bell;
  Buffer from(Buffer::Kind::pinned, 64), to(Buffer::Kind::pinned, 64);
  unsigned long longest = 0;
  const unsigned long before = waits(&longest);
  bell.ring(1, to.data(), from.data(), 64);
  ASSERT_EQ(launch(stream_, "weft_copier", bell.life(1, kLong, kLife)), 0);
  bell.wait_done(1);
  EXPECT_EQ(bell.status().gone, 0u);
  const Buffer another(Buffer::Kind::device, 64);
  EXPECT_EQ(bell.status().gone, 1u);
  EXPECT_EQ(waits(&longest), before + 1);
  EXPECT_GT(longest, kLife / 2);
  EXPECT_LE(longest, kLife + 1000);
}

TEST_F(Emulator, OneKernelAtATime) {
  exported<void (*)(unsigned)>("emucuda_kernels")(1);
  Bell bell;
  Buffer flag(Buffer::Kind::pinned, 4), to(Buffer::Kind::pinned, 64);
  const auto set = [&](uint32_t value) {
    __atomic_store_n(reinterpret_cast<uint32_t*>(flag.data()), value, __ATOMIC_RELEASE);
  };
  set(0);
  load("weft_copier");
  Stream second = nullptr;
  ASSERT_EQ(call("cuStreamCreate", &second, 1u), 0);
  ASSERT_EQ(launch(stream_, "emucuda_spin", address_of(flag.data()), uint32_t{1}), 0);
  ASSERT_EQ(launch(second, "weft_copier", bell.life(1, 50'000, kLong)), 0);
  bell.ring(1, to.data(), to.data(), 64);
  for (int i = 0; i < 1000; ++i) ::sched_yield();
  EXPECT_EQ(bell.status().done, 0u);
  set(1);
  bell.wait_gone();
  EXPECT_EQ(bell.status().done, 1u);
  EXPECT_EQ(cuda().cuStreamDestroy_v2(second), 0);
}

// What a full GPU keeps from starting must not keep a message from arriving.
TEST_F(Emulator, AFullGpuDoesNotHoldUpSingleCopies) {
  Buffer flag(Buffer::Kind::pinned, 4), from(Buffer::Kind::device, 4096), to(Buffer::Kind::device, 4096);
  flag.write({0, 0, 0, 0});
  from.write(pattern(4096, 7));
  const Memory dst = to.memory(), src = from.memory();
  EXPECT_OK(device::copy(to.data(), dst, from.data(), src, 8));  // what is made on first use is there
  ASSERT_EQ(launch(stream_, "emucuda_spin", address_of(flag.data()), uint32_t{1}), 0);
  exported<void (*)(unsigned)>("emucuda_kernels")(1);
  for (int i = 0; i < 200; ++i) EXPECT_OK(device::copy(to.data(), dst, from.data(), src, 4096));
  EXPECT_EQ(call("cuStreamQuery", stream_), device::cuda::kNotReady);
  __atomic_store_n(reinterpret_cast<uint32_t*>(flag.data()), 1u, __ATOMIC_RELEASE);
  EXPECT_EQ(cuda().cuStreamSynchronize(stream_), 0);
  EXPECT_EQ(to.read(), pattern(4096, 7));
}

TEST_F(Emulator, CopiersLeaveAtRandomBetweenCommands) {
  exported<void (*)(unsigned)>("emucuda_copier_exits")(12345);
  constexpr uint32_t kCommands = 200;
  Bell bell;
  Buffer from(Buffer::Kind::device, 64), to(Buffer::Kind::pinned, 64);
  uint32_t done = 0, lives = 0;
  while (done < kCommands) {
    ASSERT_EQ(launch(stream_, "weft_copier", bell.life(done + 1, kLong, kLong)), 0);
    ++lives;
    while (bell.status().gone != lives) {
      if (bell.status().done == done && done < kCommands) bell.ring(done + 1, to.data(), from.data(), 64);
      done = bell.status().done;
      ::sched_yield();
    }
    done = bell.status().done;
  }
  EXPECT_GT(lives, 1u);
}

TEST_F(Emulator, AKernelDoesNotReachMemoryOfAnotherGpu) {
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
    EXPECT_EQ(call("cuModuleGetFunction", &function, module, "weft_copy_list"), 0);
    EXPECT_EQ(call("cuStreamCreate", &stream, 1u), 0);
    Listed listed;
    cuda().cuCtxSetCurrent(own);
    kernel::List list = listed.of({{here, address_of(there.data()), 64}});
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

TEST_F(Emulator, MappedMemoryIsSharedByDescriptor) {
  Buffer source(Buffer::Kind::mapped, 3 << 20);
  source.write(pattern(3 << 20, 5));
  const auto at = address_of(source.data());
  device::cuda::IpcMemHandle ipc;
  EXPECT_EQ(call("cuIpcGetMemHandle", &ipc, at), device::cuda::kInvalidValue);
  unsigned long long handle = 0, imported = 0, before = 0;
  int fd = -1;
  ASSERT_EQ(call("cuMemRetainAllocationHandle", &handle, static_cast<void*>(source.data())), 0);
  ASSERT_EQ(call("cuMemExportToShareableHandle", static_cast<void*>(&fd), handle, 1, 0ull), 0);
  ASSERT_EQ(call("cuMemImportFromShareableHandle", &imported, reinterpret_cast<void*>(intptr_t{fd}), 1), 0);
  EXPECT_EQ(cuda().cuMemRelease(handle), 0);
  EXPECT_EQ(::close(fd), 0);
  constexpr size_t kSize = 2 << 20;
  Address second = 0;
  ASSERT_EQ(cuda().cuMemAddressReserve(&second, kSize, 0, 0, 0), 0);
  ASSERT_EQ(cuda().cuMemMap(second, kSize, 0, imported, 0), 0);
  std::vector<char> seen(1000);
  const Address inside = second + at % kSize;
  EXPECT_NE(cuda().cuMemcpyDtoH_v2(seen.data(), inside, 1000), 0);  // no access yet
  const AccessDescription access;
  ASSERT_EQ(cuda().cuMemSetAccess(second, kSize, &access, 1), 0);
  EXPECT_EQ(cuda().cuMemcpyDtoH_v2(seen.data(), inside, 1000), 0);
  EXPECT_EQ(seen, source.read(0, 1000));
  EXPECT_NE(call("cuMemExportToShareableHandle", static_cast<void*>(&fd), imported, 1, 0ull), 0);
  constexpr int kBufferId = 7;
  ASSERT_EQ(call("cuPointerGetAttribute", static_cast<void*>(&before), kBufferId, second), 0);
  ASSERT_EQ(cuda().cuMemUnmap(second, kSize), 0);
  ASSERT_EQ(cuda().cuMemMap(second, kSize, 0, imported, 0), 0);
  unsigned long long after = 0;
  ASSERT_EQ(call("cuPointerGetAttribute", static_cast<void*>(&after), kBufferId, second), 0);
  EXPECT_NE(after, before);
  EXPECT_EQ(cuda().cuMemUnmap(second, kSize), 0);
  EXPECT_EQ(cuda().cuMemRelease(imported), 0);
  EXPECT_EQ(cuda().cuMemAddressFree(second, kSize), 0);
}

// As the real driver: the range is the reservation; another allocation has another block, the same one mapped
// again has not.
TEST_F(Emulator, AttributesTellAMappingFromItsReservation) {
  Buffer buffer(Buffer::Kind::mapped, 4 << 20);
  constexpr size_t kSize = 2 << 20;
  const auto ask = [&](int attribute, Address at) {
    unsigned long long value = 0;
    EXPECT_EQ(call("cuPointerGetAttribute", static_cast<void*>(&value), attribute, at), 0);
    return value;
  };
  const Address first = address_of(buffer.data()) / kSize * kSize, second = first + kSize;
  EXPECT_EQ(ask(device::cuda::kAttributeRangeStart, second), first);
  EXPECT_GE(ask(device::cuda::kAttributeRangeSize, second), 2 * kSize);
  EXPECT_EQ(ask(device::cuda::kAttributeMappingBase, second + 1000), second);
  EXPECT_EQ(ask(device::cuda::kAttributeMappingSize, second), kSize);
  const auto block = ask(device::cuda::kAttributeBlockId, second);
  EXPECT_NE(block, ask(device::cuda::kAttributeBlockId, first));
  buffer.replace(1, false);
  EXPECT_EQ(ask(device::cuda::kAttributeBlockId, second), block);
  buffer.replace(1, true);
  EXPECT_NE(ask(device::cuda::kAttributeBlockId, second), block);
}

// Addresses come back to whoever asks for their size, but a reservation is aligned.
TEST_F(Emulator, AReservationIsAlignedAlsoAtFreedAddresses) {
  constexpr size_t kSize = 4 << 20;
  Address odd[3] = {}, reserved = 0;
  for (Address& address : odd) ASSERT_EQ(cuda().cuMemAlloc_v2(&address, kSize), 0);
  for (Address& address : odd) EXPECT_EQ(cuda().cuMemFree_v2(address), 0);
  ASSERT_EQ(cuda().cuMemAddressReserve(&reserved, kSize, 0, 0, 0), 0);
  EXPECT_EQ(reserved % (2 << 20), 0u);
  EXPECT_EQ(cuda().cuMemAddressFree(reserved, kSize), 0);
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

}  // namespace
}  // namespace weft::test
