// SPDX-License-Identifier: BSD-3-Clause
// The libfabric network beside processes that compute, and so do not progress, or die meanwhile: they keep
// no others from communicating. FI_PROVIDER selects the provider.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "ofi_pair.hpp"

namespace {

using namespace weft;
using namespace weft::test;

constexpr Peer kProcesses = 7, kFirstBusy = 2;  // process 0 communicates with 1, and all are its peers
constexpr double kBusySeconds = 1.5;
constexpr size_t kBytes = 100000, kGets = 20;

struct BufferInfo {
  std::array<std::byte, transport::kMaxRkey> rkey;
  size_t rkey_size;
};

#define RUN(...)                                   \
  const std::vector<int> codes = run(__VA_ARGS__); \
  if (all_are(codes, kSkipped))                    \
  GTEST_SKIP() << "skipped: needs libfabric1 with the provider that FI_PROVIDER names"

void wait_for_bytes(Process& process, int count) {
  int received = 0;
  const auto handler = [&](Peer, const std::byte*, size_t size) {
    CHECK(size == 1);
    ++received;
  };
  CHECK(process.deliver_until(handler, [&] { return received == count; }));
}

void synchronise(Process& process, Peer other) {
  process.send(other, "x", 1);
  wait_for_bytes(process, 1);
  CHECK(process.poll_until([&] { return process.net->idle(); }));
}

/// Registers memory that `to` reads, computes if it is to, and answers until it gets a byte.
void provide(Process& process, Peer to, bool busy) {
  static std::array<std::byte, kBytes> data;
  BufferInfo info{};
  auto registered = process.net->register_buffer(to, Buffer{data.data(), kBytes, {}}, info.rkey.data(),
                                                 transport::Access::read);
  CHECK(registered);
  info.rkey_size = registered->rkey_size;
  synchronise(process, to);
  process.send(to, &info, sizeof info);
  CHECK(process.poll_until([&] { return process.net->idle(); }));
  if (busy) ::usleep(static_cast<useconds_t>(kBusySeconds * 1e6));
  bool ended = false;
  const auto handler = [&](Peer, const std::byte*, size_t size) { ended = size == 1; };
  CHECK(process.deliver_until(handler, [&] { return ended; }));
}

/// Has as many messages and gets in flight with the busy processes as there may be, and needs process 1.
void communicate(Process& process) {
  std::vector<BufferInfo> infos(kProcesses);
  wait_for_bytes(process, kProcesses - 1);
  Peer known = 0;
  const auto handler = [&](Peer source, const std::byte* message, size_t size) {
    CHECK(size == sizeof(BufferInfo));
    std::memcpy(&infos[source], message, size);
    ++known;
  };
  for (Peer peer = 1; peer < kProcesses; ++peer) process.send(peer, "x", 1);
  CHECK(process.deliver_until(handler, [&] { return known == kProcesses - 1; }));
  const double start = now();
  std::vector<std::byte> data(kProcesses * kGets * kBytes);
  std::vector<GetCompletion> gets(kProcesses * kGets);
  const auto get = [&](Peer peer, size_t i) {
    const size_t index = peer * kGets + i;
    process.net->get(peer, Buffer{data.data() + index * kBytes, kBytes, {}},
                     {infos[peer].rkey.data(), infos[peer].rkey_size}, 0, gets[index]);
  };
  for (Peer peer = kFirstBusy; peer < kProcesses; ++peer) {
    for (size_t i = 0; i < kGets; ++i) get(peer, i);
    const size_t size = process.net->max_message(peer);
    while (process.net->reserve(peer, size) != nullptr) process.net->commit(peer, size);
  }
  get(1, 0);
  CHECK(process.poll_until([&] { return gets[kGets].completed; }));
  process.send(1, "x", 1);
  CHECK(now() - start < 0.7 * kBusySeconds);
  for (size_t i = kFirstBusy * kGets; i < gets.size(); ++i) {
    CHECK(process.poll_until([&] { return gets[i].completed; }));
    CHECK(gets[i].outcome);
  }
  for (Peer peer = kFirstBusy; peer < kProcesses; ++peer) process.send(peer, "x", 1);
  CHECK(process.poll_until([&] { return process.net->idle(); }));
}

TEST(OfiBusy, MessagesAndGetsOfOthers) {
  std::vector<Body> bodies = {communicate};
  for (Peer peer = 1; peer < kProcesses; ++peer)
    bodies.emplace_back([busy = peer >= kFirstBusy](Process& process) { provide(process, 0, busy); });
  RUN(bodies);
  EXPECT_TRUE(all_are(codes, 0)) << text(codes);
}

/// libfabric has a message, of any size, as soon as it is sent.
TEST(OfiBusy, MessageOfABusyProcess) {
  RUN({[](Process& process) {
         synchronise(process, 1);
         const double start = now();
         bool received = false;
         CHECK(process.deliver_until(
             [&](Peer, const std::byte*, size_t size) { received = size == process.net->max_message(1); },
             [&] { return received; }));
         CHECK(now() - start < 0.7 * kBusySeconds);
         synchronise(process, 1);
       },
       [](Process& process) {
         synchronise(process, 0);
         const std::vector<std::byte> data(process.net->max_message(0));
         process.send(0, data.data(), data.size());
         ::usleep(static_cast<useconds_t>(kBusySeconds * 1e6));
         synchronise(process, 0);
       }});
  EXPECT_TRUE(all_are(codes, 0)) << text(codes);
}

/// Opens a second network whose large messages libfabric moves by a rendezvous of its own if, as 1.17, it
/// read the variable when it was loaded; libfabric 2 reads it again. The processes exchange its addresses.
Process with_rendezvous(Process& first, Peer count) {
  ::setenv("FI_OFI_RXM_BUFFER_SIZE", "65536", 1);
  launch::Job job;
  job.rank = job.local_rank = static_cast<int>(first.self);
  job.size = job.local_size = static_cast<int>(count);
  job.id = "test";
  auto opened = transport::ofi::Ofi::open(job);
  CHECK(opened);
  Process second;
  second.self = first.self;
  second.net = std::move(*opened);
  second.addresses.resize(count);
  second.addresses[second.self] = second.net->address();
  size_t known = 1;
  for (Peer peer = 0; peer < count; ++peer)
    if (peer != first.self) first.send(peer, second.net->address().data(), second.net->address().size());
  const auto handler = [&](Peer source, const std::byte* message, size_t size) {
    second.addresses[source] = {reinterpret_cast<const char*>(message), size};
    ++known;
  };
  CHECK(first.deliver_until(handler, [&] { return known == count; }));
  CHECK(first.poll_until([&] { return first.net->idle(); }));
  return second;
}

// Small messages overtake a large one whose sender computes, or dies, before the large one has arrived.
class Overtaken : public testing::TestWithParam<bool> {};

constexpr size_t kLargeBytes = 60000;
constexpr uint32_t kSmall = 200;

void receive_overtaken(Process& first, bool dies) {
  Process process = with_rendezvous(first, 3);
  process.start();
  wait_for_bytes(process, 2);
  process.send(1, "x", 1);
  process.send(2, "x", 1);
  CHECK(process.poll_until([&] { return process.net->idle(); }));
  ::usleep(300000);  // meanwhile process 2 sends
  uint32_t received = 0, others = 0;
  const auto handler = [&](Peer source, const std::byte* message, size_t size) {
    if (source == 1) return static_cast<void>(++others);
    CHECK(size == (received == 0 ? kLargeBytes : sizeof received));
    CHECK(received == 0 || std::memcmp(message, &received, sizeof received) == 0);
    ++received;
  };
  const double start = now();
  CHECK(process.deliver_until(handler, [&] { return others == 100; }));
  CHECK(now() - start < 0.7 * kBusySeconds);
  if (dies) {
    CHECK(process.poll_until([&] { return process.losses.size() == 1; }));
    CHECK(process.losses[0].first == 2);
    process.send(1, "x", 1);
    CHECK(process.deliver_until(handler, [&] { return others == 200; }));
    CHECK(received == 0 || received == 1 + kSmall);
  } else {
    CHECK(process.deliver_until(handler, [&] { return received == 1 + kSmall; }));
    synchronise(process, 2);
    process.send(1, "x", 1);
    CHECK(process.deliver_until(handler, [&] { return others == 200; }));
  }
  process.net->close();
}

void send_others(Process& first) {
  Process process = with_rendezvous(first, 3);
  process.start();
  synchronise(process, 0);
  for (int i = 0; i < 100; ++i) process.send(0, "yz", 2);
  wait_for_bytes(process, 1);
  for (int i = 0; i < 100; ++i) process.send(0, "yz", 2);
  CHECK(process.poll_until([&] { return process.net->idle(); }));
  process.net->close();
}

void send_overtaken(Process& first, bool dies) {
  Process process = with_rendezvous(first, 3);
  process.start();
  synchronise(process, 0);
  const std::vector<std::byte> data(kLargeBytes);
  process.send(0, data.data(), data.size());
  for (uint32_t i = 1; i <= kSmall; ++i) process.send(0, &i, sizeof i);
  ::usleep(static_cast<useconds_t>(kBusySeconds * 1e6));
  if (dies) ::kill(::getpid(), SIGKILL);
  synchronise(process, 0);
  process.net->close();
}

TEST_P(Overtaken, MessageOfABusyProcess) {
  const bool dies = GetParam();
  RUN({[=](Process& process) { receive_overtaken(process, dies); }, send_others,
       [=](Process& process) { send_overtaken(process, dies); }});
  EXPECT_EQ(codes, (std::vector<int>{0, 0, dies ? -SIGKILL : 0})) << text(codes);
}
INSTANTIATE_TEST_SUITE_P(OfiBusy, Overtaken, testing::Bool());

}  // namespace
