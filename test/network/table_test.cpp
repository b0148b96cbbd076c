// SPDX-License-Identifier: BSD-3-Clause
// Published network addresses and mismatch errors, with a fake exchange and network.
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "base/version.hpp"
#include "transport/network.hpp"

namespace weft::transport {
namespace {

class FakeExchange final : public launch::Exchange {
 public:
  explicit FakeExchange(int rank) {
    job_.size = 4;
    job_.local_size = 2;
    job_.rank = rank;
    job_.host_of_rank = {0, 0, 1, 1};
  }
  const launch::Job& job() const override { return job_; }
  Status put(std::string_view key, std::string_view value) override {
    values[std::string(key)] = value;
    return {};
  }
  Result<std::string> get(std::string_view key, int) override {
    const auto found = values.find(std::string(key));
    if (found == values.end()) return Error(Errc::arg, "no process put " + std::string(key));
    return found->second;
  }
  Status fence() override { return {}; }
  void abort(int, std::string_view) override {}
  Status finalize() override { return {}; }
  std::map<std::string, std::string> values;

 private:
  launch::Job job_;
};

/// Transfers nothing.
class NullNetwork final : public Network {
 public:
  const char* name() const override { return "null"; }
  std::string description() const override { return "of a test"; }
  std::string address() const override { return {"a\n\0b", 4}; }
  void start(Directory&) override {}
  size_t max_message(Peer) override { return 0; }
  std::byte* reserve(Peer, size_t) override { return nullptr; }
  void commit(Peer, size_t) override {}
  size_t poll(Receiver&, size_t) override { return 0; }
  bool supports(const device::Memory&) const override { return false; }
  Result<Registered> register_buffer(Peer, const Buffer&, std::byte*, Access) override {
    return Registered{};
  }
  void deregister(uint64_t) override {}
  void get(Peer, const Buffer&, std::span<const std::byte>, uint64_t, Completion&) override {}
  void put(Peer, const Buffer&, std::span<const std::byte>, uint64_t, Completion&) override {}
  void watch(Peer) override {}
  void send_disconnects() override {}
  void close() override {}
};

class NetworkTable : public testing::Test {
 protected:
  std::string start_error() {
    addresses.emplace(network, exchange);
    Status started = check_addresses(*addresses, exchange);
    return started.ok() ? "" : started.error().message();
  }
  FakeExchange exchange{3};
  NullNetwork network;
  std::optional<AddressBook> addresses;
};

TEST_F(NetworkTable, AddressesMayContainAnyBytes) {
  const std::string address = network.address();
  exchange.values["net.0"] = exchange.values["net.3"] = std::string(kBuildVersion) + "\nnull\n\n" + address;
  ASSERT_EQ(start_error(), "");
  const auto read = addresses->address(3);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, address);
}

TEST_F(NetworkTable, ProcessesOfAHostReachTheSameResult) {
  for (const int rank : {0, 1}) {
    FakeExchange of_first_host(rank);
    of_first_host.values["net.2"] = "0.0.1\nnull\nx";
    AddressBook book(network, of_first_host);
    const Status started = check_addresses(book, of_first_host);
    ASSERT_FALSE(started.ok());
    EXPECT_NE(started.error().message().find("process 2"), std::string::npos) << started.error().message();
  }
}

TEST_F(NetworkTable, VersionMismatchNamesBothVersions) {
  exchange.values["net.0"] = "0.0.1\nnull\nx";
  const std::string error = start_error();
  EXPECT_NE(error.find(std::string("Weft ") + kBuildVersion + " with the network null"), std::string::npos)
      << error;
  EXPECT_NE(error.find("Weft 0.0.1 with null"), std::string::npos) << error;
  EXPECT_NE(error.find("process 0"), std::string::npos) << error;
}

TEST_F(NetworkTable, BuildsOfTwoCommitsDoNotJoin) {
  const std::string own = kBuildVersion;
  const std::string other = own.substr(0, own.find(" (")) + " (commit 0123456789ab)";
  exchange.values["net.0"] = other + "\nnull\n\nx";
  const std::string error = start_error();
  EXPECT_NE(error.find(own + " with the network null"), std::string::npos) << error;
  EXPECT_NE(error.find(other + " with null"), std::string::npos) << error;
}

TEST_F(NetworkTable, NetworkMismatchNamesBothNetworks) {
  exchange.values["net.0"] = std::string(kBuildVersion) + "\nloud\n\nx";
  const std::string error = start_error();
  EXPECT_NE(error.find("null"), std::string::npos) << error;
  EXPECT_NE(error.find("loud"), std::string::npos) << error;
}

TEST_F(NetworkTable, DifferentSettingsAreAnError) {
  exchange.values["net.0"] = std::string(kBuildVersion) + "\nnull\ncoll.allreduce=ring;\nx";
  const std::string error = start_error();
  EXPECT_NE(error.find("settings of collectives differ"), std::string::npos) << error;
}

TEST_F(NetworkTable, ProcessesOfOtherJobsAreAddedWithTheirRecords) {
  addresses.emplace(network, exchange);
  ASSERT_TRUE(addresses->add(7, address_record(network)).ok());
  EXPECT_EQ(*addresses->address(7), network.address());
  addresses->remove(7);
  EXPECT_FALSE(addresses->address(7).ok());
  const Status other = addresses->add(7, std::string(kBuildVersion) + "\nloud\n\nx");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message().find("loud"), std::string::npos) << other.error().message();
  EXPECT_FALSE(addresses->add(7, "").ok());
}

TEST_F(NetworkTable, MalformedRecordIsAnError) {
  for (const std::string& text : {std::string("nonsense"), std::string(kBuildVersion) + "\nnull\nx"}) {
    exchange.values["net.0"] = text;
    EXPECT_NE(start_error().find("same Weft"), std::string::npos) << text;
  }
  exchange.values.clear();
  EXPECT_NE(start_error(), "");
}

}  // namespace
}  // namespace weft::transport
