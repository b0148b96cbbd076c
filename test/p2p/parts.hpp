// SPDX-License-Identifier: BSD-3-Clause
// One process of a job on two hosts, for tests of the parts of p2p/ alone: a network that the test fills and
// reads, and no other part.
#pragma once
#include <gtest/gtest.h>

#include <climits>
#include <cstring>
#include <memory>
#include <vector>

#include "../core/solo.hpp"
#include "core/group.hpp"
#include "datatype/predefined.hpp"
#include "p2p/engine/outgoing.hpp"
#include "p2p/engine/protocol.hpp"

namespace weft::p2p {

using Bytes = std::vector<std::byte>;

class TwoHosts final : public core::SoloExchange {
 public:
  TwoHosts() {
    job_.size = 3;
    job_.host_of_rank = {0, 1, 1};
  }
};

/// Keeps the messages that are sent, while it has capacity.
class Wire final : public transport::Transport {
 public:
  [[nodiscard]] size_t max_message(transport::Peer) override { return 256 << 10; }
  [[nodiscard]] std::byte* reserve(transport::Peer, size_t size) override {
    if (capacity == 0) return nullptr;
    reserved_.resize(size);
    return reserved_.data();
  }
  void commit(transport::Peer, size_t size) override {
    --capacity;
    reserved_.resize(size);
    sent.push_back(reserved_);
  }
  size_t poll(transport::Receiver&, size_t) override { return 0; }
  [[nodiscard]] bool left(transport::Peer) const override { return connected; }

  bool connected = true;
  int capacity = INT_MAX;  ///< messages
  std::vector<Bytes> sent;

 private:
  Bytes reserved_;
};

inline Type type_of(const Bytes& message) { return static_cast<Type>(message[0]); }
template <class H>
const H& header_of(const Bytes& message) {
  return *reinterpret_cast<const H*>(message.data());
}

struct NoProtocols final : SendProtocols {
  [[nodiscard]] bool send_from_device(Transfer&) override { return false; }
  [[nodiscard]] RtsPart append_rts(Transfer&, ReadyToSend&, std::byte*) override { return {0}; }
  void rts_posted(Transfer&) override {}
  void cancel(Transfer& t) override { cancelled.push_back(&t); }
  std::vector<Transfer*> cancelled;
};

/// Process 0 and all that Outgoing needs. Process 1 is at the other end of the wire.
class Parts : public testing::Test {
 protected:
  static constexpr uint32_t kPeer = 1;
  static constexpr core::ContextId kContext = core::kContextStep;

  Parts()
      : instance_(std::make_unique<TwoHosts>()),
        world_(core::Communicator::create(instance_, kContext,
                                          core::Ref<core::Group>(core::Group::create({0, 1, 2}, 0)))),
        peers_(instance_),
        requests_(peers_, nullptr),
        outgoing_(instance_, peers_, requests_, protocols_) {
    peers_[kPeer].transport = &wire_;
    peers_[kPeer].unreached = false;
  }

  /// Fills in a transfer of bytes in host memory.
  void prepare(Transfer& t, void* address, size_t bytes, int rank, int tag,
               SendMode mode = SendMode::standard) {
    t.bind(*world_, *datatype::predefined(datatype::kByte));
    t.mode = mode;
    t.context = kContext;
    t.rank = rank;
    t.tag = tag;
    t.address = address;
    t.count = static_cast<int64_t>(bytes);
    t.bytes = bytes;
    t.contiguous = true;
    t.peer = world_->process(rank);
    t.key = {kContext, rank, tag};
  }

  core::Instance instance_;
  core::Ref<core::Communicator> world_;
  Wire wire_;
  NoProtocols protocols_;
  Peers peers_;
  Requests requests_;
  Outgoing outgoing_;
};

}  // namespace weft::p2p
