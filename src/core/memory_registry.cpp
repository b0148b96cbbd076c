// SPDX-License-Identifier: BSD-3-Clause
#include "core/memory_registry.hpp"

#include "base/clock.hpp"
#include "base/counters.hpp"
#include "device/copy.hpp"

namespace weft::core {

using transport::am::HandlerId;
using transport::cuda_ipc::Exporter;
using transport::cuda_ipc::Mapping;

namespace {

constexpr HandlerId kDrop = transport::am::kMemoryHandlers, kMailbox = kDrop + 1;
constexpr uint32_t kCallsPerSweep = 512;  // exports between two sweeps for freed allocations
constexpr uint32_t kPollsPerClock = 64;
constexpr uint64_t kSweepIntervalNs = 50'000'000;

counters::Counter foreign_messages(
    "memory.foreign_messages", counters::Unit::events,
    "Messages on mapped memory dropped because their sender is on another host");
counters::Counter mapping_cost("gpu.mapping_cost_ns", counters::Unit::nanoseconds,
                               "Time in which this process opens and closes a mapping of GPU memory, as last "
                               "compared with the time that a mapping saves",
                               counters::Kind::level);

}  // namespace

/// Request to unmap a freed exported allocation.
struct MemoryRegistry::Drop {
  HandlerId handler;
  uint8_t unused[7];
  uint64_t epoch, base, buffer_id;
};

/// The sender cannot duplicate descriptors of cuMemMap memory: they are to be sent to `address`, 0: not at
/// all.
struct MemoryRegistry::Mailbox {
  HandlerId handler;
  uint8_t unused[7];
  uint64_t address;
};

MemoryRegistry::MemoryRegistry(Instance& instance) : instance_(instance) {
  instance.handlers.add<Drop>(kDrop, *this,
                              [](MemoryRegistry& self, ProcessId source, const Drop& drop, size_t) {
                                if (self.accepts(source))
                                  self.importer_.drop(source, drop.epoch, drop.base, drop.buffer_id);
                              });
  instance.handlers.add<Mailbox>(kMailbox, *this,
                                 [](MemoryRegistry& self, ProcessId source, const Mailbox& mailbox, size_t) {
                                   if (self.accepts(source))
                                     self.exporter().use_mailbox(source, mailbox.address);
                                 });
}

bool MemoryRegistry::accepts(ProcessId source) const {
  const bool local = instance_.same_host(source);
  if (!local) foreign_messages.add();
  return local;
}

MemoryRegistry::~MemoryRegistry() {
  close();
  instance_.handlers.remove(kDrop);
  instance_.handlers.remove(kMailbox);
}

Exporter& MemoryRegistry::create_exporter() {
  exporter_ = std::make_unique<Exporter>();
  exporter_->on_descriptors([this] { instance_.add(*this); });
  return *exporter_;
}

Result<Mapping*> MemoryRegistry::open(ProcessId peer, const transport::cuda_ipc::Region& region,
                                      const transport::cuda_ipc::Probe* probe, const device::Memory& local) {
  auto mapping = importer_.open(peer, region, probe, local);
  if (mapping && (*mapping)->memory().device == local.device) note_shared_gpu(peer, local.device);
  if (mapping || region.descriptors == 0) return mapping;
  if (const auto address = importer_.take_mailbox_request(peer)) {
    const Mailbox message{kMailbox, {}, *address};
    instance_.sender->post(peer, &message, sizeof message);
  }
  return mapping;
}

uint64_t MemoryRegistry::mapping_ns() const {
  const uint64_t ns = importer_.mapping_time().ns();
  mapping_cost.add(ns - mapping_cost.value());
  return ns;
}

/// A peer's memory is on a GPU of this process.
void MemoryRegistry::note_shared_gpu(ProcessId peer, int device) {
  auto& peers = peers_on_gpu_[device];
  if (!peers.insert(peer).second) return;
  device::note_shared_device(device, static_cast<uint32_t>(peers.size()) + 1);
}

void MemoryRegistry::withdraw_freed() {
  if (exporter().exported() != exported_ || ++calls_since_sweep_ >= kCallsPerSweep) sweep();
}

// Exported descriptors keep cuMemMap memory alive after the program has unmapped it, so such memory is swept
// for frequently.
bool MemoryRegistry::poll() {
  if (exporter_->descriptors() == 0 || ++polls_ % kPollsPerClock != 0) return false;
  const uint64_t now = monotonic_ns();
  if (now < next_sweep_ns_) return false;
  next_sweep_ns_ = now + kSweepIntervalNs;
  sweep();
  return false;
}

void MemoryRegistry::sweep() {
  calls_since_sweep_ = 0;
  for (const auto& gone : exporter_->sweep_freed()) {
    const Drop message{kDrop, {}, gone.epoch, gone.base, gone.buffer_id};
    instance_.sender->post(gone.peer, &message, sizeof message);
  }
  exported_ = exporter_->exported();
}

void MemoryRegistry::forget(ProcessId peer) {
  if (exporter_) exporter_->forget_peer(peer);
  importer_.drop_peer(peer);
  mapping_rule_.forget(peer);
  for (auto& [device, peers] : peers_on_gpu_) peers.erase(peer);
}

void MemoryRegistry::close() {
  importer_.close();
  if (!exporter_) return;
  instance_.remove(*this);
  exporter_.reset();
  exported_ = 0;
}

}  // namespace weft::core
