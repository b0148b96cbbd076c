// SPDX-License-Identifier: BSD-3-Clause
// The memory registry: freed exports are withdrawn with a message to every peer that has them, a peer's
// withdrawal ends its region here, and messages of other hosts are dropped. On the emulated driver.
#include "core/memory_registry.hpp"

#include <cstring>
#include <deque>
#include <vector>

#include "../device/cuda_test_support.hpp"
#include "base/counters.hpp"
#include "solo.hpp"

namespace weft::core {
namespace {

constexpr ProcessId kNear = 1, kOtherHost = 2;

/// Three processes, the third on another host.
class ThreeProcesses final : public SoloExchange {
 public:
  ThreeProcesses() {
    job_.size = 3;
    job_.local_size = 2;
    job_.host_of_rank = {0, 0, 1};
  }
};

/// Keeps the messages that are sent.
struct Outgoing final : transport::am::Sender {
  struct Message {
    ProcessId to;
    std::vector<uint64_t> words;
  };
  void post(ProcessId to, const void* message, size_t size) override {
    messages.push_back({to, std::vector<uint64_t>(size / 8)});
    std::memcpy(messages.back().words.data(), message, size);
  }
  std::byte* reserve(ProcessId, size_t) override { return nullptr; }
  void commit(ProcessId, size_t) override {}
  size_t max_message(ProcessId) override { return kMaxPosted; }
  std::deque<Message> messages;
};

class MemoryRegistryTest : public test::CudaTest {
 protected:
  MemoryRegistryTest() : instance_(std::make_unique<ThreeProcesses>()) { instance_.sender = &outgoing_; }
  void deliver(ProcessId source, const Outgoing::Message& message) {
    instance_.handlers.deliver(source, reinterpret_cast<const std::byte*>(message.words.data()),
                               message.words.size() * 8);
  }
  transport::cuda_ipc::Region export_to(const test::Buffer& buffer, ProcessId peer) {
    instance_.memory->withdraw_freed();
    auto exported = instance_.memory->exporter().export_region(buffer.memory(), peer);
    EXPECT_OK(exported);
    return *exported->region;
  }
  /// The message by which the memory of `region` is withdrawn.
  Outgoing::Message withdraw(ProcessId peer) {
    {
      const test::Buffer buffer(test::Buffer::Kind::device, 1000);
      region_ = export_to(buffer, peer);
    }
    const test::Buffer other(test::Buffer::Kind::device, 1 << 20);
    export_to(other, peer);
    instance_.memory->withdraw_freed();
    EXPECT_EQ(outgoing_.messages.size(), 1u);
    if (outgoing_.messages.empty()) return {};
    Outgoing::Message message = outgoing_.messages.front();
    outgoing_.messages.clear();
    return message;
  }

  Outgoing outgoing_;
  Instance instance_;
  transport::cuda_ipc::Region region_{};
};

TEST_F(MemoryRegistryTest, WithdrawsFreedMemoryFromThePeersThatHaveIt) {
  const Outgoing::Message message = withdraw(kNear);
  EXPECT_EQ(message.to, kNear);
  EXPECT_EQ(instance_.memory->exporter().exported(), 1u);
  // The same message from a peer ends the region that this peer has sent.
  auto& importer = instance_.memory->importer();
  importer.store_region(kNear, region_);
  ASSERT_NE(importer.find(kNear, region_.base, region_.buffer_id), nullptr);
  deliver(kNear, message);
  EXPECT_EQ(importer.find(kNear, region_.base, region_.buffer_id), nullptr);
}

TEST_F(MemoryRegistryTest, DropsMessagesOfOtherHosts) {
  const Outgoing::Message message = withdraw(kNear);
  auto& importer = instance_.memory->importer();
  importer.store_region(kOtherHost, region_);
  const uint64_t before = counters::find("memory.foreign_messages")->value();
  deliver(kOtherHost, message);
  EXPECT_NE(importer.find(kOtherHost, region_.base, region_.buffer_id), nullptr);
  EXPECT_EQ(counters::find("memory.foreign_messages")->value(), before + 1);
}

TEST_F(MemoryRegistryTest, UnmappedMemoryIsWithdrawnByProgress) {
  {
    const test::Buffer buffer(test::Buffer::Kind::mapped, 4 << 20);
    export_to(buffer, kNear);
    EXPECT_NE(instance_.memory->exporter().descriptors(), 0u);
  }
  for (int i = 0; i < 200 && outgoing_.messages.empty(); ++i) instance_.progress();
  ASSERT_EQ(outgoing_.messages.size(), 1u);
  EXPECT_EQ(instance_.memory->exporter().descriptors(), 0u);
}

TEST_F(MemoryRegistryTest, AFailedProcessIsForgotten) {
  const test::Buffer buffer(test::Buffer::Kind::device, 1000);
  const auto region = export_to(buffer, kNear);
  auto& importer = instance_.memory->importer();
  importer.store_region(kNear, region);
  instance_.memory->forget(kNear);
  EXPECT_EQ(importer.find(kNear, region.base, region.buffer_id), nullptr);
  auto again = instance_.memory->exporter().export_region(buffer.memory(), kNear);
  ASSERT_OK(again);
  EXPECT_FALSE(again->sent_before);  // a process that replaces it needs the whole region
}

TEST_F(MemoryRegistryTest, CloseEndsPollingAndExportsMayStartAgain) {
  const test::Buffer buffer(test::Buffer::Kind::device, 1000);
  const uint64_t epoch = export_to(buffer, kNear).epoch;
  instance_.memory->close();
  instance_.progress();
  EXPECT_NE(export_to(buffer, kNear).epoch, epoch);
}

}  // namespace
}  // namespace weft::core
