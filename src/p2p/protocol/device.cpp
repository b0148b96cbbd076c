// SPDX-License-Identifier: BSD-3-Clause
// Device memory inside a host. The receiver maps the sender's allocation (CUDA IPC) and copies once over
// NVLink or PCIe. What cannot be mapped: device_staged.cpp.
#include <cstddef>
#include <cstring>
#include <vector>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "base/trace.hpp"
#include "device/copy.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/device_copy.hpp"

namespace weft::p2p {
namespace {

using device::Lane;
using transport::cuda_ipc::Mapping;
using transport::cuda_ipc::Probe;
using transport::cuda_ipc::Region;
using transport::cuda_ipc::RegionName;

log::SlowPath no_export{"p2p.device_not_exportable", "packed into GPU scratch first, up to 2 times slower"};
log::SlowPath no_scratch{"p2p.device_without_scratch",
                         "staged through host memory, 5 to 50 times slower than NVLink"};
log::SlowPath no_mapping{"p2p.device_not_mapped",
                         "staged through host memory, 5 to 50 times slower than NVLink"};

constexpr size_t kBatch = 64;                          // copies in one submission
constexpr uint64_t kBatchBytes = uint64_t{256} << 20;  // 0.7 ms of NVLink, so that completions come often
constexpr size_t kPolled = 4;                          // copies looked at in one round, oldest first
constexpr uint32_t kSweepEvery = 512;  // device sends between two sweeps for freed allocations
constexpr uint32_t kLooksPerClock = 64;
constexpr uint64_t kReleaseEvery = 50'000'000;  // ns

config::Size setting_submissions(
    "gpu.submissions", 3, 1, 64,
    "Lists of GPU copies under way at a time; what is matched meanwhile goes out "
    "together");
config::Size setting_hold(
    "gpu.hold", 32, 1, kBatch,
    "While a program posts receives in a row as long as its last one, so many copies are "
    "collected before they go out; 1: none waits");
config::Size setting_hold_max("gpu.hold_max", size_t{64} << 10, 0, size_t{1} << 30,
                              "Largest GPU message in bytes that is collected so");

}  // namespace

// What the receiver needs to fetch the message: the allocation it lies in, or else GPU scratch.
size_t Engine::append_region(Transfer& t, uint32_t to, ReadyToSend& rts, std::byte* room) {
  look_for_freed();
  if (t.resolved)
    if (const auto size = append_resolved(t, rts, room)) return *size;
  switch (offer_of(t.memory.kind, t.contiguous, t.memory.covers(t.address, t.bytes))) {
    case Offer::as_it_lies: {
      auto size = append_export(t.memory, to, rts, room);
      if (size) {
        if (t.resolved) remember_export(t);
        return *size;
      }
      no_export.hit(size.error().message());
      break;
    }
    case Offer::strides:
      if (const auto size = append_strides(t, to, rts, room)) return *size;
      break;
    case Offer::scratch:
      if (t.memory.on_device())
        no_export.hit(t.memory.mapped ? "the buffer spans more allocations than a message names, or gaps"
                                      : "the buffer spans several allocations");
      break;
  }
  auto area = scratch_.area(t.memory);
  auto size = area ? append_export((*area)->memory, to, rts, room) : std::move(area).error();
  if (!size) {
    no_scratch.hit(size.error().message());
    return 0;
  }
  rts.flags |= ReadyToSend::kScratch;
  t.scratch = std::make_unique<ScratchSend>();
  t.scratch->area = *area;
  return *size + append_ahead(t, rts, room + *size);
}

// Of a persistent request: the peer knows its region. If it does not any more, the buffer is looked at again,
// since its memory may have been freed.
bool Engine::still_told(Transfer& t) {
  if (!t.resolved->told) return false;
  if (t.resolved->withdrawals == exporter_->withdrawals() && t.resolved->name.epoch == exporter_->epoch())
    return true;
  t.resolved->told = false;
  t.memory = device::classify(t.address);
  if (t.contiguous) t.memory = device::widened(t.memory, t.address, t.bytes);
  return false;
}

// A persistent send whose region the peer knows.
std::optional<size_t> Engine::append_resolved(Transfer& t, ReadyToSend& rts, std::byte* room) {
  if (!still_told(t)) return std::nullopt;
  rts.flags |= ReadyToSend::kRegionName;
  std::memcpy(room, &t.resolved->name, sizeof t.resolved->name);
  return sizeof t.resolved->name;
}

void Engine::remember_export(Transfer& t) {
  t.resolved->name = {t.memory.base, t.memory.buffer_id, exporter_->epoch()};
  t.resolved->withdrawals = exporter_->withdrawals();
  t.resolved->told = true;
}

Result<size_t> Engine::append_export(const device::Memory& memory, uint32_t to, ReadyToSend& rts,
                                     std::byte* room) {
  auto told = exporter_->export_region(memory, to);
  if (!told) return std::move(told).error();
  const Region& region = *told->region;
  if (told->before) {
    rts.flags |= ReadyToSend::kRegionName;
    const RegionName name{region.base, region.buffer_id, region.epoch};
    std::memcpy(room, &name, sizeof name);
    return sizeof name;
  }
  rts.flags |= ReadyToSend::kRegion;
  std::memcpy(room, &region, sizeof region);
  if (!exporter_->probe_due(memory, to)) return sizeof(Region);
  auto probe = exporter_->probe(memory);
  if (!probe) return sizeof(Region);
  rts.flags |= ReadyToSend::kProbe;
  std::memcpy(room + sizeof(Region), &*probe, sizeof(Probe));
  exporter_->probe_sent(memory, to);
  return sizeof(Region) + sizeof(Probe);
}

void Engine::look_for_freed() {
  if (exporter().exported() != exported_ || ++sends_since_sweep_ >= kSweepEvery) sweep_exports();
}

// The descriptors of cuMemMap memory keep it alive, and mostly a program unmaps memory to have it back.
void Engine::release_unmapped() {
  if (++looks_for_unmapped_ % kLooksPerClock != 0) return;
  const uint64_t now = monotonic_ns();
  if (now < next_release_) return;
  next_release_ = now + kReleaseEvery;
  sweep_exports();
}

void Engine::sweep_exports() {
  sends_since_sweep_ = 0;
  for (const auto& gone : exporter_->sweep_freed()) {
    DropMapping drop{};
    drop.type = Type::drop_mapping;
    drop.epoch = gone.epoch;
    drop.base = gone.base;
    drop.buffer_id = gone.buffer_id;
    post_control(gone.peer, &drop, sizeof drop);
  }
  exported_ = exporter_->exported();
}

void Engine::on_drop(uint32_t source, const DropMapping& drop) {
  if (importer_) importer_->drop(source, drop.epoch, drop.base, drop.buffer_id);
}

// On arrival, matched or not: a later message of this peer, which only names the region, may be matched
// before this one.
void Engine::learn_region(uint32_t source, const ReadyToSend& rts) {
  const auto* at = reinterpret_cast<const std::byte*>(&rts + 1);
  Region region;
  std::memcpy(&region, at, sizeof region);
  importer().learn(source, region);
  if ((rts.flags & ReadyToSend::kProbe) == 0) return;
  Probe probe;
  std::memcpy(&probe, at + sizeof region, sizeof probe);
  importer().learn(source, probe);
}

/// Names the allocation that a ready-to-send offers: told now, or before.
RegionName Engine::name_of(const ReadyToSend& rts) {
  if ((rts.flags & ReadyToSend::kRegionName) != 0) {
    RegionName name;
    std::memcpy(&name, &rts + 1, sizeof name);
    return name;
  }
  Region region;
  std::memcpy(&region, &rts + 1, sizeof region);
  return {region.base, region.buffer_id, region.epoch};
}

/// The sender's allocation; null when it has none to be mapped.
const Region* Engine::region_of(uint32_t source, const ReadyToSend& rts) {
  if ((rts.flags & (ReadyToSend::kRegionName | ReadyToSend::kRegion)) == 0) return nullptr;
  const Region* region = importer().find(source, name_of(rts));
  if (region == nullptr)
    no_mapping.hit("the sender's allocation was dropped before its message was received");
  return region;
}

transport::cuda_ipc::Exporter& Engine::exporter() {
  if (!exporter_) exporter_ = std::make_unique<transport::cuda_ipc::Exporter>();
  return *exporter_;
}

transport::cuda_ipc::Importer& Engine::importer() {
  if (!importer_) importer_ = std::make_unique<transport::cuda_ipc::Importer>();
  return *importer_;
}

/// The local side as the importer wants it: a GPU of this process.
device::Memory Engine::mapping_side(const Transfer& t) {
  device::Memory local = t.memory;
  if (local.kind == device::MemoryKind::host_pinned)
    local.device = device::only_active_device(), local.context = nullptr;
  return local;
}

/// What the last start of a persistent receive mapped, when the sender offers it again; else null.
transport::cuda_ipc::Mapping* Engine::mapped_before(const Transfer& t, uint32_t source,
                                                    const ReadyToSend& rts) {
  if (!t.resolved || t.resolved->mapping == nullptr || (rts.flags & ReadyToSend::kRegionName) == 0)
    return nullptr;
  const RegionName name = name_of(rts);
  const Resolved& known = *t.resolved;
  const bool same = known.peer == source && known.theirs == name && known.closures == importer().closures();
  if (!same) return nullptr;
  importer().retain(*known.mapping);
  return known.mapping;
}

/// A peer whose descriptors of cuMemMap memory cannot be taken is told: it sends them, or packs what it sends
/// from there.
Result<Mapping*> Engine::open_region(uint32_t source, const Region& region, const Transfer& t) {
  auto mapping = importer().open(source, region, nullptr, mapping_side(t));
  if (mapping || region.descriptors == 0) return mapping;
  if (const auto mailbox = importer().refused_descriptors(source)) {
    Header message{};
    message.type = Type::no_descriptors;
    message.context = *mailbox;
    post_control(source, &message, sizeof message);
  }
  return mapping;
}

/// Maps what the sender offers; null: not possible, by name.
transport::cuda_ipc::Mapping* Engine::map_region(const Transfer& t, uint32_t source, const ReadyToSend& rts) {
  if (auto* before = mapped_before(t, source, rts)) return before;
  const Region* region = region_of(source, rts);
  if (region == nullptr) return nullptr;
  auto mapping = open_region(source, *region, t);
  if (!mapping) {
    no_mapping.hit(mapping.error().message());
    return nullptr;
  }
  if ((*mapping)->memory().device == t.memory.device) device::note_shared(t.memory.device);
  if (t.resolved) {
    remember_mapping(t, source, name_of(rts), **mapping);
  }
  return *mapping;
}

void Engine::remember_mapping(const Transfer& t, uint32_t peer, const RegionName& theirs, Mapping& mapping) {
  t.resolved->theirs = theirs;
  t.resolved->peer = peer;
  t.resolved->mapping = &mapping;
  t.resolved->closures = importer().closures();
}

// One copy from the mapped allocation of the sender. False: not possible for this message.
bool Engine::get_device(Transfer& t, uint32_t source, const ReadyToSend& rts) {
  const trace::Range range("p2p.get_device");
  auto* mapping = map_region(t, source, rts);
  if (mapping == nullptr) return false;
  gets_.push_back({&t, source, rts.sender, mapping, static_cast<std::byte*>(mapping->at(rts.address))});
  if (!collecting_) submit_gets();
  return true;
}

// A submission costs the CPU as much as posting ten receives, and the GPU more than several small copies. So
// while a program posts a window as it did before, its small messages are collected; with the last receive of
// the row, or when the program waits, all that was matched goes out.
bool Engine::holds() const {
  return in_row() && row_.now < row_.last && gets_.size() < setting_hold &&
         gets_.back().receiver->expected <= setting_hold_max;
}

// What is matched while two submissions are under way goes out together, as soon as one of them is done; the
// end of one overlaps the start of the next.
void Engine::submit_gets() {
  if (holds()) return;
  const bool was_collecting = std::exchange(collecting_, true);  // a failure may complete, and match, others
  round_.swap(gets_);
  size_t first = 0;
  while (first < round_.size() && copies_.size() < setting_submissions) {
    const size_t count = joining(&round_[first], round_.size() - first);
    submit_batch(&round_[first], count, next_lane(Lane::in));
    first += count;
  }
  gets_.insert(gets_.begin(), round_.begin() + static_cast<ptrdiff_t>(first), round_.end());
  round_.clear();
  collecting_ = was_collecting;
}

/// Bytes of the submissions under way.
uint64_t Engine::under_way() const {
  uint64_t bytes = 0;
  for (const DeviceCopy& copy : copies_) {
    bytes += copy.get.receiver->expected;
    for (const Get& get : copy.more) bytes += get.receiver->expected;
  }
  return bytes;
}

/// How many of them, from the first on, go out together: kBatchBytes, or as much as is under way before them.
size_t Engine::joining(const Get* gets, size_t count) const {
  const Get& lead = gets[0];
  uint64_t bytes = lead.receiver->expected;
  const auto joins = [&](const Get& get) {
    return !get.aside && !lead.aside && get.mapping->memory().context == lead.mapping->memory().context &&
           get.receiver->memory.kind == lead.receiver->memory.kind &&
           get.receiver->memory.context == lead.receiver->memory.context && get.receiver->contiguous &&
           lead.receiver->contiguous &&
           (bytes + get.receiver->expected <= kBatchBytes || bytes + get.receiver->expected <= under_way());
  };
  size_t joined = 1;
  for (; joined < std::min(count, kBatch) && joins(gets[joined]); ++joined)
    bytes += gets[joined].receiver->expected;
  return joined;
}

/// Submissions take turns on two streams.
Lane Engine::next_lane(Lane first) {
  odd_copy_ = !copies_.empty() && !odd_copy_;
  return odd_copy_ ? Lane::aux : first;
}

void Engine::submit_get(const Get& get, Lane lane) {
  if (get.aside) return submit_aside(get, lane);
  const trace::Range range("p2p.submit_get");
  const View theirs{get.theirs, nullptr, 0, get.mapping->memory()}, ours = view_of(*get.receiver);
  const bool out = get.target != nullptr;
  auto ticket = submit(out ? theirs : ours, out ? ours : theirs, get.receiver->expected, lane);
  if (!ticket) return finish_get(get, std::move(ticket).error());
  copies_.push_back({std::move(*ticket), get, {}});
}

void Engine::submit_batch(const Get* gets, size_t count, Lane lane) {
  if (count == 1) return submit_get(gets[0], lane);
  const trace::Range range("p2p.submit_batch");
  const bool out = gets[0].target != nullptr;
  device::Piece pieces[kBatch] = {};
  for (size_t i = 0; i < count; ++i) {
    const auto [get, ours] = std::pair(gets[i], gets[i].receiver->address);
    pieces[i] = out ? device::Piece{get.theirs, ours, get.receiver->expected}
                    : device::Piece{ours, get.theirs, get.receiver->expected};
  }
  const device::Memory &theirs = gets[0].mapping->memory(), &ours = gets[0].receiver->memory;
  const bool beside = !copies_.empty() && copies_.back().ticket.by_engine();
  auto ticket =
      device::copy_pieces_async(pieces, count, out ? theirs : ours, out ? ours : theirs, lane, beside);
  if (!ticket) {  // what the driver refuses as a list it may take one by one
    for (size_t i = 0; i < count; ++i) submit_get(gets[i], lane);
    return;
  }
  copies_.push_back({std::move(*ticket), gets[0], {gets + 1, gets + count}});
}

// Uploads end in any order: kernels and copy engines take them as they fit.
void Engine::follow_uploads(Transfer& t) {
  copies_.push_back(
      {std::move(t.staging->chunks[0].ticket), {&t}, {}, std::move(t.staging->chunks[1].ticket)});
}

void Engine::device_self(Transfer& t, Transfer& sender) {
  if (sender.bytes == 0) {
    complete(sender);
    return complete(t);
  }
  auto ticket = submit(view_of(t), view_of(sender), sender.bytes, Lane::local);
  const Get get{&t, instance.self, reinterpret_cast<uint64_t>(&sender)};
  if (!ticket) return finish_get(get, std::move(ticket).error());
  copies_.push_back({std::move(*ticket), get, {}});
}

bool Engine::poll_device() {
  bool moved = false;
  for (size_t i = 0; i < copies_.size() && i < kPolled;) {
    Status outcome;
    if (copies_[i].ticket.pending()) {
      auto ready = device::done(copies_[i].ticket);
      if (ready && !*ready) {
        ++i;
        continue;
      }
      if (!ready) outcome = std::move(ready).error();
    }
    if (copies_[i].other.pending()) {
      if (outcome) {
        copies_[i].ticket = std::move(copies_[i].other);
        continue;
      }
      (void)device::wait(copies_[i].other);  // the error is known already
    }
    DeviceCopy copy = std::move(copies_[i]);
    copies_.erase(copies_.begin() + static_cast<ptrdiff_t>(i));
    finish_copy(copy, std::move(outcome));
    moved = true;
  }
  return moved;
}

void Engine::finish_get(const Get& get, Status outcome) {
  const trace::Range range("p2p.finish_get");
  if (get.target != nullptr) return finish_put(get, std::move(outcome));
  if (get.sender != 0) finish_sender(get.source, get.sender);
  finish_receiver(get, std::move(outcome));
}

void Engine::finish_receiver(const Get& get, Status outcome) {
  if (get.mapping != nullptr) importer_->release(get.mapping);
  if (!outcome) get.receiver->outcome = std::move(outcome);
  peers_[get.source].answers = true;
  complete(*get.receiver);
}

// The senders of a batch are told first: they are waiting.
void Engine::finish_copy(DeviceCopy& copy, Status outcome) {
  if (copy.more.empty()) return finish_get(copy.get, std::move(outcome));
  const bool out = copy.get.target != nullptr;
  if (!out) finish_senders(copy);
  const auto finish = out ? &Engine::finish_put : &Engine::finish_receiver;
  for (const Get& get : copy.more) (this->*finish)(get, outcome ? Status() : Status(outcome.error().copy()));
  (this->*finish)(copy.get, std::move(outcome));
}

// One message for all of a peer's in a row.
void Engine::finish_senders(const DeviceCopy& copy) {
  Finished message;
  static_cast<Header&>(message) = Header{Type::finish_many};
  uint32_t to = copy.get.source;
  const auto flush = [&] {
    if (message.length == 1)
      finish_sender(to, message.senders[0]);
    else if (message.length > 1)
      post_control(to, &message, sizeof(Header) + message.length * sizeof message.senders[0]);
    message.length = 0;
  };
  const auto add = [&](const Get& get) {
    if (get.source != to || message.length == Finished::kMax) flush();
    to = get.source;
    message.senders[message.length++] = get.sender;
  };
  add(copy.get);
  for (const Get& get : copy.more) add(get);
  flush();
}

void Engine::close_device() {
  end_puts();
  if (importer_) importer_->close();
  if (exporter_) exporter_->close();
  scratch_.close();
  exporter_.reset();
}

}  // namespace weft::p2p
