// SPDX-License-Identifier: BSD-3-Clause
// Remote memory access between two processes over every path: put, get, atomics, flush, errors, and the end
// of a registration. GPU memory on the emulated driver.
#include "transport/rma/rma.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/counters.hpp"
#include "pair.hpp"

namespace weft::test {
namespace {

using rma::Atomic;
using rma::AtomicOp;
using rma::AtomicType;
using rma::Issued;
using rma::Key;
using rma::Path;
using rma::Target;
using TransportBuffer = transport::Buffer;
using Kind = Buffer::Kind;

#define EXPECT_RUN(...)                                                                       \
  do {                                                                                        \
    const int code_ = run(__VA_ARGS__);                                                       \
    if (code_ == kSkipped) GTEST_SKIP() << "skipped: needs the network library of this test"; \
    EXPECT_EQ(code_, 0);                                                                      \
  } while (0)

constexpr size_t kBytes = 100'000;  // of the target's memory: several fragments of a message
constexpr size_t kPieces[] = {1, 8, 0, 4093, 50'000};

void use_gpus() {
  CHECK(cuda().loaded);
  CHECK(device::open().ok());
}

/// Registered memory of the owner.
struct Owned {
  enum class Where { segment, heap, gpu, managed };
  Owned(Process& owner, Where where, size_t bytes) : process(owner), size(bytes) {
    if (where == Where::segment) {
      auto memory = process.memory_access->allocate(bytes + 64);
      CHECK(memory.ok());
      address = *memory + 64;  // any range of a segment can be registered
      segment = *memory;
    } else {
      buffer = std::make_unique<Buffer>(where == Where::gpu       ? Kind::device
                                        : where == Where::managed ? Kind::managed
                                                                  : Kind::host,
                                        bytes);
      address = reinterpret_cast<std::byte*>(buffer->data());
    }
    auto registered = process.memory_access->register_memory(address, bytes, memory());
    CHECK(registered.ok());
    region = *registered;
  }
  ~Owned() {
    process.memory_access->deregister(region);
    if (segment != nullptr) process.memory_access->free(segment);
  }
  [[nodiscard]] device::Memory memory() const { return device::classify(address); }
  void write(const std::vector<char>& bytes) const {
    CHECK(device::copy(address, memory(), bytes.data(), {}, bytes.size()).ok());
  }
  [[nodiscard]] std::vector<char> read() const {
    std::vector<char> bytes(size);
    CHECK(device::copy(bytes.data(), {}, address, memory(), size).ok());
    return bytes;
  }
  void send_key() const {
    auto key = process.memory_access->key(region, process.peer());
    CHECK(key.ok());
    process.tell(*key);
  }
  Process& process;
  size_t size;
  std::unique_ptr<Buffer> buffer;
  std::byte *address = nullptr, *segment = nullptr;
  rma::Id region;
};

std::unique_ptr<Target> attach(Process& process, const Buffer* near = nullptr) {
  const Key key = process.await<Key>();
  auto target =
      process.memory_access->attach(process.peer(), key, near != nullptr ? near->memory() : device::Memory{});
  if (!target) std::fprintf(stderr, "%s\n", target.error().message().c_str());
  CHECK(target.ok());
  return std::move(*target);
}

struct Counting : transport::Completion {
  Counting()
      : Completion{[](Completion& self, Status outcome) {
          auto& counting = static_cast<Counting&>(self);
          ++counting.fired;
          counting.outcome = std::move(outcome);
        }} {}
  int fired = 0;
  Status outcome;
};

/// Issues an operation and waits for its completion.
template <class Issue>
Status complete(Process& process, Issue&& issue) {
  Counting done;
  Result<Issued> issued = issue(&done);
  if (!issued) return std::move(issued).error();
  if (*issued == Issued::pending) process.until([&] { return done.fired != 0; });
  CHECK(done.fired == (*issued == Issued::pending ? 1 : 0));
  return std::move(done.outcome);
}

/// The owner of the memory: pattern 1 before, pattern 2 after the puts of the other process.
Body owner(Owned::Where where) {
  return [where](Process& process) {
    if (where == Owned::Where::gpu || where == Owned::Where::managed) use_gpus();
    const Owned owned(process, where, kBytes);
    owned.write(pattern(kBytes, 1));
    owned.send_key();
    process.synchronise();  // the other process has read
    process.synchronise();  // and written
    CHECK(owned.read() == pattern(kBytes, 2));
    process.synchronise();  // and detached
  };
}

/// Gets and puts everything in pieces, from and into memory of a kind.
Body accessor(Path path, Kind local_kind, Path get_path) {
  return [=](Process& process) {
    if (local_kind != Kind::host) use_gpus();
    const Buffer local_buffer(local_kind, kBytes);
    std::unique_ptr<Target> target = attach(process, local_kind == Kind::host ? nullptr : &local_buffer);
    if (target->caps().put != path || target->caps().get != get_path)
      std::fprintf(stderr, "put by %s, get by %s: %s\n", name(target->caps().put), name(target->caps().get),
                   target->caps().reason.c_str());
    CHECK(target->caps().put == path && target->caps().get == get_path);
    CHECK((target->direct() != nullptr) == (path == Path::direct));
    CHECK(target->length() == kBytes);
    rma::Rma& access = *process.memory_access;
    const auto piece = [&](size_t at, size_t bytes) {
      return TransportBuffer{reinterpret_cast<std::byte*>(local_buffer.data()) + at, bytes,
                             local_buffer.memory()};
    };
    size_t turn = 0;
    const auto all_pieces = [&](auto&& operation) {
      for (size_t at = 0, bytes; at < kBytes; at += bytes) {
        bytes = std::min(kPieces[turn++ % std::size(kPieces)], kBytes - at);
        CHECK(operation(at, bytes).ok());
      }
    };
    all_pieces([&](size_t at, size_t bytes) { return access.get(*target, at, piece(at, bytes)); });
    process.flush(*target);
    CHECK(local_buffer.read() == pattern(kBytes, 1));
    process.synchronise();
    const auto changed = pattern(kBytes, 2);
    Buffer& writable = const_cast<Buffer&>(local_buffer);
    writable.write(changed);
    all_pieces([&](size_t at, size_t bytes) { return access.put(*target, at, piece(at, bytes)); });
    process.flush(*target);
    CHECK(target->pending() == 0);
    // The last bytes again, with a completion.
    CHECK(complete(process, [&](auto* done) {
            return access.put(*target, kBytes - 9, piece(kBytes - 9, 9), done);
          }).ok());
    process.synchronise();
    CHECK(!access.put(*target, kBytes - 8, piece(0, 9)).ok());
    CHECK(!access.get(*target, kBytes + 1, piece(0, 0)).ok());
    access.detach(std::move(target));
    process.synchronise();
  };
}

Body accessor(Path path, Kind local_kind) { return accessor(path, local_kind, path); }

TEST(Rma, MappedSegment) {
  EXPECT_RUN(Link::host, owner(Owned::Where::segment), accessor(Path::direct, Kind::host));
}
TEST(Rma, MemoryOfTheProgramByProcessVm) {
  EXPECT_RUN(Link::host, owner(Owned::Where::heap), accessor(Path::process_vm, Kind::host));
}
TEST(Rma, Messages) {
  EXPECT_RUN(Link::messages, owner(Owned::Where::heap), accessor(Path::message, Kind::host));
}
TEST(Rma, Ucx) { EXPECT_RUN(Link::ucx, owner(Owned::Where::heap), accessor(Path::network, Kind::host)); }
TEST(Rma, Libfabric) {
  EXPECT_RUN(Link::ofi, owner(Owned::Where::heap), accessor(Path::network, Kind::host));
}

TEST(RmaGpu, MappedMemory) {
  EXPECT_RUN(Link::host, owner(Owned::Where::gpu), accessor(Path::direct, Kind::device));
}
TEST(RmaGpu, HostSegmentFromGpuMemory) {
  EXPECT_RUN(Link::host, owner(Owned::Where::segment), accessor(Path::direct, Kind::device));
}
TEST(RmaGpu, MemoryOfTheProgramFromGpuMemory) {
  EXPECT_RUN(Link::host, owner(Owned::Where::heap), accessor(Path::process_vm, Kind::device));
}
/// process_vm_writev can write a page that the driver has just migrated away.
TEST(RmaGpu, ManagedMemoryIsWrittenByItsOwner) {
  EXPECT_RUN(Link::host, owner(Owned::Where::managed), accessor(Path::message, Kind::host, Path::process_vm));
  EXPECT_RUN(Link::host, owner(Owned::Where::managed),
             accessor(Path::message, Kind::device, Path::process_vm));
}
TEST(RmaGpu, MessagesBetweenGpus) {
  EXPECT_RUN(Link::messages, owner(Owned::Where::gpu), accessor(Path::message, Kind::device));
}

/// Both processes count in the owner's memory at the same time, the owner too through a target of its own.
void count_together(Link link, Owned::Where where, Path path) {
  static constexpr uint64_t kCounts = 300;
  const auto add = [](Process& process, Target& target, AtomicType type, uint64_t offset) {
    uint64_t before[kCounts];
    for (uint64_t& value : before) {
      const auto issued =
          process.memory_access->atomic(target, offset, Atomic{AtomicOp::sum, type, 1, 0}, &value);
      CHECK(issued.ok());
    }
    process.flush(target);
    for (size_t i = 1; i < kCounts; ++i) CHECK(before[i] > before[i - 1]);  // in the order of the calls
  };
  EXPECT_RUN(
      link,
      [=](Process& process) {
        if (where == Owned::Where::gpu) use_gpus();
        const Owned owned(process, where, 64);
        owned.write(std::vector<char>(64));
        owned.send_key();
        const Key key = *process.memory_access->key(owned.region, process.self());
        auto own = process.memory_access->attach(process.self(), key, owned.memory());
        CHECK(own.ok() && (*own)->caps().atomic == Path::direct);
        process.synchronise();
        add(process, **own, AtomicType::int32, 8);
        process.memory_access->detach(std::move(*own));
        process.synchronise();
        uint32_t total = 0;
        const std::vector<char> bytes = owned.read();
        std::memcpy(&total, bytes.data() + 8, sizeof total);
        CHECK(total == 2 * kCounts);
        std::memcpy(&total, bytes.data() + 12, sizeof total);
        CHECK(total == 0);  // the neighbour is unchanged
        process.synchronise();
      },
      [=](Process& process) {
        if (where == Owned::Where::gpu) use_gpus();
        const Buffer near(where == Owned::Where::gpu ? Kind::device : Kind::host, 64);
        auto target = attach(process, &near);
        CHECK(target->caps().atomic == path);
        process.synchronise();
        add(process, *target, AtomicType::int32, 8);
        process.synchronise();
        uint64_t value = 0;
        rma::Rma& access = *process.memory_access;
        const auto swap = [&](uint64_t operand, uint64_t compare) {
          const Atomic atomic{AtomicOp::compare_swap, AtomicType::uint64, operand, compare};
          CHECK(complete(process, [&](auto* done) {
                  return access.atomic(*target, 16, atomic, &value, done);
                }).ok());
          return value;
        };
        CHECK(swap(7, 1) == 0 && swap(7, 0) == 0 && swap(9, 7) == 7 && swap(1, 7) == 9);
        const Atomic sum{AtomicOp::sum, AtomicType::uint64, 1, 0};
        CHECK(!access.atomic(*target, 20, sum, &value).ok());  // misaligned
        CHECK(!access.atomic(*target, 64, sum, &value).ok());  // outside
        CHECK(!access.atomic(*target, 0, {AtomicOp::bit_or, AtomicType::float64, 1, 0}, &value).ok());
        access.detach(std::move(target));
        process.synchronise();
      });
}

TEST(Rma, AtomicsOnAMappedSegment) { count_together(Link::host, Owned::Where::segment, Path::direct); }
TEST(Rma, AtomicsOnMemoryOfTheProgram) { count_together(Link::host, Owned::Where::heap, Path::message); }
TEST(Rma, AtomicsOverANetwork) { count_together(Link::ofi, Owned::Where::heap, Path::message); }
TEST(RmaGpu, AtomicsOnGpuMemory) { count_together(Link::host, Owned::Where::gpu, Path::message); }

/// After deregistration, operations end with an error and change nothing.
void end_registration(Link link) {
  EXPECT_RUN(
      link,
      [](Process& process) {
        std::vector<char> memory(5000, 'a');
        auto* address = reinterpret_cast<std::byte*>(memory.data());
        const rma::Id region = *process.memory_access->register_memory(address, memory.size(), {});
        process.tell(*process.memory_access->key(region, process.peer()));
        process.synchronise();
        process.memory_access->deregister(region);
        const rma::Id next = *process.memory_access->register_memory(address, memory.size(), {});
        CHECK(next != region);
        process.synchronise();
        process.synchronise();
        CHECK(memory == std::vector<char>(5000, 'a'));
        process.memory_access->deregister(next);
      },
      [link](Process& process) {
        auto target = attach(process);
        process.synchronise();
        process.synchronise();
        std::vector<char> data(5000, 'b');
        const TransportBuffer buffer{reinterpret_cast<std::byte*>(data.data()), data.size(), {}};
        rma::Rma& access = *process.memory_access;
        uint64_t value = 5;
        if (link != Link::ofi) {  // libfabric may keep the registration in its cache
          CHECK(!complete(process, [&](auto* done) { return access.put(*target, 0, buffer, done); }).ok());
          CHECK(!complete(process, [&](auto* done) { return access.get(*target, 0, buffer, done); }).ok());
        }
        const Atomic sum{AtomicOp::sum, AtomicType::uint64, 1, 0};
        CHECK(!complete(process, [&](auto* done) {
                 return access.atomic(*target, 0, sum, &value, done);
               }).ok());
        CHECK(value == 5 && data == std::vector<char>(5000, 'b'));
        CHECK(!access.flush(*target).ok());  // the first error
        CHECK(access.flush(*target).ok());
        access.detach(std::move(target));
        process.synchronise();
      });
}
TEST(Rma, EndOfARegistrationByMessages) { end_registration(Link::messages); }
TEST(Rma, EndOfARegistrationOverUcx) { end_registration(Link::ucx); }

TEST(Rma, LossOfThePeerEndsItsOperations) {
  EXPECT_RUN(
      Link::messages,
      [](Process& process) {
        std::vector<char> memory(100);
        const rma::Id region = *process.memory_access->register_memory(
            reinterpret_cast<std::byte*>(memory.data()), memory.size(), {});
        process.tell(*process.memory_access->key(region, process.peer()));
        process.synchronise();
        process.synchronise();
      },
      [](Process& process) {
        auto target = attach(process);
        std::vector<char> data(100);
        const TransportBuffer buffer{reinterpret_cast<std::byte*>(data.data()), data.size(), {}};
        Counting put, get, atomic;
        uint64_t value = 0;
        rma::Rma& access = *process.memory_access;
        CHECK(access.put(*target, 0, buffer, &put).ok());
        CHECK(access.get(*target, 0, buffer, &get).ok());
        CHECK(access.atomic(*target, 0, {AtomicOp::sum, AtomicType::int32, 1, 0}, &value, &atomic).ok());
        CHECK(target->pending() == 3);
        access.lost(process.peer(), Error(Errc::proc_aborted, "the test says so"));
        CHECK(put.fired == 1 && get.fired == 1 && atomic.fired == 1 && target->pending() == 0);
        CHECK(!put.outcome.ok() && get.outcome.error().code() == Errc::proc_aborted);
        CHECK(!access.put(*target, 0, buffer).ok());
        access.detach(std::move(target));
        const uint64_t stale = counters::find("rma.stale_ids")->value();
        process.synchronise();  // the peer has the messages
        process.synchronise();  // its replies have arrived, and found no operation
        CHECK(counters::find("rma.stale_ids")->value() == stale + 3);
      });
}

/// Random messages to all handlers change no memory but registered memory, and end no process.
TEST(Rma, ForgedMessages) {
  EXPECT_RUN(
      Link::messages,
      [](Process& process) {
        std::mt19937_64 random(1);
        std::vector<char> memory(4096);
        const rma::Id region = *process.memory_access->register_memory(
            reinterpret_cast<std::byte*>(memory.data()), memory.size(), {});
        const auto number = [&](uint64_t likely) { return random() % 3 == 0 ? random() : random() % likely; };
        for (int i = 0; i < 20'000; ++i) {
          const size_t words = 1 + random() % 12;
          const std::unique_ptr<uint64_t[]> message(new uint64_t[words]);  // ASan finds reads beyond it
          for (size_t w = 0; w < words; ++w) message[w] = number(5000);
          if (words > 1 && random() % 4 != 0) message[1] = region;
          const auto id = static_cast<uint64_t>(am::kRmaHandlers + random() % 5);
          message[0] = (message[0] & ~uint64_t{0xff}) | id;
          if (random() % 2 == 0) message[0] &= 0x0000'00ff'0909'00ff | uint64_t{0xfff} << 32;
          process.handlers().deliver(process.peer(), reinterpret_cast<const std::byte*>(message.get()),
                                     words * 8);
          if (i % 64 == 0) process.poll();
        }
        CHECK(counters::find("rma.malformed_messages")->value() > 100);
        CHECK(counters::find("rma.stale_ids")->value() > 1000);
        process.memory_access->deregister(region);
        process.synchronise();
      },
      [](Process& process) { process.synchronise(); });
}

}  // namespace
}  // namespace weft::test
