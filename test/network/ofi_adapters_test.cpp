// SPDX-License-Identifier: BSD-3-Clause
// Several adapters of one process over libfabric: which ones are paired, their published addresses, stripes
// of gets and puts, errors. The adapters are endpoints of the loopback interface, "lo+lo"; FI_PROVIDER
// selects the provider.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <array>

#include "base/counters.hpp"
#include "ofi_pair.hpp"

namespace {

using namespace weft;
using namespace weft::test;
using transport::ofi::AdapterIndices;
using transport::ofi::pair_adapters;
using transport::ofi::PublishedAddress;

constexpr size_t kStripeMin = 16 << 10;

std::string ipv4(const char* text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  EXPECT_EQ(::inet_pton(AF_INET, text, &address.sin_addr), 1);
  return {reinterpret_cast<const char*>(&address), sizeof address};
}
std::string ipv6(const char* text) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  EXPECT_EQ(::inet_pton(AF_INET6, text, &address.sin6_addr), 1);
  return {reinterpret_cast<const char*>(&address), sizeof address};
}

using Pairs = std::vector<AdapterIndices>;

TEST(Pairs, AddressesOfOneNetwork) {
  constexpr uint32_t kIn = transport::ofi::abi::kFormatIn, kIn6 = transport::ofi::abi::kFormatIn6;
  const std::string a = ipv4("10.1.0.1"), b = ipv4("10.2.0.1"), c = ipv4("10.3.0.1");
  const std::string peer_a = ipv4("10.1.0.2"), peer_b = ipv4("10.2.0.2"), peer_c = ipv4("10.3.0.2");
  EXPECT_EQ(pair_adapters(kIn, {a, b}, {peer_a, peer_b}), (Pairs{{0, 0}, {1, 1}}));
  EXPECT_EQ(pair_adapters(kIn, {a, b, c}, {peer_a, peer_c, peer_b}), (Pairs{{0, 0}, {1, 2}, {2, 1}}));
  // The third and fourth octet decide too, whatever the order.
  EXPECT_EQ(pair_adapters(kIn, {a, ipv4("192.168.1.1"), ipv4("192.168.2.1")},
                          {peer_a, ipv4("192.168.2.9"), ipv4("192.168.1.9")}),
            (Pairs{{0, 0}, {1, 2}, {2, 1}}));
  EXPECT_EQ(pair_adapters(kIn6, {ipv6("fd00::1"), ipv6("fd00:0:0:1::1"), ipv6("fd00:0:0:2::1")},
                          {ipv6("fd00::2"), ipv6("fd00:0:0:2::2"), ipv6("fd00:0:0:1::2")}),
            (Pairs{{0, 0}, {1, 2}, {2, 1}}));
}

TEST(Pairs, OtherNumbersAndFormats) {
  const std::string a = ipv4("10.1.0.1"), b = ipv4("10.2.0.1");
  constexpr uint32_t kIn = transport::ofi::abi::kFormatIn;
  EXPECT_EQ(pair_adapters(kIn, {a}, {a, b}), (Pairs{{0, 0}}));
  EXPECT_EQ(pair_adapters(kIn, {a, b}, {a}), (Pairs{{0, 0}}));
  EXPECT_EQ(pair_adapters(kIn, {a, a}, {a, a}), (Pairs{{0, 0}, {1, 1}}));
  // The first ones carry the messages, and are a pair even on different networks.
  EXPECT_EQ(pair_adapters(kIn, {a, b}, {b, a}), (Pairs{{0, 0}, {1, 1}}));
  EXPECT_EQ(pair_adapters(99, {"x", "y", "z"}, {"p", "q", "r"}), (Pairs{{0, 0}, {1, 1}, {2, 2}}));
}

TEST(PublishedAddress, RoundTripAndTruncation) {
  PublishedAddress published;
  published.secret = 7;
  published.process = 42;
  published.provider = "tcp;ofi_rxm";
  published.adapters = {{1, 2, false, "first"}, {3, 4, true, std::string("a\0b", 3)}};
  const std::string text = published.text();
  auto parsed = PublishedAddress::parse(text + std::string(20, '\0'));  // padded by an exchange
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->secret, 7U);
  EXPECT_EQ(parsed->process, 42);
  EXPECT_EQ(parsed->provider, "tcp;ofi_rxm");
  ASSERT_EQ(parsed->adapters.size(), 2U);
  EXPECT_EQ(parsed->adapters[0].address, "first");
  EXPECT_EQ(parsed->adapters[1].address, std::string("a\0b", 3));
  EXPECT_EQ(parsed->adapters[1].heartbeat_address, 3U);
  EXPECT_EQ(parsed->adapters[1].heartbeat_rkey, 4U);
  EXPECT_TRUE(parsed->adapters[1].loopback);
  for (size_t size = 0; size < text.size(); ++size)
    EXPECT_FALSE(PublishedAddress::parse(text.substr(0, size))) << size;
  EXPECT_FALSE(PublishedAddress::parse(std::string(300, '\0')));
}

uint64_t striped_bytes() { return counters::find("net.ofi_striped_bytes")->value(); }

std::byte pattern(size_t seed, size_t at) { return static_cast<std::byte>(seed + at * 131 + (at >> 11)); }

struct BufferInfo {
  std::array<std::byte, transport::kMaxRkey> rkey;
  size_t rkey_size;
};

/// Returns the next message, of `size` bytes.
void receive(Process& process, void* data, size_t size) {
  bool received = false;
  const auto handler = [&](Peer, const std::byte* message, size_t length) {
    CHECK(length == size);
    std::memcpy(data, message, size);
    received = true;
  };
  CHECK(process.deliver_until(handler, [&] { return received; }));
}
void signal(Process& process, Peer to) { process.send(to, "x", 1); }
void wait_for_signal(Process& process) {
  char byte = 0;
  receive(process, &byte, 1);
}

const std::vector<size_t> kSizes = {1,        kStripeMin - 1, kStripeMin,      kStripeMin + 1,
                                    3 * 4096, 100001,         size_t{1} << 20, (size_t{5} << 20) + 3};

/// Process 0 owns the buffers. Process 1 reads each, with an offset, and writes into it.
void own(Process& process) {
  for (const size_t size : kSizes) {
    std::vector<std::byte> data(size + 2);
    for (size_t i = 0; i < data.size(); ++i) data[i] = pattern(size, i);
    BufferInfo info{};
    auto registered = process.net->register_buffer(1, Buffer{data.data(), data.size(), {}}, info.rkey.data(),
                                                   transport::Access::read_write);
    CHECK(registered.ok());
    info.rkey_size = registered->rkey_size;
    process.send(1, &info, sizeof info);
    wait_for_signal(process);
    process.net->deregister(registered->id);
    for (size_t i = 0; i < size; ++i) CHECK(data[i + 1] == pattern(size + 1, i));
    CHECK(data[0] == pattern(size, 0) && data[size + 1] == pattern(size, size + 1));
  }
  signal(process, 1);
  CHECK(process.poll_until([&] { return process.net->idle(); }));
  CHECK(process.losses.empty());
}

void access_all(Process& process, size_t adapters_in_common) {
  uint64_t expected = 0;
  for (const size_t size : kSizes) {
    BufferInfo info{};
    receive(process, &info, sizeof info);
    const std::span<const std::byte> rkey(info.rkey.data(), info.rkey_size);
    std::vector<std::byte> data(size + 1, std::byte{0xee});
    GetCompletion read, written;
    process.net->get(0, Buffer{data.data(), size, {}}, rkey, 1, read);
    CHECK(process.poll_until([&] { return read.completed; }));
    CHECK(read.outcome.ok());
    for (size_t i = 0; i < size; ++i) CHECK(data[i] == pattern(size, i + 1));
    CHECK(data[size] == std::byte{0xee});
    for (size_t i = 0; i < size; ++i) data[i] = pattern(size + 1, i);
    process.net->put(0, Buffer{data.data(), size, {}}, rkey, 1, written);
    CHECK(process.poll_until([&] { return written.completed; }));
    CHECK(written.outcome.ok());
    signal(process, 0);
    if (size >= kStripeMin && adapters_in_common > 1) expected += 2 * size;
  }
  CHECK(striped_bytes() == expected);
  wait_for_signal(process);
  CHECK(process.losses.empty());
}

class Adapters : public testing::Test {
 protected:
  void SetUp() override { ::setenv("WEFT_NET_OFI_STRIPE_MIN_BYTES", std::to_string(kStripeMin).c_str(), 1); }
  void TearDown() override {
    ::unsetenv("WEFT_NET_OFI_NIC");
    ::unsetenv("WEFT_NET_OFI_KEEPALIVE_MS");
  }
  static void expect_access(const char* nics, size_t adapters_in_common) {
    ::setenv("WEFT_NET_OFI_NIC", nics, 1);
    const std::vector<int> codes =
        run({own, [&](Process& process) { access_all(process, adapters_in_common); }});
    if (all_are(codes, kSkipped))
      GTEST_SKIP() << "skipped: needs libfabric1 with the provider that FI_PROVIDER names";
    EXPECT_TRUE(all_are(codes, 0)) << text(codes);
  }
};

TEST_F(Adapters, TwoAndTwo) { expect_access("lo+lo", 2); }
TEST_F(Adapters, FourAndThree) { expect_access("lo+lo+lo+lo,lo+lo+lo", 3); }
TEST_F(Adapters, OneReachesTwo) { expect_access("lo+lo,lo", 1); }
TEST_F(Adapters, TwoReachOne) { expect_access("lo,lo+lo", 1); }

// Heartbeats through all adapters do not disturb transfers.
TEST_F(Adapters, FrequentHeartbeats) {
  ::setenv("WEFT_NET_OFI_KEEPALIVE_MS", "10", 1);
  expect_access("lo+lo", 2);
}

// Nobody listens at the address of the second adapter: the transfer fails, and nothing takes another way.
TEST_F(Adapters, UnreachableAdapterIsALostPeer) {
  ::setenv("WEFT_NET_OFI_NIC", "lo+lo", 1);
  ::setenv("WEFT_NET_OFI_KEEPALIVE_MS", "100", 1);
  const std::vector<int> codes = run(
      {[](Process& process) {
         std::vector<std::byte> data(4 * kStripeMin);
         BufferInfo info{};
         auto registered =
             process.net->register_buffer(1, Buffer{data.data(), data.size(), {}}, info.rkey.data());
         CHECK(registered.ok());
         info.rkey_size = registered->rkey_size;
         process.send(1, &info, sizeof info);
         CHECK(process.poll_until([&] { return !process.losses.empty(); }));  // no notice to a lost process
       },
       [](Process& process) {
         auto published = PublishedAddress::parse(process.addresses[0]);
         CHECK(published.ok() && published->adapters.size() == 2);
         sockaddr_in address{};
         std::string& bytes = published->adapters[1].address;
         std::memcpy(&address, bytes.data(), sizeof address);
         address.sin_port = htons(1);
         std::memcpy(bytes.data(), &address, sizeof address);
         process.addresses[0] = published->text();
         BufferInfo info{};
         receive(process, &info, sizeof info);
         std::vector<std::byte> data(4 * kStripeMin);
         GetCompletion small, large;
         const std::span<const std::byte> rkey(info.rkey.data(), info.rkey_size);
         process.net->get(0, Buffer{data.data(), kStripeMin - 1, {}}, rkey, 0, small);
         CHECK(process.poll_until([&] { return small.completed; }));
         CHECK(small.outcome.ok());  // by the first adapter alone
         process.net->get(0, Buffer{data.data(), data.size(), {}}, rkey, 0, large);
         CHECK(process.poll_until([&] { return large.completed && !process.losses.empty(); }));
         CHECK(!large.outcome.ok());
         CHECK(process.losses[0].first == 0);
         CHECK(process.losses[0].second.find("through lo") != std::string::npos);
       }});
  if (all_are(codes, kSkipped)) GTEST_SKIP() << "skipped: needs libfabric1 with the provider tcp";
  EXPECT_TRUE(all_are(codes, 0)) << text(codes);
}

}  // namespace
