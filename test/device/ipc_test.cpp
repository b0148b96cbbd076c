// SPDX-License-Identifier: BSD-3-Clause
// CUDA IPC between two processes: this process imports, a child process exports. Mapping, verification of a
// pair, reuse of addresses, drops, limits, faults, and the end of a peer.
#include "transport/cuda_ipc/ipc.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>

#include "ipc_support.hpp"

namespace weft::test {
namespace {

TEST_F(IpcTest, MapsReadsAndWritesAPeersMemory) {
  for (const int device : {0, remote_device_}) {
    ExportChild child(device);
    Importer importer;
    const IpcCounted counted;
    const Buffer near(Kind::device, 64);
    const Answer answer = child.request(Request::Type::allocate, 0, 300'000, 1);
    EXPECT_TRUE(answer.probe_due);
    auto mapping = importer.open(kPeer, answer.region, &answer.probe, near.memory());
    ASSERT_OK(mapping);
    if (cuda().emulated()) {
      EXPECT_NE((*mapping)->at(answer.region.base), reinterpret_cast<void*>(answer.address))
          << "addresses differ between processes";
    }
    expect_content(**mapping, answer.region, 300'000, 1);
    // Later writes of the exporter, and writes of the importer.
    child.request(Request::Type::fill, 0, 300'000, 2);
    expect_content(**mapping, answer.region, 300'000, 2);
    Buffer local(Kind::device, 5000);
    local.write(pattern(5000, 3));
    EXPECT_OK(device::copy((*mapping)->at(answer.address), (*mapping)->memory(), local.data(), local.memory(),
                           5000));
    child.request(Request::Type::check, 0, 5000, 3);
    importer.release(*mapping);
    EXPECT_EQ(counted.opens.growth(), 1u);
    importer.close();
    EXPECT_EQ(counted.closes.growth(), 1u);
  }
}

TEST_F(IpcTest, HostBufferReadsThroughAnyLocalDevice) {
  ExportChild child(remote_device_);
  Importer importer;
  const Answer answer = child.request(Request::Type::allocate, 0, 10'000, 4);
  Memory local_device;
  local_device.device = 0;
  auto mapping = importer.open(kPeer, answer.region, &answer.probe, local_device);
  ASSERT_OK(mapping);
  std::vector<char> host(10'000);
  EXPECT_OK(
      device::copy(host.data(), Memory{}, (*mapping)->at(answer.address), (*mapping)->memory(), host.size()));
  EXPECT_EQ(host, pattern(10'000, 4));
  importer.release(*mapping);
}

TEST_F(IpcTest, OneOpenPerAllocation) {
  ExportChild child(remote_device_);
  Importer importer;
  const IpcCounted counted;
  const Buffer near(Kind::device, 64);
  const Answer answer = child.request(Request::Type::allocate, 0, 4096, 1);
  const unsigned long before = cuda().emulated() ? cuda().calls("cuIpcOpenMemHandle") : 0;
  auto first = importer.open(kPeer, answer.region, &answer.probe, near.memory());
  ASSERT_OK(first);
  for (int i = 0; i < 5; ++i) {
    auto again = importer.open(kPeer, answer.region, nullptr, near.memory());
    ASSERT_OK(again);
    EXPECT_EQ(*again, *first);
    importer.release(*again);
  }
  importer.release(*first);
  auto later = importer.open(kPeer, answer.region, nullptr, near.memory());
  ASSERT_OK(later);
  importer.release(*later);
  EXPECT_EQ(counted.opens.growth(), 1u);
  EXPECT_EQ(counted.hits.growth(), 6u);
  if (cuda().emulated()) {
    EXPECT_EQ(cuda().calls("cuIpcOpenMemHandle"), before + 2) << "the probe and the region";
  }
}

TEST_F(IpcTest, ReusedAddressNeverHitsTheOldMapping) {
  ExportChild child(remote_device_);
  Importer importer;
  const Buffer near(Kind::device, 64);
  const Answer first = child.request(Request::Type::allocate, 0, 1 << 20, 1);
  auto mapping = importer.open(kPeer, first.region, &first.probe, near.memory());
  ASSERT_OK(mapping);
  expect_content(**mapping, first.region, 1 << 20, 1);
  importer.release(*mapping);
  for (unsigned round = 2; round < 6; ++round) {
    child.request(Request::Type::free);
    const Answer next = child.request(Request::Type::allocate, 0, 1 << 20, round);
    EXPECT_NE(next.region.buffer_id, first.region.buffer_id);
    if (cuda().emulated()) {
      EXPECT_EQ(next.region.base, first.region.base);
    }
    auto fresh = importer.open(kPeer, next.region, nullptr, near.memory());
    ASSERT_OK(fresh);
    expect_content(**fresh, next.region, 1 << 20, round);
    importer.release(*fresh);
    if (cuda().emulated()) {
      EXPECT_EQ(importer.mapped(), 1u) << "the old mapping is closed";
    }
  }
}

TEST_F(IpcTest, SweepReportsAndDropCloses) {
  ExportChild child(remote_device_);
  Importer importer;
  const IpcCounted counted;
  const Buffer near(Kind::device, 64);
  const Answer kept = child.request(Request::Type::allocate, 0, 4096, 1);
  const Answer freed = child.request(Request::Type::allocate, 1, 8192, 2);
  EXPECT_FALSE(freed.probe_due) << "the probe goes once";
  auto a = importer.open(kPeer, kept.region, &kept.probe, near.memory());
  auto b = importer.open(kPeer, freed.region, nullptr, near.memory());
  ASSERT_OK(a);
  ASSERT_OK(b);
  EXPECT_EQ(child.request(Request::Type::sweep).drops, 0u);
  child.request(Request::Type::free, 1);
  const Answer sweep = child.request(Request::Type::sweep);
  ASSERT_EQ(sweep.drops, 1u);
  const Drop drop = sweep.drop[0];
  EXPECT_EQ(drop.peer, kMe);
  EXPECT_EQ(drop.base, freed.region.base);
  EXPECT_EQ(drop.buffer_id, freed.region.buffer_id);
  // Closed when unused and another region is mapped.
  importer.drop(kPeer, drop.epoch, drop.base, drop.buffer_id);
  EXPECT_EQ(counted.closes.growth(), 0u);
  EXPECT_EQ(importer.mapped(), 1u);
  importer.release(*b);
  EXPECT_EQ(counted.closes.growth(), 0u) << "closing waits for kernels of the program";
  const Answer next = child.request(Request::Type::allocate, 1, 4096, 3);
  auto c = importer.open(kPeer, next.region, nullptr, near.memory());
  ASSERT_OK(c);
  importer.release(*c);
  EXPECT_EQ(counted.closes.growth(), 1u);
  importer.drop(kPeer, drop.epoch, drop.base, drop.buffer_id);  // a repeated drop has no effect
  importer.drop(kPeer, drop.epoch + 1, kept.region.base, kept.region.buffer_id);  // another epoch
  EXPECT_EQ(importer.mapped(), 2u);
  expect_content(**a, kept.region, 4096, 1);
  importer.release(*a);
  EXPECT_EQ(child.request(Request::Type::sweep).drops, 0u) << "reported once";
}

TEST_F(IpcTest, DroppedWhileInUseIsReusedNotOpenedTwice) {
  ExportChild child(remote_device_);
  Importer importer;
  const IpcCounted counted;
  const Buffer near(Kind::device, 64);
  const Answer answer = child.request(Request::Type::allocate, 0, 4096, 1);
  auto mapping = importer.open(kPeer, answer.region, &answer.probe, near.memory());
  ASSERT_OK(mapping);
  importer.drop(kPeer, answer.region.epoch, answer.region.base, answer.region.buffer_id);
  EXPECT_EQ(importer.mapped(), 0u);
  auto again = importer.open(kPeer, answer.region, nullptr, near.memory());
  ASSERT_OK(again);
  EXPECT_EQ(*again, *mapping);
  importer.release(*mapping);
  expect_content(**again, answer.region, 4096, 1);
  importer.release(*again);
  EXPECT_EQ(counted.opens.growth(), 1u);
  EXPECT_EQ(importer.mapped(), 1u);
}

TEST_F(IpcTest, FirstRegionNeedsTheProbe) {
  ExportChild child(remote_device_);
  Importer importer;
  const Buffer near(Kind::device, 64);
  const Answer answer = child.request(Request::Type::allocate, 0, 4096, 1);
  const auto without = importer.open(kPeer, answer.region, nullptr, near.memory());
  ASSERT_FALSE(without.ok());
  EXPECT_EQ(without.error().code(), Errc::intern);
  EXPECT_OK(importer.open(kPeer, answer.region, &answer.probe, near.memory()));
}

TEST_F(IpcTest, WrongBytesRejectThePairPermanently) {
  ExportChild child(remote_device_);
  Importer importer;
  const IpcCounted counted;
  const Buffer near(Kind::device, 64);
  Answer answer = child.request(Request::Type::allocate, 0, 4096, 1);
  Probe wrong = answer.probe;
  wrong.content[3] ^= 1;
  for (const Probe* probe : {static_cast<const Probe*>(&wrong), static_cast<const Probe*>(&answer.probe)}) {
    const auto refused = importer.open(kPeer, answer.region, probe, near.memory());
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code(), Errc::unsupported);
    EXPECT_NE(refused.error().message().find("wrong bytes"), std::string::npos) << refused.error().message();
  }
  EXPECT_EQ(counted.refusals.growth(), 2u);
  EXPECT_EQ(importer.mapped(), 0u);
  importer.drop_peer(kPeer);  // a new peer with the same number starts anew
  EXPECT_OK(importer.open(kPeer, answer.region, &answer.probe, near.memory()));
}

TEST_F(IpcTest, InjectedFaultsAreReportedErrors) {
  if (!cuda().emulated()) GTEST_SKIP() << "needs fault injection";
  ExportChild child(remote_device_);
  Importer importer;
  const Buffer near(Kind::device, 64);
  const Answer answer = child.request(Request::Type::allocate, 0, 4096, 1);
  ASSERT_EQ(cuda().fail("cuIpcOpenMemHandle:2:208"), 0);  // the probe passes, another library has the region
  const auto refused = importer.open(kPeer, answer.region, &answer.probe, near.memory());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::unsupported);
  EXPECT_NE(refused.error().message().find("CUDA_ERROR_ALREADY_MAPPED"), std::string::npos);
  EXPECT_OK(importer.open(kPeer, answer.region, nullptr, near.memory()));  // not permanent
  Importer other;
  ASSERT_EQ(cuda().fail("cuIpcOpenMemHandle:1:201"), 0);
  EXPECT_EQ(other.open(kPeer, answer.region, &answer.probe, near.memory()).error().code(), Errc::unsupported);
}

// Error of a real driver for a recreated block while a mapping of the freed block still exists.
TEST_F(IpcTest, StaleMappingsOfAFreedBlockAreClosed) {
  if (!cuda().emulated()) GTEST_SKIP() << "needs fault injection";
  constexpr uint64_t kBlock = 2 << 20;
  ExportChild child(remote_device_);
  Importer importer;
  const Buffer near(Kind::device, 64);
  Answer old = child.request(Request::Type::allocate, 0, 4096, 2),
         next = child.request(Request::Type::allocate, 1, 4096, 2);
  if (old.region.base / kBlock != next.region.base / kBlock) {
    old = next;
    next = child.request(Request::Type::allocate, 2, 4096, 2);
  }
  ASSERT_EQ(old.region.base / kBlock, next.region.base / kBlock);
  auto mapping = importer.open(kPeer, old.region, &old.probe, near.memory());
  ASSERT_OK(mapping);
  importer.release(*mapping);
  const uint64_t closures = importer.closures();
  ASSERT_EQ(cuda().fail("cuIpcOpenMemHandle:1:208"), 0);
  auto fresh = importer.open(kPeer, next.region, nullptr, near.memory());
  ASSERT_OK(fresh);
  expect_content(**fresh, next.region, 4096, 2);
  EXPECT_EQ(importer.mapped(), 1u) << "the idle one is closed";
  EXPECT_NE(importer.closures(), closures) << "holders are notified";
  ASSERT_EQ(cuda().fail("cuIpcOpenMemHandle:1:208"), 0);
  EXPECT_FALSE(importer.open(kPeer, old.region, nullptr, near.memory()).ok()) << "the other is in use";
  expect_content(**fresh, next.region, 4096, 2);
  importer.release(*fresh);
  EXPECT_OK(importer.open(kPeer, old.region, nullptr, near.memory()));
}

TEST_F(IpcTest, NoPeerAccessIsReported) {
  if (!cuda().emulated() || cuda().devices < 2) GTEST_SKIP() << "needs the emulated driver with 2 devices";
  ExportChild child(1);
  Importer importer;
  const Buffer near(Kind::device, 64);
  const Answer answer = child.request(Request::Type::allocate, 0, 4096, 1);
  cuda().peer(0);
  const auto refused = importer.open(kPeer, answer.region, &answer.probe, near.memory());
  cuda().peer(1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code(), Errc::unsupported);
  EXPECT_NE(refused.error().message().find("no peer access"), std::string::npos) << refused.error().message();
}

TEST_F(IpcTest, UnsupportedMemoryIsNotExportedWithReason) {
  Exporter exporter;
  for (const auto& [kind, word] : {std::pair(Kind::pool, "pool"), std::pair(Kind::managed, "managed"),
                                   std::pair(Kind::pinned, "host"), std::pair(Kind::host, "host")}) {
    const Buffer buffer(kind, 4096);
    const auto refused = exporter.export_region(buffer.memory(), kPeer);
    ASSERT_FALSE(refused.ok()) << name(kind);
    EXPECT_EQ(refused.error().code(), Errc::unsupported);
    EXPECT_NE(refused.error().message().find(word), std::string::npos) << refused.error().message();
  }
}

TEST_F(IpcTest, ExporterQueriesOnceAndBoundsItsTable) {
  Exporter exporter;
  const unsigned long before = cuda().emulated() ? cuda().calls("cuIpcGetMemHandle") : 0;
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (int i = 0; i < 12; ++i) {
    buffers.push_back(std::make_unique<Buffer>(Kind::device, 4096));
    for (const Peer peer : {Peer{1}, Peer{2}, Peer{1}})
      ASSERT_OK(exporter.export_region(buffers.back()->memory(), peer));
  }
  if (cuda().emulated()) {
    EXPECT_EQ(cuda().calls("cuIpcGetMemHandle"), before + 12);
  }
  EXPECT_EQ(exporter.exported(), 12u);
  exporter.forget_peer(2);
  const auto drops = exporter.sweep_freed();  // gpu.ipc_max_exports is 8 in this test's settings
  EXPECT_EQ(exporter.exported(), 8u);
  ASSERT_EQ(drops.size(), 4u);
  for (size_t i = 0; i < drops.size(); ++i) {
    EXPECT_EQ(drops[i].peer, 1u);
    EXPECT_EQ(drops[i].base, buffers[i]->memory().base) << "the least recently used first";
  }
}

TEST_F(IpcTest, MappingsAreBoundedAndUsedMappingsStay) {
  ExportChild child(remote_device_);
  Importer importer;
  const IpcCounted counted;
  const Buffer near(Kind::device, 64);
  std::vector<Region> regions;
  Mapping* held = nullptr;
  for (unsigned i = 0; i < 8; ++i) {  // gpu.ipc_max_mappings is 5 in this test's settings
    const Answer answer = child.request(Request::Type::allocate, i, 4096, i);
    auto mapping = importer.open(kPeer, answer.region, &answer.probe, near.memory());
    ASSERT_OK(mapping);
    expect_content(**mapping, answer.region, 4096, i);
    if (i == 0)
      held = *mapping;
    else
      importer.release(*mapping);
    regions.push_back(answer.region);
    EXPECT_LE(importer.mapped(), 5u);
  }
  EXPECT_EQ(counted.evictions.growth(), 3u);
  expect_content(*held, regions[0], 4096, 0);
  importer.release(held);
  auto evicted = importer.open(kPeer, regions[1], nullptr, near.memory());
  ASSERT_OK(evicted);
  expect_content(**evicted, regions[1], 4096, 1);
  importer.release(*evicted);
}

TEST_F(IpcTest, PeerEndsAndIsReplaced) {
  Importer importer;
  const Buffer near(Kind::device, 64);
  uint64_t epoch = 0;
  for (unsigned life = 0; life < 2; ++life) {
    ExportChild child(remote_device_);
    const Answer answer = child.request(Request::Type::allocate, 0, 4096, life);
    EXPECT_NE(answer.region.epoch, epoch);
    epoch = answer.region.epoch;
    auto mapping = importer.open(kPeer, answer.region, &answer.probe, near.memory());
    ASSERT_OK(mapping);
    expect_content(**mapping, answer.region, 4096, life);
    importer.release(*mapping);
  }
  importer.drop_peer(kPeer);
  EXPECT_EQ(importer.mapped(), 0u);
  importer.close();
  EXPECT_EQ(importer.mapped_bytes(), 0u);
}

TEST_F(IpcTest, CloseToleratesDestroyedContexts) {
  ExportChild child(remote_device_);
  Importer importer;
  Context own = nullptr;
  ASSERT_EQ(cuda().cuCtxCreate_v2(&own, 0, 0), 0);
  Address address = 0;
  ASSERT_EQ(cuda().cuMemAlloc_v2(&address, 4096), 0);
  const Answer answer = child.request(Request::Type::allocate, 0, 4096, 1);
  auto mapping =
      importer.open(kPeer, answer.region, &answer.probe, device::classify(reinterpret_cast<void*>(address)));
  ASSERT_OK(mapping);
  importer.release(*mapping);
  ASSERT_EQ(cuda().cuCtxDestroy_v2(own), 0);
  ASSERT_EQ(cuda().cuCtxSetCurrent(cuda().primary[0]), 0);
  importer.close();
  EXPECT_EQ(importer.mapped(), 0u);
}

}  // namespace

int export_server() {
  const char* socket = std::getenv(kChildVariable);
  const char* device = std::getenv(kDeviceVariable);
  if (!settings_loaded().ok() || !cuda().loaded || !device::open().ok()) return 3;
  return ExportServer(std::atoi(socket), std::atoi(device)).serve();
}
bool is_export_server() { return std::getenv(kChildVariable) != nullptr; }

}  // namespace weft::test

int main(int argc, char** argv) {
  if (weft::test::is_export_server()) return weft::test::export_server();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
