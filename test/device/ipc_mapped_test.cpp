// SPDX-License-Identifier: BSD-3-Clause
// cuMemMap memory between two processes: runs of allocations by file descriptors, replaced allocations,
// memory that cannot be shared, and open descriptors.
#include <dirent.h>
#include <signal.h>

#include "ipc_support.hpp"

namespace weft::test {
namespace {

constexpr size_t kAllocation = 2 << 20;
using Type = Request::Type;

class IpcMappedTest : public IpcTest {
 protected:
  void SetUp() override {
    IpcTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    child_ = std::make_unique<ExportChild>(remote_device_);
    near_ = std::make_unique<Buffer>(Kind::device, 64);
  }
  /// Compares the whole region described by the child.
  void expect_seen(const Answer& answer, size_t n, unsigned seed) {
    ASSERT_GT(answer.region.descriptors, 0u) << answer.refusal;
    auto mapping = importer_.open(kPeer, answer.region, &answer.probe, near_->memory());
    ASSERT_OK(mapping);
    Buffer local(Kind::device, n);
    EXPECT_OK(
        device::copy(local.data(), local.memory(), (*mapping)->at(answer.address), (*mapping)->memory(), n));
    EXPECT_EQ(local.read(), pattern(n, seed)) << "seed " << seed;
    importer_.release(*mapping);
  }
  static size_t open_files() {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
    size_t count = 0;
    while (folder != nullptr && ::readdir(folder.get()) != nullptr) ++count;
    return count;
  }
  std::unique_ptr<ExportChild> child_;
  std::unique_ptr<Buffer> near_;
  Importer importer_;
  const IpcCounted counted_;
};

TEST_F(IpcMappedTest, ReadsAndWritesARunOfAllocations) {
  constexpr size_t kSize = 3 * kAllocation;
  const Answer answer = child_->request(Type::map, 0, kSize, 1);
  EXPECT_EQ(answer.region.descriptors, 3u);
  EXPECT_EQ(answer.region.size, kSize);
  expect_seen(answer, kSize, 1);
  child_->request(Type::fill, 0, kSize, 2);
  expect_seen(answer, kSize, 2);
  auto mapping = importer_.open(kPeer, answer.region, nullptr, near_->memory());
  ASSERT_OK(mapping);
  Buffer local(Kind::device, kSize);
  local.write(pattern(kSize, 3));
  EXPECT_OK(device::copy((*mapping)->at(answer.address), (*mapping)->memory(), local.data(), local.memory(),
                         kSize));
  child_->request(Type::check, 0, kSize, 3);
  importer_.release(*mapping);
  EXPECT_EQ(counted_.opens.growth(), 1u);
}

TEST_F(IpcMappedTest, RunsWithACommonStartAreMappedSeparately) {
  const Answer all = child_->request(Type::map, 0, 2 * kAllocation, 1);
  const Answer first = child_->request(Type::describe, 0, 1000);
  EXPECT_EQ(first.region.base, all.region.base);
  EXPECT_EQ(first.region.descriptors, 1u);
  EXPECT_NE(first.region.buffer_id, all.region.buffer_id);
  for (int round = 0; round < 3; ++round) {
    expect_seen(all, 2 * kAllocation, 1);
    expect_seen(first, 1000, 1);
  }
  EXPECT_EQ(counted_.opens.growth(), 2u);
}

// A remapped allocation has the old content; a replaced one must not show it.
TEST_F(IpcMappedTest, ReplacedAllocationsAreDetectedAtOnce) {
  constexpr size_t kSize = 2 * kAllocation;
  Answer last = child_->request(Type::map, 0, kSize, 1);
  expect_seen(last, kSize, 1);
  for (unsigned round = 2; round < 8; ++round) {
    const Answer next = child_->request(round % 3 == 0 ? Type::remap : Type::replace, 0, round % 2, round);
    EXPECT_EQ(next.region.base, last.region.base);
    EXPECT_NE(next.region.buffer_id, last.region.buffer_id);
    expect_seen(next, kSize, round);
    const Answer sweep = child_->request(Type::sweep);
    ASSERT_EQ(sweep.drops, 1u);
    EXPECT_EQ(sweep.drop[0].buffer_id, last.region.buffer_id);
    importer_.drop(kPeer, sweep.drop[0].epoch, sweep.drop[0].base, sweep.drop[0].buffer_id);
    last = next;
  }
  EXPECT_EQ(importer_.mapped(), 1u);
  EXPECT_EQ(child_->request(Type::descriptors).drops, 2u);
}

TEST_F(IpcMappedTest, WithoutAHandleTypeTheReasonIsReported) {
  const Answer answer = child_->request(Type::map_unshared, 0, 5000, 1);
  EXPECT_EQ(answer.region.descriptors, 0u);
  EXPECT_NE(std::string(answer.refusal).find("requestedHandleTypes"), std::string::npos) << answer.refusal;
}

TEST_F(IpcMappedTest, MoreAllocationsThanAMessageHoldsAreNotExported) {
  Buffer large(Kind::mapped, (device::kMaxShareableHandles + 1) * kAllocation);
  const Memory memory = device::widened(large.memory(), large.data(), large.size());
  EXPECT_FALSE(memory.covers(large.data(), large.size()));
  const Memory most = device::widened(memory, large.data(), large.size() - kAllocation);
  EXPECT_TRUE(most.covers(large.data(), large.size() - kAllocation));
  EXPECT_EQ(most.size, device::kMaxShareableHandles * kAllocation);
}

// The numbers of withdrawn descriptors may have been reused for other files.
TEST_F(IpcMappedTest, WithdrawnDescriptorsAreRejected) {
  const Answer kept = child_->request(Type::map, 0, kAllocation, 1),
               freed = child_->request(Type::map, 1, kAllocation, 2);
  expect_seen(kept, kAllocation, 1);
  child_->request(Type::free, 1);
  child_->request(Type::sweep);
  child_->request(Type::map, 2, kAllocation, 3);  // reuses the number of the descriptor
  const auto late = importer_.open(kPeer, freed.region, nullptr, near_->memory());
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().code(), Errc::unsupported);
  EXPECT_EQ(importer_.take_mailbox_request(kPeer), std::nullopt) << "others can be taken";
  expect_seen(child_->request(Type::describe, 2, kAllocation), kAllocation, 3);
}

// Descriptors that cannot be duplicated are sent: at once for announced regions, otherwise with the
// announcement.
TEST_F(IpcMappedTest, InaccessibleProcessSendsDescriptors) {
  const auto inaccessible = [](Answer answer) {
    answer.region.pid = ::getppid();  // another process, without the list
    return answer;
  };
  const size_t before = open_files();
  const Answer first = inaccessible(child_->request(Type::map, 0, 3 * kAllocation, 1));
  std::optional<uint64_t> mailbox;
  for (int i = 0; i < 2; ++i) {
    const auto refused = importer_.open(kPeer, first.region, &first.probe, near_->memory());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), Errc::unsupported);
    const auto asked = importer_.take_mailbox_request(kPeer);
    EXPECT_EQ(asked.has_value(), i == 0);
    if (asked) mailbox = asked;
  }
  ASSERT_NE(mailbox.value_or(0), 0u);
  child_->request(Type::mail, 0, *mailbox);
  expect_seen(first, 3 * kAllocation, 1);
  const size_t with_first = open_files();
  for (unsigned round = 2; round < 40; ++round) {  // more than the socket buffer holds
    expect_seen(inaccessible(child_->request(Type::map, 1, 2 * kAllocation, round)), 2 * kAllocation, round);
    const Answer again = inaccessible(child_->request(Type::describe, 1, 2 * kAllocation));
    expect_seen(again, 2 * kAllocation, round);
    child_->request(Type::free, 1);
    const Answer sweep = child_->request(Type::sweep);
    ASSERT_EQ(sweep.drops, 1u);
    importer_.drop(kPeer, sweep.drop[0].epoch, sweep.drop[0].base, sweep.drop[0].buffer_id);
  }
  EXPECT_EQ(importer_.mapped(), 1u);
  EXPECT_LE(open_files(), with_first);
  importer_.store_region(kPeer, first.region);
  importer_.drop_peer(kPeer);
  EXPECT_LE(open_files(), before + 1) << "the mailbox";
}

// A closed or full mailbox: the exporter returns an error and does not announce the memory.
TEST_F(IpcMappedTest, UndeliverableDescriptorsAreErrors) {
  Exporter exporter;
  Buffer mine(Kind::mapped, 1000), other(Kind::mapped, 1000);
  ASSERT_OK(exporter.export_region(mine.memory(), kPeer));
  auto mailbox = std::make_unique<transport::cuda_ipc::Mailbox>();
  exporter.use_mailbox(kPeer, mailbox->address());
  EXPECT_OK(mailbox->duplicate(exporter.epoch(), mine.memory().buffer_id));
  EXPECT_FALSE(mailbox->duplicate(exporter.epoch(), other.memory().buffer_id).ok());
  ASSERT_OK(exporter.export_region(other.memory(), kPeer));
  mailbox.reset();
  EXPECT_OK(exporter.export_region(mine.memory(), kPeer));  // announced before
  Buffer late(Kind::mapped, 1000);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(exporter.export_region(late.memory(), kPeer).ok());
  exporter.use_mailbox(kPeer, 0);
  EXPECT_FALSE(exporter.export_region(mine.memory(), kPeer).ok());
  EXPECT_OK(exporter.export_region(mine.memory(), kMe));
}

// Recently used regions keep their descriptors; the others are packed.
TEST_F(IpcMappedTest, DescriptorsAreBounded) {
  Exporter exporter;  // gpu.ipc_max_descriptors is 6 in this test's settings
  std::vector<std::unique_ptr<Buffer>> buffers;
  const size_t before = open_files();
  size_t refused = 0;
  for (int i = 0; i < 8; ++i) {
    buffers.push_back(std::make_unique<Buffer>(Kind::mapped, 1000));
    refused += exporter.export_region(buffers.back()->memory(), kPeer).ok() ? 0 : 1;
  }
  EXPECT_EQ(refused, 2u);
  EXPECT_EQ(exporter.descriptors(), 6u);
  const Memory busy = buffers[3]->memory();
  for (int i = 0; i < 5000; ++i) ASSERT_OK(exporter.export_region(busy, kPeer));
  ASSERT_OK(exporter.export_region(buffers[7]->memory(), kPeer));  // replaces the least recently used region
  EXPECT_EQ(exporter.descriptors(), 6u);
  const auto drops = exporter.sweep_freed();
  ASSERT_EQ(drops.size(), 1u);
  EXPECT_EQ(drops[0].base, buffers[0]->memory().base);
  buffers.clear();
  EXPECT_EQ(exporter.sweep_freed().size(), 6u);
  EXPECT_EQ(exporter.descriptors(), 0u);
  EXPECT_EQ(open_files(), before);
}

TEST_F(IpcMappedTest, NoDescriptorStaysOpen) {
  expect_seen(child_->request(Type::map, 0, kAllocation, 1), kAllocation, 1);
  size_t early = 0;
  for (unsigned round = 0; round < 6; ++round) {
    expect_seen(child_->request(Type::map, 1, 2 * kAllocation, round), 2 * kAllocation, round);
    child_->request(Type::free, 1);
    const Answer sweep = child_->request(Type::sweep);
    ASSERT_EQ(sweep.drops, 1u);
    importer_.drop(kPeer, sweep.drop[0].epoch, sweep.drop[0].base, sweep.drop[0].buffer_id);
    if (round == 1) early = open_files();
  }
  EXPECT_LE(open_files(), early);
  EXPECT_EQ(importer_.mapped(), 1u);
}

TEST_F(IpcMappedTest, FaultsAreReportedErrors) {
  if (!cuda().emulated()) GTEST_SKIP() << "only the emulated driver fails on demand";
  for (const char* call :
       {"cuMemAddressReserve", "cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess"}) {
    ExportChild child(remote_device_);
    Importer importer;
    const Answer answer = child.request(Type::map, 0, 2 * kAllocation, 1);
    ASSERT_EQ(cuda().fail((std::string(call) + ":1:999").c_str()), 0);
    const auto refused = importer.open(kPeer, answer.region, &answer.probe, near_->memory());
    ASSERT_FALSE(refused.ok()) << call;
    EXPECT_NE(refused.error().message().find(call), std::string::npos) << refused.error().message();
    EXPECT_EQ(importer.take_mailbox_request(kPeer), 0u) << "to be sent would not help";
    EXPECT_EQ(importer.mapped(), 0u);
    ASSERT_EQ(cuda().fail(""), 0);
  }
}

}  // namespace
}  // namespace weft::test
