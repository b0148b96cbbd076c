// SPDX-License-Identifier: BSD-3-Clause
// Messages with a fake UCX that records its calls: which RTS are sent as the header of a rendezvous (not the
// first RTS of a connection, and no RTS of a deregistered buffer); foreign messages; endpoints that can't be
// created; the end of communication.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/ucx/state.hpp"

namespace weft::transport::ucx {
namespace {

using api::Code;

constexpr Peer kPeer = 1;
constexpr Secret kPeerSecret = 0x1234;
std::map<unsigned, api::AmHandlerParameters> handlers;
std::vector<unsigned> sent;  // ids of active messages
api::EndpointParameters endpoint;
std::string endpoint_address;
bool peer_ended = false, reports_failures = true;  // what the transports do at the creation of an endpoint
std::function<void()> next_event;                  // run by the next progress call
char object;                                       // target of all handles

Library fake() {
  Library ucx;
  ucx.ucp_config_read = [](const char*, const char*, api::Config*) { return Code::ok; };
  ucx.ucp_config_modify = [](api::Config, const char*, const char*) { return Code::ok; };
  ucx.ucp_config_release = [](api::Config) {};
  ucx.ucp_init_version = [](unsigned, unsigned, const api::Parameters*, api::Config, api::Context*) {
    return Code::ok;
  };
  ucx.ucp_cleanup = [](api::Context) {};
  ucx.ucp_context_query = [](api::Context, api::ContextAttributes*) { return Code::ok; };
  ucx.ucp_worker_create = [](api::Context, const api::WorkerParameters*, api::Worker* worker) {
    *worker = reinterpret_cast<api::Worker>(&object);
    return Code::ok;
  };
  ucx.ucp_worker_query = [](api::Worker, api::WorkerAttributes* attributes) {
    attributes->max_am_header = 4096;
    return Code::ok;
  };
  ucx.ucp_worker_flush_nbx = [](api::Worker, const api::RequestParameters*) -> void* { return nullptr; };
  ucx.ucp_worker_destroy = [](api::Worker) {};
  ucx.ucp_worker_get_address = [](api::Worker, void** address, size_t* length) {
    *address = &object;
    *length = 1;
    return Code::ok;
  };
  ucx.ucp_worker_release_address = [](api::Worker, void*) {};
  ucx.ucp_worker_progress = [](api::Worker) {
    if (const auto now = std::exchange(next_event, nullptr)) return now(), 1u;
    return 0u;
  };
  ucx.ucp_worker_set_am_recv_handler = [](api::Worker, const api::AmHandlerParameters* handler) {
    handlers[handler->id] = *handler;
    return Code::ok;
  };
  ucx.ucp_ep_create = [](api::Worker, const api::EndpointParameters* parameters, api::Endpoint* created) {
    endpoint = *parameters;
    endpoint_address = static_cast<const char*>(parameters->address);
    if (parameters->error_mode == api::kPeerErrors && !reports_failures) return Code::unreachable;
    if (endpoint_address == "here" && peer_ended) return Code::unreachable;
    *created = reinterpret_cast<api::Endpoint>(&object);
    return Code::ok;
  };
  ucx.ucp_ep_close_nbx = [](api::Endpoint, const api::RequestParameters*) -> void* { return nullptr; };
  ucx.ucp_am_send_nbx = [](api::Endpoint, unsigned id, const void*, size_t, const void*, size_t,
                           const api::RequestParameters*) -> void* {
    sent.push_back(id);
    return nullptr;
  };
  ucx.ucs_status_string = [](Code) { return "an error"; };
  return ucx;
}

struct FakePeer final : Directory, Receiver {
  Result<std::string> address(Peer) override { return with_secret(kPeerSecret, "here"); }
  void deliver(Peer, const std::byte*, size_t) override { ++delivered; }
  void lost(Peer, const Error&) override {
    ++losses;
    EXPECT_TRUE(peer_ended) << "the peer has sent a disconnect notice";
  }
  int delivered = 0, losses = 0;
};

class UcxMessages : public testing::Test {
 protected:
  void SetUp() override {
    sent.clear();
    peer_ended = false;
    reports_failures = true;
    job_.size = 2;
    ucx_.emplace(library_, job_);
    ASSERT_TRUE(ucx_->create(job_).ok());
    ucx_->start(peer_);
    secret_ = split_secret(ucx_->address())->first;
  }
  uint64_t register_buffer() {
    std::byte key[64];
    return ucx_->register_buffer(kPeer, {buffer_, sizeof buffer_, {}}, key, Access::read)->id;
  }
  /// Returns the id of the active message sent.
  unsigned send_rts(uint64_t id) {
    EXPECT_NE(ucx_->reserve(kPeer, 16), nullptr);
    ucx_->send_rts(kPeer, 16, id);
    return sent.back();
  }
  void TearDown() override {
    close_by([this] { arrive(kAnswerId, AnswerHeader{secret_, kPeer, 1000}); });
  }
  /// An active message arrives, with `bytes` bytes behind its header.
  template <class Head>
  static void arrive(unsigned message, const Head& head, size_t size = sizeof(Head), size_t bytes = 0) {
    const api::AmHandlerParameters& handler = handlers.at(message);
    const api::AmReceiveParameters none{};
    Head copy = head;
    char data[8] = {kAwaitsAnswer};  // of a disconnect notice
    handler.callback(handler.argument, &copy, size, data, bytes, &none);
  }
  template <class Head>
  void receive(unsigned message, const Head& head, size_t size = sizeof(Head), size_t bytes = 0) {
    next_event = [=] { arrive(message, head, size, bytes); };
    ucx_->poll(peer_, 1);
  }
  void send() {
    EXPECT_NE(ucx_->reserve(kPeer, 16), nullptr);
    ucx_->commit(kPeer, 16);
  }
  /// Closes; `event` is the tenth call of UCX's progress. Returns the number of calls.
  int close_by(const std::function<void()>& event) {
    int calls = 0;
    std::function<void()> step = [&] { ++calls == 10 ? event() : static_cast<void>(next_event = step); };
    next_event = step;
    ucx_->close();
    next_event = nullptr;
    return calls;
  }
  /// The peer gets: a rendezvous succeeds.
  void get(uint64_t id) { receive(kGetRequestId, RmaRequest{secret_, kPeer, 0, 1, id, 0, sizeof buffer_}); }
  /// The peer sends a disconnect notice and closes its connection.
  void disconnect() {
    receive(kMessageId, MessageHeader{secret_, kPeer, MessageHeader::kDisconnect, 0});
    next_event = [] { endpoint.on_error(endpoint.argument, nullptr, Code::unreachable); };
    ucx_->poll(peer_, 1);
  }

  Library library_ = fake();
  launch::Job job_;
  FakePeer peer_;
  Secret secret_ = 0;
  std::optional<Ucx> ucx_;
  std::byte buffer_[100] = {};
};

TEST_F(UcxMessages, FirstRtsOfAConnectionCarriesOnlyTheRkey) {
  const uint64_t id = register_buffer();
  EXPECT_EQ(send_rts(id), kMessageId);
  get(id);
  EXPECT_EQ(sent.back(), kGetReplyId);
  EXPECT_EQ(send_rts(register_buffer()), kRtsId);
}

// A peer that knows the address and the format, but not the secret: as if it had sent nothing.
TEST_F(UcxMessages, ForeignMessagesAreDropped) {
  const uint64_t id = register_buffer();
  send_rts(id);
  const size_t sent_before = sent.size();
  const uint64_t dropped_before = foreign_messages.value();
  for (const Secret wrong : {Secret{0}, secret_ + 1, kPeerSecret}) {
    receive(kMessageId, MessageHeader{wrong, kPeer, MessageHeader::kUser, 0});
    receive(kMessageId, MessageHeader{wrong, kPeer, MessageHeader::kDisconnect, 0});
    receive(kGetRequestId, RmaRequest{wrong, kPeer, 0, 1, id, 0, sizeof buffer_});
    receive(kGetReplyId, RmaReply{wrong, 1, 1});
    receive(kRtsId, RtsHeader{{wrong, kPeer, MessageHeader::kUser, 0}, 1});
    receive(kAnswerId, AnswerHeader{wrong, kPeer, 1000});
  }
  receive(kMessageId, MessageHeader{secret_, kPeer, MessageHeader::kUser, 0}, sizeof(MessageHeader) - 1);
  EXPECT_EQ(foreign_messages.value() - dropped_before, 19u);
  EXPECT_EQ(peer_.delivered, 0);
  EXPECT_EQ(sent.size(), sent_before) << "a get was answered";
  receive(kMessageId, MessageHeader{secret_, kPeer, MessageHeader::kUser, 0});
  EXPECT_EQ(peer_.delivered, 1);
}

TEST_F(UcxMessages, NoRendezvousOfADeregisteredBuffer) {
  const uint64_t id = register_buffer();
  send_rts(id);
  get(id);
  disconnect();
  EXPECT_EQ(send_rts(id), kMessageId);
}

TEST_F(UcxMessages, NoRendezvousAfterReconnecting) {
  const uint64_t id = register_buffer();
  send_rts(id);
  get(id);
  disconnect();
  EXPECT_EQ(send_rts(register_buffer()), kMessageId);
}

TEST_F(UcxMessages, CloseWaitsForTheAnswer) {
  send();
  ucx_->send_disconnects();
  arrive(kAnswerId, AnswerHeader{secret_, kPeer, 0});  // to an earlier notice
  EXPECT_EQ(close_by([this] { arrive(kAnswerId, AnswerHeader{secret_, kPeer, 1}); }), 10);
}

TEST_F(UcxMessages, CloseWaitsForTheNotice) {
  send();
  EXPECT_EQ(close_by([this] {
              arrive(kMessageId, MessageHeader{secret_, kPeer, MessageHeader::kDisconnect, 0});
            }),
            10);
}

TEST_F(UcxMessages, CloseWaitsForTheFailure) {
  send();
  EXPECT_EQ(close_by([] { endpoint.on_error(endpoint.argument, nullptr, Code::unreachable); }), 10);
}

TEST_F(UcxMessages, CloseDoesNotWaitWithoutMessages) {
  receive(kMessageId, MessageHeader{secret_, kPeer, MessageHeader::kUser, 0});
  EXPECT_EQ(close_by([] {}), 0);
  EXPECT_EQ(sent, std::vector<unsigned>{kMessageId}) << "no notice to a peer that has only sent";
}

TEST_F(UcxMessages, AwaitedAnswersAreSent) {
  const auto notice = [&](uint64_t number, size_t bytes) {
    receive(kMessageId, MessageHeader{secret_, kPeer, MessageHeader::kDisconnect, number},
            sizeof(MessageHeader), bytes);
  };
  notice(0, 0);
  EXPECT_TRUE(sent.empty());
  notice(1, 1);
  EXPECT_EQ(sent, std::vector<unsigned>{kAnswerId});
}

TEST_F(UcxMessages, NoAnswerAfterTheOwnNotice) {
  send();
  ucx_->send_disconnects();
  const size_t sent_before = sent.size();
  receive(kMessageId, MessageHeader{secret_, kPeer, MessageHeader::kDisconnect, 0}, sizeof(MessageHeader), 1);
  EXPECT_EQ(sent.size(), sent_before);
}

/// An endpoint to a peer that has just ended can't be created; this is the loss of that peer alone.
TEST_F(UcxMessages, EndpointToAPeerThatHasEnded) {
  peer_ended = true;
  send();
  EXPECT_NE(endpoint_address, "here") << "the own worker is asked whether the transports report failures";
  ucx_->poll(peer_, 1);
  EXPECT_EQ(peer_.losses, 1);
  EXPECT_TRUE(sent.empty());
}

/// The answer to the notice of a process that has ended meanwhile.
TEST_F(UcxMessages, AnswerToAPeerThatHasEnded) {
  peer_ended = true;
  receive(kMessageId, MessageHeader{secret_, kPeer, MessageHeader::kDisconnect, 0}, sizeof(MessageHeader), 1);
  ucx_->poll(peer_, 1);
  EXPECT_TRUE(sent.empty());
  EXPECT_EQ(peer_.losses, 0);
}

/// UCX connects after the creation of an endpoint: a message to a peer that has left MPI and ended is its
/// loss.
TEST_F(UcxMessages, MessageToAPeerThatHasEnded) {
  disconnect();
  send();
  peer_ended = true;
  next_event = [] { endpoint.on_error(endpoint.argument, nullptr, Code::unreachable); };
  ucx_->poll(peer_, 1);
  EXPECT_EQ(peer_.losses, 1);
}

TEST_F(UcxMessages, AnswerToAPeerThatEndsBeforeTheConnectionIsMade) {
  receive(kMessageId, MessageHeader{secret_, kPeer, MessageHeader::kDisconnect, 0}, sizeof(MessageHeader), 1);
  EXPECT_EQ(sent, std::vector<unsigned>{kAnswerId});
  next_event = [] { endpoint.on_error(endpoint.argument, nullptr, Code::unreachable); };
  ucx_->poll(peer_, 1);
  EXPECT_EQ(peer_.losses, 0);
}

TEST_F(UcxMessages, TransportsThatReportNoFailures) {
  reports_failures = false;
  send();
  EXPECT_EQ(endpoint_address, "here");
  EXPECT_EQ(endpoint.error_mode, api::kNoErrors);
  EXPECT_EQ(peer_.losses, 0);
}

}  // namespace
}  // namespace weft::transport::ucx
