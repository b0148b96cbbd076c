// SPDX-License-Identifier: BSD-3-Clause
// Domain: exchange of regions, and life cycle of a call's kernels.
#include "coll/gpu/domain.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "coll/gpu/plan.hpp"
#include "core/memory_registry.hpp"
#include "device/info.hpp"
#include "p2p/bounce_block.hpp"

namespace weft::coll::gpu {
namespace {

using device::CollectiveSlot;
using transport::cuda_ipc::Probe;
using transport::cuda_ipc::Region;

log::SlowPath kernels_refused{"coll.gpu_refused",
                              "collectives on GPU memory use messages; small ones are 2 to 5 times slower"};

config::Size timeout_ns{"coll.gpu_kernel_timeout_ns", 100'000, 1'000, 1'000'000'000,
                        "Longest wait in ns of a collective kernel for its peers before it exits and is "
                        "relaunched; larger values keep waiting kernels on the GPU longer."};
config::Size max_epoch{
    "coll.gpu_max_epoch", 0xfffff000, 2, 0xfffff000,
    "Number of collectives on device buffers after which a communicator clears the flags of its region."};

constexpr uint64_t kResidentStartDelayNs = 6'000;  // from a Simple launch to the resident kernel's start
constexpr uint64_t kPeerKernelsNs = 200'000'000;   // in which a survivor notices a death, its kernel ends

}  // namespace

/// Published by each rank while the domain is opened.
struct Domain::Descriptor {
  uint32_t good, epoch;
  uint64_t address, bytes;  ///< of the region of this rank
  RankGpu gpu;
  Region region;  ///< the allocation that contains it
  Probe probe;
};

void Domain::release() {
  for (auto* mapping : resources_.mappings) comm_.instance.memory->importer().release(mapping);
  if (resources_.region != nullptr) resources_.region->leased = false;
  resources_ = {};
}

Domain::~Domain() {
  if (state_ != State::open || comm_.instance.gpu_regions == nullptr) return;  // or after MPI_Finalize
  resources_.region->epoch = std::max(resources_.region->epoch, epoch_);
  release();
}

void Domain::fail(const std::string& reason) {
  release();
  kernels_refused.hit(reason);
  state_ = State::refused;
}

Status Domain::prepare(const device::Memory& near, Descriptor& descriptor) {
  auto gpu = RankGpu::of(near.device);
  if (!gpu) return std::move(gpu).error();
  descriptor.gpu = *gpu;
  auto slot = CollectiveSlot::open(near);
  if (!slot) return std::move(slot).error();
  resources_.slot = std::move(*slot);
  auto leased_region = RegionPool::of(comm_.instance).lease(near);
  if (!leased_region) return std::move(leased_region).error();
  resources_.region = *leased_region;
  const CollectiveRegion& own = *resources_.region;
  descriptor.epoch = own.epoch;
  descriptor.address = own.address;
  descriptor.bytes = device::collective_region_bytes();
  auto& exporter = comm_.instance.memory->exporter();
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank == comm_.rank()) continue;
    if (own.beside_bounce) p2p::announce_block(comm_.instance, own.memory, comm_.process(rank));
    auto region = exporter.export_region(own.memory, comm_.process(rank));
    if (!region) return std::move(region).error();
    descriptor.region = *region->region;
  }
  auto probe = exporter.probe(own.memory);
  if (!probe) return std::move(probe).error();
  descriptor.probe = *probe;
  return {};
}

/// Unless this rank is not prepared, maps the regions of the other ranks.
Status Domain::map(const host::SlotChannel& channel) {
  std::vector<Descriptor> descriptors(static_cast<size_t>(comm_.size()));
  for (int rank = 0; rank < comm_.size(); ++rank)
    std::memcpy(&descriptors[static_cast<size_t>(rank)], channel.slot_area(rank).setup.data,
                sizeof(Descriptor));
  std::vector<RankGpu> gpus;
  for (const Descriptor& descriptor : descriptors) gpus.push_back(descriptor.gpu);
  int device = -1;  // unknown
  if (resources_.region != nullptr)
    device = resources_.region->memory.device;
  else if (const auto found = device::find_device(gpus[static_cast<size_t>(comm_.rank())].id))
    device = *found;
  resources_.max_blocks = record_sharing(gpus, comm_.rank(), device);  // equal on all ranks
  WEFT_TRY(std::move(mapped_));
  epoch_ = 0;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const Descriptor& descriptor = descriptors[static_cast<size_t>(rank)];
    if (descriptor.good == 0)
      return Error(Errc::unsupported,
                   "rank " + std::to_string(rank) + " cannot run collective kernels: see its log");
    if (descriptor.bytes != device::collective_region_bytes())
      return Error(Errc::unsupported,
                   "WEFT_COLL_GPU_REGION_BYTES differs between ranks: set the same value on all");
    epoch_ = std::max(epoch_, descriptor.epoch);
  }
  WEFT_TRY(check_sharing(gpus));
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (rank == comm_.rank()) {
      resources_.regions[at] = resources_.region->address;
      continue;
    }
    auto mapping = comm_.instance.memory->open(comm_.process(rank), descriptors[at].region,
                                               &descriptors[at].probe, resources_.region->memory);
    if (!mapping) return std::move(mapping).error();
    resources_.mappings.push_back(*mapping);
    WEFT_ASSERT((*mapping)->contains(descriptors[at].address, descriptors[at].bytes));
    resources_.regions[at] = reinterpret_cast<uint64_t>((*mapping)->at(descriptors[at].address));
  }
  std::vector<device::GpuId> ids;
  for (const RankGpu& gpu : gpus) ids.push_back(gpu.id);
  if (device::all_have_nvlink(ids)) links_ = kLinked;
  return {};
}

void Domain::set_stage(Stage stage, host::SlotChannel& channel) {
  stage_ = stage;
  channel.slot_area(comm_.rank()).setup.stage.store(stage_word(stage) | links_, std::memory_order_release);
  channel.wake_peers();
}

bool Domain::all_at(Stage stage, const host::SlotChannel& channel) const {
  for (int rank = 0; rank < comm_.size(); ++rank)
    if (channel.slot_area(rank).setup.stage.load(std::memory_order_acquire) < stage_word(stage)) return false;
  return true;
}

void Domain::publish_descriptor(const device::Memory& near, host::SlotChannel& channel) {
  channel_ = &channel;
  Descriptor own{};
  mapped_ = prepare(near, own);
  own.good = mapped_.ok() ? 1 : 0;
  static_assert(sizeof(Descriptor) <= host::kSetupBytes);
  std::memcpy(channel.slot_area(comm_.rank()).setup.data, &own, sizeof own);
  set_stage(Stage::published, channel);
}

/// After publish_descriptor(): returns true once all ranks have mapped the regions or failed to.
bool Domain::all_ranks_prepared(host::SlotChannel& channel) {
  if (stage_ == Stage::published) {
    if (!all_at(Stage::published, channel)) return false;
    mapped_ = map(channel);
    set_stage(mapped_.ok() ? Stage::mapped : Stage::failed, channel);
  }
  if (!all_at(Stage::mapped, channel)) return false;
  finish_connect(channel);
  return true;
}

bool Domain::connect(const device::Memory& near, host::SlotChannel& channel) {
  if (state_ != State::unknown) return true;
  if (stage_ == Stage::nothing) publish_descriptor(near, channel);
  return all_ranks_prepared(channel);
}

/// All ranks have published the outcome; a rank without an error publishes kLinked as before.
void Domain::finish_connect(const host::SlotChannel& channel) {
  stage_ = Stage::nothing;
  if (!mapped_.ok()) return fail(mapped_.error().message());
  resources_.linked = true;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const uint32_t published = channel.slot_area(rank).setup.stage.load(std::memory_order_acquire);
    if ((published & ~kLinked) == stage_word(Stage::failed))
      return fail("another rank of the communicator cannot run collective kernels: see its log");
    resources_.linked = resources_.linked && (published & kLinked) != 0;
  }
  configure_slot();
  state_ = State::open;
}

Status Domain::connect_now(const device::Memory& near, host::SlotChannel& channel) {
  core::wait_until(comm_.instance, [&] { return connect(near, channel) || channel.check_ranks(); });
  return channel.broken() ? Status(channel.failure()) : Status();
}

/// The timeout differs between ranks: kernels started in different orders on the GPUs would otherwise keep
/// exiting and relaunching in lockstep.
uint64_t Domain::own_timeout_ns() const {
  return timeout_ns + timeout_ns / 8 * static_cast<uint64_t>(comm_.rank());
}

void Domain::configure_slot() {
  device::kernel::Collective config{};
  std::copy(resources_.regions.begin(), resources_.regions.end(), config.regions);
  config.rank = static_cast<uint32_t>(comm_.rank());
  config.size = static_cast<uint32_t>(comm_.size());
  config.blocks = 1;
  config.timeout_ns = own_timeout_ns();
  resources_.slot.set_config(config);
}

/// Before the 32-bit epochs wrap, each rank clears its region: after all pushes of the call have arrived, and
/// before this rank enters the next call.
Status Domain::restart_epochs() {
  if (epoch_ < max_epoch) return {};
  epoch_ = resources_.region->epoch = 0;
  resources_.slot.clear_outcome();
  return clear(*resources_.region);
}

void Domain::begin(Plan& plan) {
  WEFT_ASSERT(all_ended(calls_));  // G5
  ++epoch_;
  ++calls_;
  running_ = &plan;
  launches_ = 0;
  if (Status started = start(); !started.ok()) fail_call(std::move(started).error());
}

Status Domain::start() {
  if (!running_->unable.ok()) return running_->unable.error().copy();
  std::copy(resources_.regions.begin(), resources_.regions.end(), running_->collective.regions);
  if (running_->staged_output) WEFT_TRY(stage_output(*running_));
  return ring() ? Status() : launch();
}

/// Rings the doorbell of the resident kernel, if it runs.
bool Domain::ring() {
  const Plan& plan = *running_;
  if (plan.command)
    return resources_.slot.submit_to_resident_kernel(*plan.command, plan.protocol, epoch_,
                                                     plan.doorbell_blocks);
  if (plan.doorbell_blocks != 0) resources_.slot.record_resident_demand(plan.doorbell_blocks);
  return false;
}

/// After a launch that the resident kernel could have replaced: starts the resident kernel for the next
/// calls. A long call starts it only near its end, lest the idle timeout expire first.
void Domain::start_resident_kernel() {
  resident_start_at_ = 0;
  resources_.slot.start_resident_kernel();
}

/// The call has failed on this rank, whose kernel has ended or cannot start, or on another one. Publishes a
/// failure of this rank's own: the kernels of the peers time out, and before a relaunch the peers see it and
/// end the call. No rank begins another call before.
void Domain::fail_call(Error error) {
  host::SlotArea& own = channel_->slot_area(comm_.rank());
  if (check_peers().ok()) own.failed.store(calls_, std::memory_order_release);
  own.ended.store(calls_, std::memory_order_release);
  channel_->wake_peers();
  failure_ = std::move(error);
  peers_deadline_ns_ = 0;
}

/// This rank has all that its peers push to it, or no peer pushes any more.
void Domain::end_call() {
  running_ = nullptr;
  channel_->slot_area(comm_.rank()).ended.store(calls_, std::memory_order_release);
}

/// Whether no kernel of any rank stores anything of a call any more.
bool Domain::all_ended(uint64_t call) const {
  for (int rank = 0; rank < comm_.size(); ++rank)
    if (const host::SlotArea& area = channel_->slot_area(rank);
        area.ended.load(std::memory_order_acquire) < call &&
        area.broken.load(std::memory_order_acquire) == 0 &&
        !comm_.instance.failures.failed(comm_.process(rank)))
      return false;
  return true;
}

/// After a failure. If a rank has died, a rank that does not call MPI is not awaited for ever.
bool Domain::peers_ended() {
  if (all_ended(calls_)) return true;
  if (!channel_->check_ranks()) return false;
  if (peers_deadline_ns_ == 0) peers_deadline_ns_ = monotonic_ns() + kPeerKernelsNs;
  return monotonic_ns() > peers_deadline_ns_;
}

/// Called only while no kernel of this rank runs: SlotArea::broken says so to the peers.
Status Domain::check_peers() const {
  if (channel_->check_ranks()) return channel_->failure();
  for (int rank = 0; rank < comm_.size(); ++rank)
    if (channel_->slot_area(rank).failed.load(std::memory_order_acquire) == calls_)
      return Error(Errc::other, "the GPU of rank " + std::to_string(rank) +
                                    " failed in this collective: see its error message");
  return {};
}

Status Domain::launch() {
  device::kernel::Collective& collective = running_->collective;
  collective.epoch = epoch_;
  collective.timeout_ns = own_timeout_ns();
  collective.launch = launches_;
  if (running_->pairs != nullptr) {
    device::kernel::PairBlocks& pairs = *running_->pairs;
    std::copy(resources_.regions.begin(), resources_.regions.end(), pairs.regions);
    pairs.epoch = epoch_;
    pairs.timeout_ns = own_timeout_ns();
    pairs.launch = launches_;
    return resources_.slot.launch(pairs);
  }
  if (running_->layouts != nullptr) {
    running_->layouts->call = collective;
    return resources_.slot.launch(*running_->layouts, running_->blocks, running_->threads);
  }
  if (running_->direct) {
    running_->direct->call = collective;
    return resources_.slot.launch(*running_->direct, running_->blocks, running_->threads);
  }
  WEFT_TRY(resources_.slot.launch(collective, running_->protocol, running_->blocks, running_->threads));
  if (running_->command)
    start_resident_kernel();
  else if (running_->doorbell_blocks != 0)
    resident_start_at_ = monotonic_ns() + kResidentStartDelayNs;
  return {};
}

/// Redirects the output of an in-place call to staging memory.
Status Domain::stage_output(Plan& plan) {
  if (!staging_ || staging_.memory().size < plan.staged_output->bytes)
    WEFT_TRY(reserve(plan.memory, plan.staged_output->bytes));
  for (uint32_t rank = 0; rank < plan.collective.size; ++rank)
    plan.collective.recv[rank].address = staging_.memory().base;
  return {};
}

Status Domain::reserve(const device::Memory& near, uint64_t bytes) {
  auto leased = device::Workspace::lease(near, bytes);
  if (!leased) return std::move(leased).error();
  staging_ = std::move(*leased);
  return {};
}

/// After the kernel, and after the copy of staged output: this rank is ready for the next call.
Result<bool> Domain::finish() {
  if (running_->staged_output && !copy_.pending() && staging_) {
    auto copied =
        device::copy_async(reinterpret_cast<void*>(running_->staged_output->address), running_->memory,
                           reinterpret_cast<const void*>(staging_.memory().base), staging_.memory(),
                           running_->staged_output->bytes, device::StreamRole::local);
    if (!copied) return std::move(copied).error();
    copy_ = std::move(*copied);
  }
  if (copy_.pending()) {
    auto done = device::done(copy_);
    if (!done || !*done) return done;
  }
  staging_ = {};
  WEFT_TRY(restart_epochs());
  return true;
}

/// A call that has failed ends when no peer stores anything of it any more: the caller may free its buffers,
/// and another communicator may get the region.
Result<bool> Domain::poll() {
  if (failure_.ok()) {
    auto over = check_outcome();
    if (over) {
      if (*over) end_call();
      return *over;
    }
    fail_call(std::move(over).error());
  }
  if (!peers_ended()) return false;
  Status failure = std::exchange(failure_, {});
  // All ranks count epochs alike, whether the call fails on them or not.
  if (!channel_->broken()) static_cast<void>(restart_epochs());
  end_call();
  return std::move(failure).error();
}

Result<bool> Domain::check_outcome() {
  if (copy_.pending()) return finish();
  auto outcome = resources_.slot.poll();
  if (!outcome) return std::move(outcome).error();
  switch (*outcome) {
    case CollectiveSlot::Outcome::running:
      if (resident_start_at_ != 0 && monotonic_ns() >= resident_start_at_) start_resident_kernel();
      return false;
    case CollectiveSlot::Outcome::timed_out:
      ++launches_;
      break;
    case CollectiveSlot::Outcome::not_started:
      break;
    case CollectiveSlot::Outcome::complete:
      if (resident_start_at_ != 0) start_resident_kernel();
      return finish();
  }
  Status launched = check_peers();
  if (launched.ok()) launched = launch();
  if (!launched.ok()) return std::move(launched).error();
  return false;
}

}  // namespace weft::coll::gpu
