// SPDX-License-Identifier: BSD-3-Clause
// Endpoints, made at the first use of a peer, and their ends.
#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "transport/ucx/state.hpp"

namespace weft::transport::ucx {

using api::Code;
using api::Operation;

namespace {

constexpr uint64_t kFailTime = 2 * kSecond;

}  // namespace

Link& Ucx::link_of(Peer peer) {
  auto& link = links_[peer];
  if (!link) {
    link = std::make_unique<Link>();
    link->owner = this;
    link->peer = peer;
  }
  return *link;
}

/// False: the peer is lost, or will be told to be.
bool Ucx::connect(Link& link) {
  if (link.endpoint != nullptr) [[likely]]
    return true;
  if (link.state == Link::State::failing || link.state == Link::State::lost) return false;
  Status opened = open_endpoint(link);
  if (opened) return true;
  link.left = false;
  fail(link, opened.error().message());
  return false;
}

Status Ucx::open_endpoint(Link& link) {
  auto address = directory_->address(link.peer);
  if (!address) return std::move(address).error();
  api::EndpointParameters parameters{};
  parameters.mask = api::EndpointParameters::kAddress | api::EndpointParameters::kErrorMode |
                    api::EndpointParameters::kErrorHandler;
  parameters.address = address->data();
  parameters.error_mode = peer_errors_ ? api::kPeerErrors : api::kNoErrors;
  parameters.on_error = on_error;
  parameters.argument = &link;
  Code code = api_.ucp_ep_create(worker_, &parameters, &link.endpoint);
  if (code != Code::ok && peer_errors_) {
    parameters.error_mode = api::kNoErrors;
    const Code without = api_.ucp_ep_create(worker_, &parameters, &link.endpoint);
    if (without == Code::ok) {
      log::write(
          log::Level::warn,
          "UCX's transports that were chosen (UCX_TLS?) do not report the end of a process: others may wait "
          "for it for ever");
      peer_errors_ = false;
    }
    code = without == Code::ok ? without : code;
  }
  if (code != Code::ok) {
    link.endpoint = nullptr;
    return failure("ucp_ep_create", code);
  }
  link.state = Link::State::open;
  link.acquainted = false;
  return {};
}

void Ucx::on_error(void* argument, api::Endpoint, Code status) {
  auto& link = *static_cast<Link*>(argument);
  link.owner->fail(link, link.owner->api_.ucs_status_string(status));
}

/// The rest is done by poll(), outside of UCX's calls.
void Ucx::fail(Link& link, std::string reason) {
  if (link.state == Link::State::failing || link.state == Link::State::lost) return;
  link.state = Link::State::failing;
  link.reason = std::move(reason);
  link.deadline = monotonic_ns() + kFailTime;
  failing_.push_back(&link);
}

void Ucx::close_endpoint(Link& link) {
  if (link.endpoint == nullptr) return;
  Operation operation{};
  operation.mask = Operation::kFlags;
  operation.flags = Operation::kForce;
  void* request = api_.ucp_ep_close_nbx(std::exchange(link.endpoint, nullptr), &operation);
  if (request != nullptr && !api::is_error(request)) api_.ucp_request_free(request);
}

/// A failing link: its fetches end, those that UCX has by UCX, then the peer is lost; or, after a goodbye,
/// there is nothing more to it.
void Ucx::settle(Link& link, Receiver& receiver) {
  close_endpoint(link);
  release_announced(link);
  const bool late = monotonic_ns() > link.deadline;
  std::vector<Fetch*> theirs;
  for (const auto& [id, fetch] : fetches_)
    if (fetch->link == &link && (!fetch->receiving || late)) theirs.push_back(fetch.get());
  for (Fetch* fetch : theirs) {
    if (fetch->receiving) fetches_[fetch->id].release();  // UCX still refers to it
    end(*fetch, Error(Errc::proc_aborted, link.reason));
  }
  if (link.fetches != 0) return;
  std::erase(failing_, &link);
  std::erase_if(exposures_, [&](const auto& exposure) { return exposure.second.peer == link.peer; });
  if (link.left) {
    link.state = Link::State::fresh;
    return;
  }
  link.state = Link::State::lost;
  receiver.lost(link.peer, Error(Errc::proc_aborted, link.reason));
}

void Ucx::watch(Peer peer) { static_cast<void>(connect(link_of(peer))); }

}  // namespace weft::transport::ucx
