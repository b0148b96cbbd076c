// SPDX-License-Identifier: BSD-3-Clause
// GPUDirect RDMA: whether the network accesses GPU memory directly. With `auto` the engine verifies each
// device at its first message to another host, by gets in both directions. Until then, or if the check fails,
// messages are staged through host memory.
#include "p2p/engine/gpudirect.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "device/copy.hpp"
#include "device/pool.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/message/validate.hpp"

namespace weft::p2p {
namespace {

config::Choice setting_gpudirect{
    "gpudirect_rdma",
    0,
    {"auto", "on", "off"},
    "Whether the network accesses GPU memory directly (GPUDirect RDMA): after a check of the data (auto), "
    "always (on), or never (off).",
    "the check gives a wrong answer, or GPU messages staged through the host are to be compared (off)"};

log::SlowPath no_gpudirect{
    "net.no_gpudirect", "GPU messages between hosts are staged through host memory, at most as fast as PCIe"};

using CheckBlock = std::array<uint64_t, 512>;
constexpr size_t kBytes = sizeof(CheckBlock);
constexpr ptrdiff_t kMaxResponses = 64;  // per peer, which has one check per device

/// Returns the content of a test block. `inverted`: for the opposite direction.
CheckBlock block_of(uint64_t seed, bool inverted) {
  CheckBlock block;
  for (uint64_t& word : block) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    word = inverted ? ~seed : seed;
  }
  return block;
}

std::byte* at(const device::Memory& memory) { return reinterpret_cast<std::byte*>(memory.base); }

}  // namespace

/// The check of one device of this process.
struct GpuDirect::Check : transport::Completion {
  enum class State { requested, getting, passed, failed };
  GpuDirect* owner = nullptr;
  State state = State::requested;
  std::string reason;    ///< why it failed
  device::Memory block;  ///< on the device
  uint64_t seed = 0;
  uint64_t registration = 0;
  uint32_t peer = 0;     ///< the responder
  uint64_t peer_id = 0;  ///< id of its response
};

/// The response to a peer's check.
struct GpuDirect::Response : transport::Completion {
  GpuDirect* owner = nullptr;
  uint64_t id = 0;
  uint32_t peer = 0;
  int64_t device = 0;  ///< ordinal at the peer
  uint64_t seed = 0;
  uint64_t registration = 0;
  bool replied = false;  ///< the get has ended
  CheckBlock block{};
};

GpuDirect::GpuDirect(Engine& engine) : engine_(engine) {}
GpuDirect::~GpuDirect() = default;

bool GpuDirect::usable(const device::Memory& memory, uint32_t peer) {
  if (memory.kind != device::MemoryKind::cuda_device) return false;
  if (setting_gpudirect.is("off")) {
    no_gpudirect.hit("switched off by WEFT_GPUDIRECT_RDMA=off");
    return false;
  }
  if (!engine_.instance.network->supports(memory)) {
    no_gpudirect.hit(std::string(engine_.instance.network->name()) + " does not support GPU memory here (" +
                     engine_.instance.network->description() + ")");
    return false;
  }
  if (setting_gpudirect.is("on")) return true;
  for (const auto& check : checks_)
    if (check->block.device == memory.device) return check->state == Check::State::passed;
  start(memory, peer);
  return false;
}

void GpuDirect::start(const device::Memory& memory, uint32_t peer) {
  Check& check = *checks_.emplace_back(std::make_unique<Check>());
  check.done = [](transport::Completion& self, Status outcome) {
    auto& got = static_cast<Check&>(self);
    CheckBlock found{};
    if (outcome) outcome = device::copy(found.data(), {}, at(got.block), got.block, kBytes);
    if (outcome && found != block_of(got.seed, true))
      outcome = Error(Errc::unsupported, "data got into this GPU's memory were wrong");
    got.owner->end(got, std::move(outcome));
  };
  check.owner = this;
  check.peer = peer;
  check.seed = monotonic_ns();
  check.block.device = memory.device;
  auto block = device::allocate_scratch(memory, kBytes);
  if (!block) return end(check, std::move(block).error());
  check.block = *block;
  const CheckBlock content = block_of(check.seed, false);
  if (Status filled = device::copy(at(check.block), check.block, content.data(), {}, kBytes); !filled)
    return end(check, std::move(filled));
  GdrCheckMessage request{};
  request.type = Type::gdr_check_request;
  auto registration = engine_.instance.network->register_buffer(peer, {at(check.block), kBytes, check.block},
                                                                request.rkey.bytes);
  if (!registration) return end(check, std::move(registration).error());
  check.registration = registration->id;
  request.device = memory.device;
  request.seed = check.seed;
  request.rkey.size = registration->rkey_size;
  engine_.outgoing.post_control(peer, &request, sizeof request);
}

// Responder: gets the block and registers its inverse for the requester.
void GpuDirect::on_request(uint32_t source, const GdrCheckMessage& request) {
  const auto from_source = [&](const auto& response) { return response->peer == source; };
  if (request.rkey.size == 0 ||
      std::count_if(responses_.begin(), responses_.end(), from_source) >= kMaxResponses)
    return drop_malformed();
  Response& response = *responses_.emplace_back(std::make_unique<Response>());
  response.done = [](transport::Completion& self, Status outcome) {
    auto& done = static_cast<Response&>(self);
    done.owner->reply(done, std::move(outcome));
  };
  response.owner = this;
  response.id = ++last_response_;
  response.peer = source;
  response.device = request.device;
  response.seed = request.seed;
  engine_.instance.network->get(source, {reinterpret_cast<std::byte*>(response.block.data()), kBytes, {}},
                                {request.rkey.bytes, request.rkey.size}, 0, response);
}

void GpuDirect::reply(Response& response, Status outcome) {
  GdrCheckMessage reply{};
  reply.type = Type::gdr_check_reply;
  reply.device = response.device;
  reply.seed = response.seed;
  reply.id = response.id;
  const bool correct = outcome && response.block == block_of(response.seed, false);
  response.replied = true;
  response.block = block_of(response.seed, true);
  auto registration = engine_.instance.network->register_buffer(
      response.peer, {reinterpret_cast<std::byte*>(response.block.data()), kBytes, {}}, reply.rkey.bytes);
  if (registration) {
    response.registration = registration->id;
    reply.rkey.size = registration->rkey_size;
    reply.flags = correct ? 1 : 0;
  }
  engine_.outgoing.post_control(response.peer, &reply, sizeof reply);
}

void GpuDirect::on_reply(uint32_t source, const GdrCheckMessage& reply) {
  for (const auto& check : checks_) {
    if (check->block.device != reply.device || check->seed != reply.seed || check->peer != source ||
        check->state != Check::State::requested || check->registration == 0)
      continue;
    engine_.instance.network->deregister(std::exchange(check->registration, 0));
    check->peer_id = reply.id;
    if (reply.flags == 0 || reply.rkey.size == 0)
      return end(*check, Error(Errc::unsupported, "process " + std::to_string(source) +
                                                      " got wrong data from this GPU's memory"));
    check->state = Check::State::getting;
    engine_.instance.network->get(source, {at(check->block), kBytes, check->block},
                                  {reply.rkey.bytes, reply.rkey.size}, 0, *check);
    return;
  }
  drop_malformed();
}

void GpuDirect::end(Check& check, Status outcome) {
  check.state = outcome ? Check::State::passed : Check::State::failed;
  if (!outcome) {
    check.reason = outcome.error().message();
    no_gpudirect.hit("not verified: " + check.reason);
  } else {
    log::write(log::Level::info,
               "GPUDirect: %s reads and writes the memory of GPU %d, verified with process %u",
               engine_.instance.network->name(), check.block.device, check.peer);
  }
  if (check.block.base != 0) device::free_scratch(check.block);
  check.block = device::Memory{.device = check.block.device};
  if (check.peer_id == 0) return;
  GdrCheckMessage done{};
  done.type = Type::gdr_check_done;
  done.id = check.peer_id;
  engine_.outgoing.post_control(check.peer, &done, sizeof done);
}

void GpuDirect::on_done(uint32_t source, const GdrCheckMessage& done) {
  std::erase_if(responses_, [&](const auto& response) {
    if (response->id != done.id || response->peer != source || !response->replied) return false;
    release(*response);
    return true;
  });
}

void GpuDirect::forget_peer(uint32_t peer) {
  std::erase_if(responses_, [&](const auto& response) {
    if (response->peer != peer || !response->replied) return false;
    release(*response);
    return true;
  });
}

void GpuDirect::release(Response& response) {
  if (response.registration != 0) engine_.instance.network->deregister(response.registration);
}

std::string GpuDirect::describe() const {
  if (!setting_gpudirect.is("auto"))
    return "gpudirect\tWEFT_GPUDIRECT_RDMA=" + setting_gpudirect.value_text() + "\n";
  if (!engine_.instance.network->supports({.kind = device::MemoryKind::cuda_device}))
    return "gpudirect\tno: the network does not support GPU memory\n";
  if (checks_.empty()) return "gpudirect\tnot verified: no GPU message went to another host yet\n";
  std::string lines;
  for (const auto& check : checks_) {
    lines += "gpudirect\tGPU " + std::to_string(check->block.device) + ": ";
    if (check->state == Check::State::passed)
      lines += "verified with process " + std::to_string(check->peer) + "\n";
    else
      lines += check->state == Check::State::failed ? "no: " + check->reason + "\n" : "being verified\n";
  }
  return lines;
}

}  // namespace weft::p2p
