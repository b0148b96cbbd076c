// SPDX-License-Identifier: BSD-3-Clause
// GPUDirect RDMA: whether the network accesses GPU memory directly. With `auto` the engine verifies each
// device at its first message to another host, by gets in both directions. Until then, or if the check fails,
// messages are staged through host memory.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "device/copy.hpp"
#include "device/ipc.hpp"
#include "p2p/engine.hpp"

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

bool Engine::gpudirect_usable(const device::Memory& memory, uint32_t peer) {
  if (memory.kind != device::MemoryKind::cuda_device) return false;
  if (setting_gpudirect.is("off")) {
    no_gpudirect.hit("switched off by WEFT_GPUDIRECT_RDMA=off");
    return false;
  }
  if (!network_->supports(memory)) {
    no_gpudirect.hit(std::string(network_->name()) + " does not support GPU memory here (" +
                     network_->description() + ")");
    return false;
  }
  if (setting_gpudirect.is("on")) return true;
  for (const auto& check : gdr_checks_)
    if (check->block.device == memory.device) return check->state == GpuDirectCheck::State::passed;
  start_gdr_check(memory, peer);
  return false;
}

void Engine::start_gdr_check(const device::Memory& memory, uint32_t peer) {
  GpuDirectCheck& check = *gdr_checks_.emplace_back(std::make_unique<GpuDirectCheck>());
  check.done = gdr_check_get_done;
  check.engine = this;
  check.peer = peer;
  check.seed = monotonic_ns();
  check.block.device = memory.device;
  auto block = device::allocate_scratch(memory, kBytes);
  if (!block) return end_gdr_check(check, std::move(block).error());
  check.block = *block;
  const CheckBlock content = block_of(check.seed, false);
  if (Status filled = device::copy(at(check.block), check.block, content.data(), {}, kBytes); !filled)
    return end_gdr_check(check, std::move(filled));
  GdrCheckMessage request{};
  request.type = Type::gdr_check_request;
  auto registration =
      network_->register_buffer(peer, {at(check.block), kBytes, check.block}, request.rkey.bytes);
  if (!registration) return end_gdr_check(check, std::move(registration).error());
  check.registration = registration->id;
  request.device = memory.device;
  request.seed = check.seed;
  request.rkey.size = registration->rkey_size;
  post_control(peer, &request, sizeof request);
}

// Responder: gets the block and registers its inverse for the requester.
void Engine::on_gdr_check_request(uint32_t source, const GdrCheckMessage& request) {
  static uint64_t last_id = 0;
  const auto from_source = [&](const auto& response) { return response->peer == source; };
  if (request.rkey.size == 0 ||
      std::count_if(gdr_responses_.begin(), gdr_responses_.end(), from_source) >= kMaxResponses)
    return drop_malformed();
  GpuDirectResponse& response = *gdr_responses_.emplace_back(std::make_unique<GpuDirectResponse>());
  response.done = [](transport::Completion& self, Status outcome) {
    auto& done = static_cast<GpuDirectResponse&>(self);
    done.engine->reply_gdr_check(done, std::move(outcome));
  };
  response.engine = this;
  response.id = ++last_id;
  response.peer = source;
  response.device = request.device;
  response.seed = request.seed;
  network_->get(source, {reinterpret_cast<std::byte*>(response.block.data()), kBytes, {}},
                {request.rkey.bytes, request.rkey.size}, 0, response);
}

void Engine::reply_gdr_check(GpuDirectResponse& response, Status outcome) {
  GdrCheckMessage reply{};
  reply.type = Type::gdr_check_reply;
  reply.device = response.device;
  reply.seed = response.seed;
  reply.id = response.id;
  const bool correct = outcome && response.block == block_of(response.seed, false);
  response.replied = true;
  response.block = block_of(response.seed, true);
  auto registration = network_->register_buffer(
      response.peer, {reinterpret_cast<std::byte*>(response.block.data()), kBytes, {}}, reply.rkey.bytes);
  if (registration) {
    response.registration = registration->id;
    reply.rkey.size = registration->rkey_size;
    reply.flags = correct ? 1 : 0;
  }
  post_control(response.peer, &reply, sizeof reply);
}

void Engine::on_gdr_check_reply(uint32_t source, const GdrCheckMessage& reply) {
  for (const auto& check : gdr_checks_) {
    if (check->block.device != reply.device || check->seed != reply.seed || check->peer != source ||
        check->state != GpuDirectCheck::State::requested || check->registration == 0)
      continue;
    network_->deregister(std::exchange(check->registration, 0));
    check->peer_id = reply.id;
    if (reply.flags == 0 || reply.rkey.size == 0)
      return end_gdr_check(*check, Error(Errc::unsupported, "process " + std::to_string(source) +
                                                                " got wrong data from this GPU's memory"));
    check->state = GpuDirectCheck::State::getting;
    network_->get(source, {at(check->block), kBytes, check->block}, {reply.rkey.bytes, reply.rkey.size}, 0,
                  *check);
    return;
  }
  drop_malformed();
}

void Engine::gdr_check_get_done(transport::Completion& self, Status outcome) {
  auto& check = static_cast<GpuDirectCheck&>(self);
  CheckBlock found{};
  if (outcome) outcome = device::copy(found.data(), {}, at(check.block), check.block, kBytes);
  if (outcome && found != block_of(check.seed, true))
    outcome = Error(Errc::unsupported, "data got into this GPU's memory were wrong");
  check.engine->end_gdr_check(check, std::move(outcome));
}

void Engine::end_gdr_check(GpuDirectCheck& check, Status outcome) {
  check.state = outcome ? GpuDirectCheck::State::passed : GpuDirectCheck::State::failed;
  if (!outcome) {
    check.reason = outcome.error().message();
    no_gpudirect.hit("not verified: " + check.reason);
  } else {
    log::write(log::Level::info,
               "GPUDirect: %s reads and writes the memory of GPU %d, verified with process %u",
               network_->name(), check.block.device, check.peer);
  }
  if (check.block.base != 0) device::free_scratch(check.block);
  check.block = device::Memory{.device = check.block.device};
  if (check.peer_id == 0) return;
  GdrCheckMessage done{};
  done.type = Type::gdr_check_done;
  done.id = check.peer_id;
  post_control(check.peer, &done, sizeof done);
}

void Engine::on_gdr_check_done(uint32_t source, const GdrCheckMessage& done) {
  std::erase_if(gdr_responses_, [&](const auto& response) {
    if (response->id != done.id || response->peer != source || !response->replied) return false;
    if (response->registration != 0) network_->deregister(response->registration);
    return true;
  });
}

std::string Engine::describe_gpudirect() const {
  if (!setting_gpudirect.is("auto"))
    return "gpudirect\tWEFT_GPUDIRECT_RDMA=" + setting_gpudirect.value_text() + "\n";
  if (!network_->supports({.kind = device::MemoryKind::cuda_device}))
    return "gpudirect\tno: the network does not support GPU memory\n";
  if (gdr_checks_.empty()) return "gpudirect\tnot verified: no GPU message went to another host yet\n";
  std::string lines;
  for (const auto& check : gdr_checks_) {
    lines += "gpudirect\tGPU " + std::to_string(check->block.device) + ": ";
    if (check->state == GpuDirectCheck::State::passed)
      lines += "verified with process " + std::to_string(check->peer) + "\n";
    else
      lines +=
          check->state == GpuDirectCheck::State::failed ? "no: " + check->reason + "\n" : "being verified\n";
  }
  return lines;
}

}  // namespace weft::p2p
