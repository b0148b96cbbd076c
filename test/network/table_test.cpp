// SPDX-License-Identifier: BSD-3-Clause
// What is published about networks, and what does not agree, with an exchange and a network of this test.
#include <gtest/gtest.h>

#include <map>

#include "transport/network.hpp"

namespace weft::transport {
namespace {

class Board final : public launch::Exchange {
 public:
  Board() {
    job_.size = 4;
    job_.local_size = 2;
    job_.rank = 1;
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

/// Moves nothing.
class Quiet final : public Network {
 public:
  const char* name() const override { return "quiet"; }
  std::string description() const override { return "of a test"; }
  std::string address() const override { return {"a\n\0b", 4}; }
  void start(Directory& given) override { directory = &given; }
  size_t max_message(Peer) override { return 0; }
  std::byte* reserve(Peer, size_t) override { return nullptr; }
  void commit(Peer, size_t) override {}
  size_t poll(Receiver&, size_t) override { return 0; }
  bool takes(const device::Memory&) const override { return false; }
  Result<Exposed> expose(Peer, const Buffer&, std::byte*) override { return Exposed{}; }
  void conceal(uint64_t) override {}
  void fetch(Peer, const Buffer&, std::span<const std::byte>, uint64_t, Completion&) override {}
  void watch(Peer) override {}
  void leave() override {}
  bool idle() const override { return true; }
  void close() override {}
  Directory* directory = nullptr;
};

class Table : public testing::Test {
 protected:
  std::string refusal() {
    Status started = start_network(network, board, directory);
    return started.ok() ? "" : started.error().message();
  }
  Board board;
  Quiet network;
  std::unique_ptr<Directory> directory;
};

TEST_F(Table, AddressesAreAnyBytes) {
  const std::string address = network.address();
  board.values["net.0"] = board.values["net.3"] = std::string(WEFT_VERSION) + "\nquiet\n" + address;
  ASSERT_EQ(refusal(), "");
  const auto read = network.directory->address(3);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, address);
}

TEST_F(Table, OtherVersionsAreRefusedWithBothNamed) {
  board.values["net.0"] = "0.0.1\nquiet\nx";
  const std::string why = refusal();
  EXPECT_NE(why.find("Weft " WEFT_VERSION " with the network quiet"), std::string::npos) << why;
  EXPECT_NE(why.find("Weft 0.0.1 with quiet"), std::string::npos) << why;
  EXPECT_NE(why.find("process 0"), std::string::npos) << why;
}

TEST_F(Table, OtherNetworksAreRefusedWithBothNamed) {
  board.values["net.0"] = std::string(WEFT_VERSION) + "\nloud\nx";
  const std::string why = refusal();
  EXPECT_NE(why.find("quiet"), std::string::npos) << why;
  EXPECT_NE(why.find("loud"), std::string::npos) << why;
}

TEST_F(Table, WhatCannotBeReadIsRefused) {
  board.values["net.0"] = "nonsense";
  EXPECT_NE(refusal().find("same Weft"), std::string::npos);
  board.values.clear();
  EXPECT_NE(refusal(), "");
}

}  // namespace
}  // namespace weft::transport
