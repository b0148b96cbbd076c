// SPDX-License-Identifier: BSD-3-Clause
// Which announcements bring the way to the data along, over a UCX that does nothing but remember what it was
// given: the first ones of a connection do not, and none of a buffer that is not exposed any more.
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
std::map<unsigned, api::Handler> handlers;
std::vector<unsigned> sent;  // ids of active messages
api::EndpointParameters endpoint;
std::function<void()> arrival;  // what the next progress does
char thing;                     // whatever UCX hands out

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
    *worker = reinterpret_cast<api::Worker>(&thing);
    return Code::ok;
  };
  ucx.ucp_worker_query = [](api::Worker, api::WorkerAttributes* attributes) {
    attributes->max_am_header = 4096;
    return Code::ok;
  };
  ucx.ucp_worker_destroy = [](api::Worker) {};
  ucx.ucp_worker_get_address = [](api::Worker, void** address, size_t* length) {
    *address = &thing;
    *length = 1;
    return Code::ok;
  };
  ucx.ucp_worker_release_address = [](api::Worker, void*) {};
  ucx.ucp_worker_progress = [](api::Worker) {
    if (const auto now = std::exchange(arrival, nullptr)) return now(), 1u;
    return 0u;
  };
  ucx.ucp_worker_set_am_recv_handler = [](api::Worker, const api::Handler* handler) {
    handlers[handler->id] = *handler;
    return Code::ok;
  };
  ucx.ucp_ep_create = [](api::Worker, const api::EndpointParameters* parameters, api::Endpoint* made) {
    endpoint = *parameters;
    *made = reinterpret_cast<api::Endpoint>(&thing);
    return Code::ok;
  };
  ucx.ucp_ep_close_nbx = [](api::Endpoint, const api::Operation*) -> void* { return nullptr; };
  ucx.ucp_am_send_nbx = [](api::Endpoint, unsigned id, const void*, size_t, const void*, size_t,
                           const api::Operation*) -> void* {
    sent.push_back(id);
    return nullptr;
  };
  ucx.ucs_status_string = [](Code) { return "an error"; };
  return ucx;
}

struct Peers final : Directory, Receiver {
  Result<std::string> address(Peer) override { return std::string("here"); }
  void deliver(Peer, const std::byte*, size_t) override {}
  void lost(Peer, const Error&) override { FAIL() << "the peer has said goodbye"; }
};

class UcxAnnounce : public testing::Test {
 protected:
  void SetUp() override {
    sent.clear();
    job_.size = 2;
    ucx_.emplace(library_, job_);
    ASSERT_TRUE(ucx_->create(job_).ok());
    ucx_->start(peers_);
  }
  uint64_t expose() {
    std::byte key[64];
    return ucx_->expose(kPeer, {buffer_, sizeof buffer_, {}}, key)->id;
  }
  /// The id of the active message that it became.
  unsigned announce(uint64_t id) {
    EXPECT_NE(ucx_->reserve(kPeer, 16), nullptr);
    ucx_->announce(kPeer, 16, id);
    return sent.back();
  }
  template <class Head>
  void receive(unsigned message, const Head& head) {
    arrival = [=] {
      const api::Handler& handler = handlers.at(message);
      const api::Arrival none{};
      Head copy = head;
      handler.callback(handler.argument, &copy, sizeof copy, nullptr, 0, &none);
    };
    ucx_->poll(peers_, 1);
  }
  /// The peer fetches: a rendezvous ends well.
  void pull(uint64_t id) { receive(kPullId, PullHead{kPeer, 0, 1, id, 0, sizeof buffer_}); }
  /// The peer says goodbye, and its connection ends.
  void leave() {
    receive(kMessageId, MessageHead{kPeer, MessageHead::kGoodbye, 0});
    arrival = [] { endpoint.on_error(endpoint.argument, nullptr, Code::unreachable); };
    ucx_->poll(peers_, 1);
  }

  Library library_ = fake();
  launch::Job job_;
  Peers peers_;
  std::optional<Ucx> ucx_;
  std::byte buffer_[100] = {};
};

TEST_F(UcxAnnounce, TheFirstOfAConnectionBringsItsKeyOnly) {
  const uint64_t id = expose();
  EXPECT_EQ(announce(id), kMessageId);
  pull(id);
  EXPECT_EQ(sent.back(), kDataId);
  EXPECT_EQ(announce(expose()), kAnnounceId);
}

TEST_F(UcxAnnounce, NoneOfABufferThatIsExposedNoMore) {
  const uint64_t id = expose();
  announce(id);
  pull(id);
  leave();
  EXPECT_EQ(announce(id), kMessageId);
}

TEST_F(UcxAnnounce, ANewConnectionBeginsWithoutRendezvous) {
  const uint64_t id = expose();
  announce(id);
  pull(id);
  leave();
  EXPECT_EQ(announce(expose()), kMessageId);
}

}  // namespace
}  // namespace weft::transport::ucx
