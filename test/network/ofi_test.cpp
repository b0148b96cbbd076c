// SPDX-License-Identifier: BSD-3-Clause
// The libfabric network between processes: order, sizes, back-pressure, gets, disconnects and failures.
// FI_PROVIDER selects the provider.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <csignal>

#include "ofi_pair.hpp"

namespace {

using namespace weft;
using namespace weft::test;

#define RUN(...)                                   \
  const std::vector<int> codes = run(__VA_ARGS__); \
  if (all_are(codes, kSkipped))                    \
  GTEST_SKIP() << "skipped: needs libfabric1 with the provider that FI_PROVIDER names"
#define EXPECT_ALL_SUCCEED() EXPECT_TRUE(all_are(codes, 0)) << text(codes)

uint32_t next_random(uint32_t& state) { return state = state * 1664525U + 1013904223U; }

std::byte pattern(uint32_t seed, size_t at) { return static_cast<std::byte>(seed + at * 131 + (at >> 11)); }

/// Sends `count` messages of random sizes to `to` and receives as many from `from`.
void exchange(Process& process, Peer to, Peer from, uint32_t count) {
  uint32_t received = 0, expected_state = from + 7, state = process.self + 7;
  const auto handler = [&](Peer source, const std::byte* message, size_t size) {
    CHECK(source == from);
    const size_t wanted =
        next_random(expected_state) % (received % 64 == 0 ? process.net->max_message(from) : 300);
    CHECK(size == wanted);
    for (size_t i = 0; i < size; i += 1 + size / 16) CHECK(message[i] == pattern(received, i));
    ++received;
  };
  std::vector<std::byte> data(process.net->max_message(to));
  for (uint32_t n = 0; n < count; ++n) {
    const size_t size = next_random(state) % (n % 64 == 0 ? data.size() : 300);
    for (size_t i = 0; i < size; ++i) data[i] = pattern(n, i);
    process.send(to, data.data(), size);
  }
  CHECK(process.deliver_until(handler, [&] { return received == count; }));
  CHECK(process.poll_until([&] { return process.net->idle(); }));
  for (const auto& [peer, why] : process.losses) std::fprintf(stderr, "lost %u: %s\n", peer, why.c_str());
  CHECK(process.losses.empty());
}

void wait_for_byte(Process& process) {
  bool received = false;
  const auto handler = [&](Peer, const std::byte*, size_t size) { received = size == 1; };
  CHECK(process.deliver_until(handler, [&] { return received; }));
}

/// Waits for the other process, so that neither closes while the other still communicates.
void synchronise(Process& process, Peer other) {
  process.send(other, "x", 1);
  wait_for_byte(process);
  CHECK(process.poll_until([&] { return process.net->idle(); }));
}

TEST(Ofi, MessagesStayInOrder) {
  RUN({[](Process& process) { exchange(process, 1, 1, 20000); },
       [](Process& process) { exchange(process, 0, 0, 20000); }});
  EXPECT_ALL_SUCCEED();
}

TEST(Ofi, RingOfThree) {
  const auto body = [](Process& process) {
    exchange(process, (process.self + 1) % 3, (process.self + 2) % 3, 3000);
  };
  RUN({body, body, body});
  EXPECT_ALL_SUCCEED();
}

TEST(Ofi, ReceiverThatDoesNotProgress) {
  constexpr uint32_t kCount = 30000;
  RUN({[](Process& process) {
         bool full = false;
         for (uint32_t n = 0; n < kCount; ++n) {
           std::byte* message = process.net->reserve(1, 2000);
           if (message == nullptr) {
             full = true;
             CHECK(process.poll_until([&] { return (message = process.net->reserve(1, 2000)) != nullptr; }));
           }
           std::memcpy(message, &n, sizeof n);
           process.net->commit(1, 2000);
         }
         CHECK(full);
         CHECK(process.poll_until([&] { return process.net->idle(); }));
         synchronise(process, 1);
       },
       [](Process& process) {
         ::usleep(500000);
         uint32_t received = 0;
         const auto handler = [&](Peer, const std::byte* message, size_t) {
           CHECK(std::memcmp(message, &received, sizeof received) == 0);
           ++received;
         };
         CHECK(process.deliver_until(handler, [&] { return received == kCount; }));
         synchronise(process, 0);
       }});
  EXPECT_ALL_SUCCEED();
}

struct BufferInfo {
  std::array<std::byte, transport::kMaxRkey> rkey;
  size_t rkey_size;
  size_t length;
};

BufferInfo wait_for_info(Process& process) {
  BufferInfo info{};
  const auto handler = [&](Peer, const std::byte* message, size_t size) {
    CHECK(size == sizeof info);
    std::memcpy(&info, message, size);
  };
  CHECK(process.deliver_until(handler, [&] { return info.rkey_size != 0; }));
  return info;
}

/// Registers buffers of these sizes one after the other and waits until each has been read.
void provide(Process& process, Peer to, const std::vector<size_t>& sizes) {
  for (const size_t size : sizes) {
    std::vector<std::byte> data(size);
    for (size_t i = 0; i < size; ++i) data[i] = pattern(static_cast<uint32_t>(size), i);
    BufferInfo info{};
    auto registered = process.net->register_buffer(to, Buffer{data.data(), size, {}}, info.rkey.data());
    CHECK(registered.ok());
    CHECK(registered->id != 0);
    info.rkey_size = registered->rkey_size;
    info.length = size;
    process.send(to, &info, sizeof info);
    wait_for_byte(process);
    process.net->deregister(registered->id);
  }
}

void read_all(Process& process, Peer from, size_t rounds) {
  for (size_t round = 0; round < rounds; ++round) {
    const BufferInfo info = wait_for_info(process);
    // Two parts, the second first.
    const size_t middle = info.length / 3;
    std::vector<std::byte> data(info.length + 1, std::byte{0xee});
    GetCompletion first, second;
    const std::span<const std::byte> rkey(info.rkey.data(), info.rkey_size);
    process.net->get(from, Buffer{data.data() + middle, info.length - middle, {}}, rkey, middle, second);
    process.net->get(from, Buffer{data.data(), middle, {}}, rkey, 0, first);
    CHECK(!first.completed && !second.completed);
    CHECK(process.poll_until([&] { return first.completed && second.completed; }));
    CHECK(first.outcome.ok() && second.outcome.ok());
    for (size_t i = 0; i < info.length; ++i) CHECK(data[i] == pattern(static_cast<uint32_t>(info.length), i));
    CHECK(data[info.length] == std::byte{0xee});
    GetCompletion beyond;
    process.net->get(from, Buffer{data.data(), 2, {}}, rkey, info.length - 1, beyond);
    CHECK(process.poll_until([&] { return beyond.completed; }));
    CHECK(!beyond.outcome.ok());
    process.send(from, "x", 1);
  }
  CHECK(process.poll_until([&] { return process.net->idle(); }));
  CHECK(process.losses.empty());
}

TEST(Ofi, GetsOfAllSizes) {
  std::vector<size_t> sizes;
  for (size_t size = 1; size <= size_t{64} << 20; size *= 4) sizes.insert(sizes.end(), {size, size + 1});
  RUN({[&](Process& process) { provide(process, 1, sizes); },
       [&](Process& process) { read_all(process, 0, sizes.size()); }});
  EXPECT_ALL_SUCCEED();
}

TEST(Ofi, ManyConcurrentGets) {
  constexpr size_t kCount = 500, kBytes = 40000;
  RUN({[](Process& process) {
         std::vector<std::byte> data(kCount * kBytes);
         for (size_t i = 0; i < data.size(); ++i) data[i] = pattern(5, i);
         BufferInfo info{};
         auto registered =
             process.net->register_buffer(1, Buffer{data.data(), data.size(), {}}, info.rkey.data());
         CHECK(registered.ok());
         info.rkey_size = registered->rkey_size;
         process.send(1, &info, sizeof info);
         synchronise(process, 1);
         process.net->deregister(registered->id);
       },
       [](Process& process) {
         const BufferInfo info = wait_for_info(process);
         std::vector<std::byte> data(kCount * kBytes);
         std::vector<GetCompletion> ends(kCount);
         for (size_t n = 0; n < kCount; ++n)
           process.net->get(0, Buffer{data.data() + n * kBytes, kBytes, {}},
                            {info.rkey.data(), info.rkey_size}, n * kBytes, ends[n]);
         for (GetCompletion& end : ends)
           CHECK(process.poll_until([&] { return end.completed; }) && end.outcome.ok());
         for (size_t i = 0; i < data.size(); ++i) CHECK(data[i] == pattern(5, i));
         synchronise(process, 0);
       }});
  EXPECT_ALL_SUCCEED();
}

// Also while the receiver sends heartbeats: an unread heartbeat in the socket that the sender closes must not
// reset the connection before the last messages have arrived.
TEST(Ofi, CloseDeliversEarlierMessages) {
  constexpr uint32_t kCount = 2000;
  ::setenv("WEFT_NET_OFI_KEEPALIVE_MS", "1", 1);
  RUN({[](Process& process) {
         const std::vector<std::byte> data(5000);
         for (uint32_t n = 0; n < kCount; ++n) process.send(1, data.data(), data.size());
       },
       [](Process& process) {
         uint32_t received = 0;
         const auto handler = [&](Peer, const std::byte*, size_t) { ++received; };
         CHECK(process.deliver_until(handler, [&] { return received == kCount; }));
         CHECK(process.losses.empty());
       }});
  ::unsetenv("WEFT_NET_OFI_KEEPALIVE_MS");
  EXPECT_ALL_SUCCEED();
}

TEST(Ofi, CloseWithOutstandingTraffic) {
  RUN({[](Process& process) {  // gets and sends until the peer has closed
         std::vector<std::byte> data(1 << 20);
         const BufferInfo info = wait_for_info(process);
         GetCompletion failed;
         while (!failed.completed || failed.outcome.ok()) {
           failed.completed = false;
           process.net->get(1, Buffer{data.data(), data.size(), {}}, {info.rkey.data(), info.rkey_size}, 0,
                            failed);
           if (std::byte* message = process.net->reserve(1, 100)) {
             std::memset(message, 0, 100);
             process.net->commit(1, 100);
           }
           CHECK(process.poll_until([&] { return failed.completed; }, 10));
         }
       },
       [](Process& process) {
         static std::vector<std::byte> data(1 << 20);
         BufferInfo info{};
         auto registered =
             process.net->register_buffer(0, Buffer{data.data(), data.size(), {}}, info.rkey.data());
         CHECK(registered.ok());
         info.rkey_size = registered->rkey_size;
         process.send(0, &info, sizeof info);
         const double end = now() + 0.5;
         while (now() < end) process.poll();
       }});
  EXPECT_ALL_SUCCEED();
}

// The survivor detects the death of a watched peer without traffic, and of a peer with an outstanding get.
TEST(Ofi, KilledPeerIsDetected) {
  RUN({[](Process& process) {
         const BufferInfo info = wait_for_info(process);
         process.net->watch(2);
         const double begin = now();
         std::vector<std::byte> data(4 << 20);
         GetCompletion end;
         process.send(1, "x", 1);
         process.net->get(1, Buffer{data.data(), data.size(), {}}, {info.rkey.data(), info.rkey_size}, 0,
                          end);
         CHECK(process.poll_until([&] { return process.losses.size() == 2; }, 5));
         CHECK(end.completed);
         CHECK(now() - begin < 5);
         CHECK(process.losses[0].first + process.losses[1].first == 3);
         for (int n = 0; n < 1000; ++n) {  // dropped, and not counted by idle()
           std::byte* message = process.net->reserve(1, 100);
           CHECK(message != nullptr);
           process.net->commit(1, 100);
         }
         CHECK(process.net->idle());
         GetCompletion late;
         process.net->get(1, Buffer{data.data(), data.size(), {}}, {info.rkey.data(), info.rkey_size}, 0,
                          late);
         CHECK(process.poll_until([&] { return late.completed; }, 5));
         CHECK(!late.outcome.ok() && late.outcome.error().code() == Errc::proc_aborted);
         CHECK(process.losses.size() == 2);
       },
       [](Process& process) {
         static std::vector<std::byte> data(4 << 20);
         BufferInfo info{};
         auto registered =
             process.net->register_buffer(0, Buffer{data.data(), data.size(), {}}, info.rkey.data());
         info.rkey_size = registered->rkey_size;
         process.send(0, &info, sizeof info);
         wait_for_byte(process);
         ::kill(::getpid(), SIGKILL);
       },
       [](Process& process) {
         const double end = now() + 1;
         while (now() < end) process.poll();
         ::kill(::getpid(), SIGKILL);
       }});
  EXPECT_EQ(text(codes), "0 -9 -9 ");
}

/// Sends the key of a buffer and the own pid to process 0, and stops until process 0 kills it.
void provide_and_stop(Process& process) {
  static std::vector<std::byte> data(4 << 20);
  BufferInfo info{};
  auto registered = process.net->register_buffer(0, Buffer{data.data(), data.size(), {}}, info.rkey.data());
  CHECK(registered.ok());
  info.rkey_size = registered->rkey_size;
  info.length = static_cast<size_t>(::getpid());
  process.send(0, &info, sizeof info);
  CHECK(process.poll_until([&] { return process.net->idle(); }));
  ::raise(SIGSTOP);
}

// Another process has found the failure: nothing waits for the peer, and its gets end with libfabric's reads,
// which fail if the process has ended (first peer), or after a time if its host no longer answers (second
// peer).
TEST(Ofi, PeerThatOthersHaveFoundDead) {
  RUN({[](Process& process) {
         for (const Peer peer : {1u, 2u}) {
           BufferInfo info{};
           const auto handler = [&](Peer source, const std::byte* message, size_t) {
             if (source == peer) std::memcpy(&info, message, sizeof info);
           };
           process.send(peer, "x", 1);
           CHECK(process.deliver_until(handler, [&] { return info.rkey_size != 0; }));
           const auto pid = static_cast<pid_t>(info.length);
           std::vector<std::byte> data(4 << 20);
           GetCompletion end;
           process.net->get(peer, Buffer{data.data(), data.size(), {}}, {info.rkey.data(), info.rkey_size}, 0,
                            end);
           if (peer == 1) ::kill(pid, SIGKILL);
           process.net->lose(peer);
           std::byte* const dropped = process.net->reserve(peer, 100);
           CHECK(dropped != nullptr);
           process.net->commit(peer, 100);
           CHECK(process.net->idle());
           CHECK(process.poll_until([&] { return end.completed; }));
           CHECK(!end.outcome.ok() && end.outcome.error().code() == Errc::proc_aborted);
           CHECK(process.losses.empty());
           ::kill(pid, SIGKILL);
         }
       },
       [](Process& process) {
         wait_for_byte(process);
         provide_and_stop(process);
       },
       [](Process& process) {
         wait_for_byte(process);
         provide_and_stop(process);
       }});
  EXPECT_EQ(text(codes), "0 -9 -9 ");
}

// A process that closes learns of the death of a peer by its heartbeats, at their rate (0.7 s); without them
// it flushes the messages to that peer for 2 s. A busy machine may delay some of the trials.
TEST(Ofi, CloseAfterTheDeathOfAPeer) {
  constexpr double kFlushSeconds = 2;
  double shortest = kFlushSeconds;
  for (int trial = 0; trial < 5 && shortest >= kFlushSeconds; ++trial) {
    std::array<int, 2> seconds{};
    ASSERT_EQ(::pipe(seconds.data()), 0);
    RUN({[&](Process& process) {
           ::usleep(100000);  // until the other process has ended
           process.send(1, "x", 1);
           const double begin = now();
           process.net->close();
           const double taken = now() - begin;
           CHECK(::write(seconds[1], &taken, sizeof taken) == sizeof taken);
         },
         [](Process&) { ::kill(::getpid(), SIGKILL); }});
    EXPECT_EQ(text(codes), "0 -9 ");
    ::close(seconds[1]);
    ASSERT_EQ(::read(seconds[0], &shortest, sizeof shortest), static_cast<ssize_t>(sizeof shortest));
    ::close(seconds[0]);
  }
  EXPECT_LT(shortest, kFlushSeconds);
}

TEST(Ofi, BusyPeerIsNotLost) {
  RUN({[](Process& process) {
         synchronise(process, 1);
         const double end = now() + 3;
         while (now() < end) process.poll();
         CHECK(process.losses.empty());
         synchronise(process, 1);
       },
       [](Process& process) {
         synchronise(process, 0);
         ::usleep(3200000);
         synchronise(process, 0);
       }});
  EXPECT_ALL_SUCCEED();
}

TEST(Ofi, DisconnectIsNoFailure) {
  RUN({[](Process& process) {
         synchronise(process, 1);
         const double end = now() + 3;
         while (now() < end) process.poll();
         CHECK(process.losses.empty());
       },
       [](Process& process) { synchronise(process, 0); }});
  EXPECT_ALL_SUCCEED();
}

/// A process that has never sent a message sends a disconnect notice too.
TEST(Ofi, SilentPeerSendsDisconnect) {
  RUN({[](Process& process) {
         process.send(1, "x", 1);
         CHECK(!process.poll_until([&] { return !process.losses.empty(); }, 3));
       },
       [](Process& process) { wait_for_byte(process); }});
  EXPECT_ALL_SUCCEED();
}

TEST(Ofi, TrafficAfterDisconnect) {
  const auto body = [](Process& process) {
    exchange(process, 1 - process.self, 1 - process.self, 100);
    process.net->send_disconnects();
    exchange(process, 1 - process.self, 1 - process.self, 100);
  };
  RUN({body, body});
  EXPECT_ALL_SUCCEED();
}

// A peer that knows the address and the format, but not the secret; also one of another job.
TEST(Ofi, ForeignMessagesAreDropped) {
  RUN({[](Process& process) {
         process.addresses[1][0] ^= 1;  // the secret is the first field
         process.send(1, "x", 1);
         CHECK(process.poll_until([&] { return process.net->idle(); }));
       },
       [](Process& process) {
         int received = 0;
         const auto handler = [&](Peer, const std::byte*, size_t) { ++received; };
         CHECK(!process.deliver_until(
             handler, [&] { return received != 0; }, 1));
         CHECK(transport::foreign_messages.value() >= 1);
       }});
  EXPECT_ALL_SUCCEED();
}

}  // namespace
