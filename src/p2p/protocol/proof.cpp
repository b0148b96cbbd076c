// SPDX-License-Identifier: BSD-3-Clause
// GPUDirect: whether GPU memory is handed to the network as it is. `auto` proves it for each device at its
// first message to another host, by moving bytes both ways; until then, and where it fails, messages go
// through host memory.
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

config::Choice setting_direct{
    "gpudirect_rdma",
    0,
    {"auto", "on", "off"},
    "Whether the network reads and writes GPU memory itself: where moving bytes proves "
    "that it can, always, or never."};

log::SlowPath no_direct{"net.no_gpudirect",
                        "GPU messages between hosts go through host memory, at most as fast as PCIe"};

constexpr size_t kBytes = sizeof(ProofBlock);

/// `turned`: what goes the other way.
ProofBlock block_of(uint64_t seed, bool turned) {
  ProofBlock block;
  for (uint64_t& word : block) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    word = turned ? ~seed : seed;
  }
  return block;
}

std::byte* at(const device::Memory& memory) { return reinterpret_cast<std::byte*>(memory.base); }

}  // namespace

bool Engine::direct(const device::Memory& memory, uint32_t peer) {
  if (memory.kind != device::MemoryKind::cuda_device) return false;
  if (setting_direct.is("off")) {
    no_direct.hit("switched off by WEFT_GPUDIRECT_RDMA=off");
    return false;
  }
  if (!network_->takes(memory)) {
    no_direct.hit(std::string(network_->name()) + " takes no GPU memory here (" + network_->description() +
                  ")");
    return false;
  }
  if (setting_direct.is("on")) return true;
  for (const auto& proof : proofs_)
    if (proof->block.device == memory.device) return proof->state == DirectProof::State::good;
  start_proof(memory, peer);
  return false;
}

void Engine::start_proof(const device::Memory& memory, uint32_t peer) {
  DirectProof& proof = *proofs_.emplace_back(std::make_unique<DirectProof>());
  proof.done = proof_read;
  proof.engine = this;
  proof.peer = peer;
  proof.seed = monotonic_ns();
  proof.block.device = memory.device;
  auto block = device::allocate_scratch(memory, kBytes);
  if (!block) return end_proof(proof, std::move(block).error());
  proof.block = *block;
  const ProofBlock content = block_of(proof.seed, false);
  if (Status filled = device::copy(at(proof.block), proof.block, content.data(), {}, kBytes); !filled)
    return end_proof(proof, std::move(filled));
  Proof ask{};
  ask.type = Type::proof_ask;
  auto exposed = network_->expose(peer, {at(proof.block), kBytes, proof.block}, ask.key.bytes);
  if (!exposed) return end_proof(proof, std::move(exposed).error());
  proof.exposed = exposed->id;
  ask.device = memory.device;
  ask.seed = proof.seed;
  ask.key.size = exposed->key_size;
  post_control(peer, &ask, sizeof ask);
}

// The peer's side: fetches the block, and shows the same turned.
void Engine::on_proof_ask(uint32_t source, const Proof& ask) {
  static uint64_t last_id = 0;
  ProofHelp& help = *proof_helps_.emplace_back(std::make_unique<ProofHelp>());
  help.done = [](transport::Completion& self, Status outcome) {
    auto& done = static_cast<ProofHelp&>(self);
    done.engine->answer_proof(done, std::move(outcome));
  };
  help.engine = this;
  help.id = ++last_id;
  help.peer = source;
  help.device = ask.device;
  help.seed = ask.seed;
  network_->fetch(source, {reinterpret_cast<std::byte*>(help.block.data()), kBytes, {}},
                  {ask.key.bytes, ask.key.size}, 0, help);
}

void Engine::answer_proof(ProofHelp& help, Status outcome) {
  Proof answer{};
  answer.type = Type::proof_answer;
  answer.device = help.device;
  answer.seed = help.seed;
  answer.id = help.id;
  const bool right = outcome && help.block == block_of(help.seed, false);
  help.block = block_of(help.seed, true);
  auto exposed = network_->expose(help.peer, {reinterpret_cast<std::byte*>(help.block.data()), kBytes, {}},
                                  answer.key.bytes);
  if (exposed) {
    help.exposed = exposed->id;
    answer.key.size = exposed->key_size;
    answer.flags = right ? 1 : 0;
  }
  post_control(help.peer, &answer, sizeof answer);
}

void Engine::on_proof_answer(uint32_t source, const Proof& answer) {
  for (const auto& proof : proofs_) {
    if (proof->block.device != answer.device || proof->seed != answer.seed) continue;
    network_->conceal(std::exchange(proof->exposed, 0));
    proof->peer_id = answer.id;
    if (answer.flags == 0)
      return end_proof(*proof, Error(Errc::unsupported, "process " + std::to_string(source) +
                                                            " fetched wrong data from this GPU's memory"));
    proof->state = DirectProof::State::reading;
    network_->fetch(source, {at(proof->block), kBytes, proof->block}, {answer.key.bytes, answer.key.size}, 0,
                    *proof);
    return;
  }
}

void Engine::proof_read(transport::Completion& self, Status outcome) {
  auto& proof = static_cast<DirectProof&>(self);
  ProofBlock found{};
  if (outcome) outcome = device::copy(found.data(), {}, at(proof.block), proof.block, kBytes);
  if (outcome && found != block_of(proof.seed, true))
    outcome = Error(Errc::unsupported, "data fetched into this GPU's memory were wrong");
  proof.engine->end_proof(proof, std::move(outcome));
}

void Engine::end_proof(DirectProof& proof, Status outcome) {
  proof.state = outcome ? DirectProof::State::good : DirectProof::State::bad;
  if (!outcome) {
    proof.reason = outcome.error().message();
    no_direct.hit("not proved: " + proof.reason);
  } else {
    log::write(log::Level::info,
               "GPUDirect: %s reads and writes the memory of GPU %d, proved with process %u",
               network_->name(), proof.block.device, proof.peer);
  }
  if (proof.block.base != 0) device::free_scratch(proof.block);
  proof.block = device::Memory{.device = proof.block.device};
  if (proof.peer_id == 0) return;
  Proof done{};
  done.type = Type::proof_done;
  done.id = proof.peer_id;
  post_control(proof.peer, &done, sizeof done);
}

void Engine::on_proof_done(const Proof& done) {
  std::erase_if(proof_helps_, [&](const auto& help) {
    if (help->id != done.id) return false;
    if (help->exposed != 0) network_->conceal(help->exposed);
    return true;
  });
}

std::string Engine::describe_direct() const {
  if (!setting_direct.is("auto"))
    return "gpudirect\tWEFT_GPUDIRECT_RDMA=" + setting_direct.value_text() + "\n";
  if (!network_->takes({.kind = device::MemoryKind::cuda_device}))
    return "gpudirect\tno: the network takes no GPU memory\n";
  if (proofs_.empty()) return "gpudirect\tnot proved: no GPU message went to another host yet\n";
  std::string lines;
  for (const auto& proof : proofs_) {
    lines += "gpudirect\tGPU " + std::to_string(proof->block.device) + ": ";
    if (proof->state == DirectProof::State::good)
      lines += "proved with process " + std::to_string(proof->peer) + "\n";
    else
      lines += proof->state == DirectProof::State::bad ? "no: " + proof->reason + "\n" : "being proved\n";
  }
  return lines;
}

}  // namespace weft::p2p
