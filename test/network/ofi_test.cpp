// SPDX-License-Identifier: BSD-3-Clause
// The libfabric transport between processes: order, sizes, back-pressure, reads of memory, ends of all kinds.
// The provider is what FI_PROVIDER says.
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
#define EXPECT_ALL_WELL() EXPECT_TRUE(all_are(codes, 0)) << text(codes)

uint32_t next_random(uint32_t& state) { return state = state * 1664525U + 1013904223U; }

std::byte pattern(uint32_t seed, size_t at) { return static_cast<std::byte>(seed + at * 131 + (at >> 11)); }

/// Sends `count` messages of random sizes to the next process and takes as many from the one before.
void exchange(Side& side, Peer to, Peer from, uint32_t count) {
  uint32_t got = 0, expected_state = from + 7, state = side.self + 7;
  const auto handler = [&](Peer source, const std::byte* message, size_t size) {
    CHECK(source == from);
    const size_t wanted = next_random(expected_state) % (got % 64 == 0 ? side.net->max_message(from) : 300);
    CHECK(size == wanted);
    for (size_t i = 0; i < size; i += 1 + size / 16) CHECK(message[i] == pattern(got, i));
    ++got;
  };
  std::vector<std::byte> data(side.net->max_message(to));
  for (uint32_t n = 0; n < count; ++n) {
    const size_t size = next_random(state) % (n % 64 == 0 ? data.size() : 300);
    for (size_t i = 0; i < size; ++i) data[i] = pattern(n, i);
    side.send(to, data.data(), size);
  }
  CHECK(side.take_until(handler, [&] { return got == count; }));
  CHECK(side.until([&] { return side.net->idle(); }));
  for (const auto& [peer, why] : side.losses) std::fprintf(stderr, "lost %u: %s\n", peer, why.c_str());
  CHECK(side.losses.empty());
}

void wait_for_word(Side& side) {
  bool came = false;
  const auto handler = [&](Peer, const std::byte*, size_t size) { came = size == 1; };
  CHECK(side.take_until(handler, [&] { return came; }));
}

/// Both are through, so that nobody closes while the other one still needs it.
void meet(Side& side, Peer other) {
  side.send(other, "x", 1);
  wait_for_word(side);
  CHECK(side.until([&] { return side.net->idle(); }));
}

TEST(Ofi, MessagesStayInOrder) {
  RUN({[](Side& side) { exchange(side, 1, 1, 20000); }, [](Side& side) { exchange(side, 0, 0, 20000); }});
  EXPECT_ALL_WELL();
}

TEST(Ofi, ThreeInARing) {
  const auto body = [](Side& side) { exchange(side, (side.self + 1) % 3, (side.self + 2) % 3, 3000); };
  RUN({body, body, body});
  EXPECT_ALL_WELL();
}

TEST(Ofi, ReceiverThatDoesNotLook) {
  constexpr uint32_t kCount = 30000;
  RUN({[](Side& side) {
         bool full = false;
         for (uint32_t n = 0; n < kCount; ++n) {
           std::byte* room = side.net->reserve(1, 2000);
           if (room == nullptr) {
             full = true;
             CHECK(side.until([&] { return (room = side.net->reserve(1, 2000)) != nullptr; }));
           }
           std::memcpy(room, &n, sizeof n);
           side.net->commit(1, 2000);
         }
         CHECK(full);
         CHECK(side.until([&] { return side.net->idle(); }));
         meet(side, 1);
       },
       [](Side& side) {
         ::usleep(500000);
         uint32_t got = 0;
         const auto handler = [&](Peer, const std::byte* message, size_t) {
           CHECK(std::memcmp(message, &got, sizeof got) == 0);
           ++got;
         };
         CHECK(side.take_until(handler, [&] { return got == kCount; }));
         meet(side, 0);
       }});
  EXPECT_ALL_WELL();
}

struct Offer {
  std::array<std::byte, transport::kMaxKey> key;
  size_t key_size;
  size_t length;
};

Offer wait_for_offer(Side& side) {
  Offer offer{};
  const auto handler = [&](Peer, const std::byte* message, size_t size) {
    CHECK(size == sizeof offer);
    std::memcpy(&offer, message, size);
  };
  CHECK(side.take_until(handler, [&] { return offer.key_size != 0; }));
  return offer;
}

/// Exposes buffers of these sizes in turn, waits for each to be read.
void lend(Side& side, Peer to, const std::vector<size_t>& sizes) {
  for (const size_t size : sizes) {
    std::vector<std::byte> data(size);
    for (size_t i = 0; i < size; ++i) data[i] = pattern(static_cast<uint32_t>(size), i);
    Offer offer{};
    auto exposed = side.net->expose(to, Buffer{data.data(), size, {}}, offer.key.data());
    CHECK(exposed.ok());
    CHECK(exposed->id != 0);
    offer.key_size = exposed->key_size;
    offer.length = size;
    side.send(to, &offer, sizeof offer);
    wait_for_word(side);
    side.net->conceal(exposed->id);
  }
}

void borrow(Side& side, Peer from, size_t rounds) {
  for (size_t round = 0; round < rounds; ++round) {
    const Offer offer = wait_for_offer(side);
    // In two parts, the second one first.
    const size_t middle = offer.length / 3;
    std::vector<std::byte> data(offer.length + 1, std::byte{0xee});
    Fetched first, second;
    const std::span<const std::byte> key(offer.key.data(), offer.key_size);
    side.net->fetch(from, Buffer{data.data() + middle, offer.length - middle, {}}, key, middle, second);
    side.net->fetch(from, Buffer{data.data(), middle, {}}, key, 0, first);
    CHECK(!first.over && !second.over);
    CHECK(side.until([&] { return first.over && second.over; }));
    CHECK(first.outcome.ok() && second.outcome.ok());
    for (size_t i = 0; i < offer.length; ++i)
      CHECK(data[i] == pattern(static_cast<uint32_t>(offer.length), i));
    CHECK(data[offer.length] == std::byte{0xee});
    Fetched beyond;
    side.net->fetch(from, Buffer{data.data(), 2, {}}, key, offer.length - 1, beyond);
    CHECK(side.until([&] { return beyond.over; }));
    CHECK(!beyond.outcome.ok());
    side.send(from, "x", 1);
  }
  CHECK(side.until([&] { return side.net->idle(); }));
  CHECK(side.losses.empty());
}

TEST(Ofi, ReadsOfAllSizes) {
  std::vector<size_t> sizes;
  for (size_t size = 1; size <= size_t{64} << 20; size *= 4) sizes.insert(sizes.end(), {size, size + 1});
  RUN({[&](Side& side) { lend(side, 1, sizes); }, [&](Side& side) { borrow(side, 0, sizes.size()); }});
  EXPECT_ALL_WELL();
}

TEST(Ofi, ManyReadsAtOnce) {
  constexpr size_t kCount = 500, kBytes = 40000;
  RUN({[](Side& side) {
         std::vector<std::byte> data(kCount * kBytes);
         for (size_t i = 0; i < data.size(); ++i) data[i] = pattern(5, i);
         Offer offer{};
         auto exposed = side.net->expose(1, Buffer{data.data(), data.size(), {}}, offer.key.data());
         CHECK(exposed.ok());
         offer.key_size = exposed->key_size;
         side.send(1, &offer, sizeof offer);
         meet(side, 1);
         side.net->conceal(exposed->id);
       },
       [](Side& side) {
         const Offer offer = wait_for_offer(side);
         std::vector<std::byte> data(kCount * kBytes);
         std::vector<Fetched> ends(kCount);
         for (size_t n = 0; n < kCount; ++n)
           side.net->fetch(0, Buffer{data.data() + n * kBytes, kBytes, {}},
                           {offer.key.data(), offer.key_size}, n * kBytes, ends[n]);
         for (Fetched& end : ends) CHECK(side.until([&] { return end.over; }) && end.outcome.ok());
         for (size_t i = 0; i < data.size(); ++i) CHECK(data[i] == pattern(5, i));
         meet(side, 0);
       }});
  EXPECT_ALL_WELL();
}

TEST(Ofi, WhatWasSentBeforeTheCloseArrives) {
  constexpr uint32_t kCount = 2000;
  RUN({[](Side& side) {
         const std::vector<std::byte> data(5000);
         for (uint32_t n = 0; n < kCount; ++n) side.send(1, data.data(), data.size());
       },
       [](Side& side) {
         uint32_t got = 0;
         const auto handler = [&](Peer, const std::byte*, size_t) { ++got; };
         CHECK(side.take_until(handler, [&] { return got == kCount; }));
         CHECK(side.losses.empty());
       }});
  EXPECT_ALL_WELL();
}

TEST(Ofi, CloseWithTrafficUnderWay) {
  RUN({[](Side& side) {  // reads and sends without end to one that goes
         std::vector<std::byte> data(1 << 20);
         const Offer offer = wait_for_offer(side);
         Fetched failed;
         while (!failed.over || failed.outcome.ok()) {
           failed.over = false;
           side.net->fetch(1, Buffer{data.data(), data.size(), {}}, {offer.key.data(), offer.key_size}, 0,
                           failed);
           if (std::byte* room = side.net->reserve(1, 100)) {
             std::memset(room, 0, 100);
             side.net->commit(1, 100);
           }
           CHECK(side.until([&] { return failed.over; }, 10));
         }
       },
       [](Side& side) {
         static std::vector<std::byte> data(1 << 20);
         Offer offer{};
         auto exposed = side.net->expose(0, Buffer{data.data(), data.size(), {}}, offer.key.data());
         CHECK(exposed.ok());
         offer.key_size = exposed->key_size;
         side.send(0, &offer, sizeof offer);
         const double end = now() + 0.5;
         while (now() < end) side.poll();
       }});
  EXPECT_ALL_WELL();
}

// The survivor waits with nothing under way but what it watches; then with a read that will never be served.
TEST(Ofi, KilledPeerIsSeen) {
  RUN({[](Side& side) {
         const Offer offer = wait_for_offer(side);
         side.net->watch(2);
         const double begin = now();
         std::vector<std::byte> data(4 << 20);
         Fetched end;
         side.send(1, "x", 1);
         side.net->fetch(1, Buffer{data.data(), data.size(), {}}, {offer.key.data(), offer.key_size}, 0, end);
         CHECK(side.until([&] { return side.losses.size() == 2; }, 5));
         CHECK(end.over);
         CHECK(now() - begin < 5);
         CHECK(side.losses[0].first + side.losses[1].first == 3);
         for (int n = 0; n < 1000; ++n) {  // dropped, and nothing waits for it
           std::byte* room = side.net->reserve(1, 100);
           CHECK(room != nullptr);
           side.net->commit(1, 100);
         }
         CHECK(side.net->idle());
         Fetched late;
         side.net->fetch(1, Buffer{data.data(), data.size(), {}}, {offer.key.data(), offer.key_size}, 0,
                         late);
         CHECK(side.until([&] { return late.over; }, 5));
         CHECK(!late.outcome.ok() && late.outcome.error().code() == Errc::proc_aborted);
         CHECK(side.losses.size() == 2);
       },
       [](Side& side) {
         static std::vector<std::byte> data(4 << 20);
         Offer offer{};
         auto exposed = side.net->expose(0, Buffer{data.data(), data.size(), {}}, offer.key.data());
         offer.key_size = exposed->key_size;
         side.send(0, &offer, sizeof offer);
         wait_for_word(side);
         ::kill(::getpid(), SIGKILL);
       },
       [](Side& side) {
         const double end = now() + 1;
         while (now() < end) side.poll();
         ::kill(::getpid(), SIGKILL);
       }});
  EXPECT_EQ(text(codes), "0 -9 -9 ");
}

TEST(Ofi, PeerThatComputesIsNotDead) {
  RUN({[](Side& side) {
         meet(side, 1);
         const double end = now() + 3;
         while (now() < end) side.poll();
         CHECK(side.losses.empty());
         meet(side, 1);
       },
       [](Side& side) {
         meet(side, 0);
         ::usleep(3200000);
         meet(side, 0);
       }});
  EXPECT_ALL_WELL();
}

TEST(Ofi, GoodbyeIsNoDeath) {
  RUN({[](Side& side) {
         meet(side, 1);
         const double end = now() + 3;
         while (now() < end) side.poll();
         CHECK(side.losses.empty());
       },
       [](Side& side) { meet(side, 0); }});
  EXPECT_ALL_WELL();
}

/// One that has never sent anything says it too.
TEST(Ofi, SilentPeerSaysGoodbye) {
  RUN({[](Side& side) {
         side.send(1, "x", 1);
         CHECK(!side.until([&] { return !side.losses.empty(); }, 3));
       },
       [](Side& side) { wait_for_word(side); }});
  EXPECT_ALL_WELL();
}

TEST(Ofi, AfterLeavingTrafficGoesOn) {
  const auto body = [](Side& side) {
    exchange(side, 1 - side.self, 1 - side.self, 100);
    side.net->leave();
    exchange(side, 1 - side.self, 1 - side.self, 100);
  };
  RUN({body, body});
  EXPECT_ALL_WELL();
}

TEST(Ofi, MessagesOfAnotherJobAreDropped) {
  RUN({[](Side& side) {
         side.send(1, "x", 1);
         CHECK(side.until([&] { return side.net->idle(); }));
       },
       [](Side& side) {
         int got = 0;
         const auto handler = [&](Peer, const std::byte*, size_t) { ++got; };
         CHECK(!side.take_until(
             handler, [&] { return got != 0; }, 1));
       }},
      {"one", "another"});
  EXPECT_ALL_WELL();
}

}  // namespace
