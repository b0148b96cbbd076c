// SPDX-License-Identifier: BSD-3-Clause
// Domain: exchanging areas, and the life of a call's kernels.
#include "coll/gpu/domain.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "coll/gpu/plan.hpp"
#include "device/info.hpp"
#include "p2p/p2p.hpp"

namespace weft::coll::gpu {
namespace {

using device::CollectivePort;
using transport::cuda_ipc::Probe;
using transport::cuda_ipc::Region;

log::SlowPath no_domain{"coll.device_refused",
                        "collectives on GPU memory go by messages, small ones 2 to 5 times slower"};

log::SlowPath no_more{"coll.device_small_area",
                      "large collectives on GPU memory take up to half as long again"};

config::Size patience{
    "coll.device_patience", 100'000, 1'000, 1'000'000'000,
    "nanoseconds that a collective's kernel waits for other ranks before it leaves the GPU, "
    "to be started again"};
config::Size epochs{"coll.device_epochs", 0xfffff000, 2, 0xfffff000,
                    "collectives on device buffers after which a communicator's scratch is cleared"};

constexpr uint64_t kWakeAfter = 6'000;  // ns from a launch of pieces to that of a copier
constexpr int kSpins = 2000;            // looks at a running kernel before anything else is progressed

}  // namespace

/// What a rank tells the others once.
struct Domain::Offer {
  uint32_t good, epoch;
  device::Uuid device;
  Region region;
  Probe probe;
};

void Domain::release(Ground& ground) {
  for (auto* mapping : ground.mappings) p2p::importer(comm_.instance).release(mapping);
  if (ground.area != nullptr) ground.area->leased = false;
  ground = {};
}

Domain::~Domain() {
  if (state_ != State::open || comm_.instance.gpu_scratch == nullptr) return;  // or MPI is over
  ground_.area->epoch = std::max(ground_.area->epoch, epoch_);
  release(ground_);
}

/// Nothing to work with, or no more than before.
void Domain::fail(const std::string& reason) {
  release(next_);
  if (state_ == State::open) return no_more.hit(reason);
  no_domain.hit(reason);
  state_ = State::refused;
}

Status Domain::prepare(const device::Memory& near, uint64_t pieces, Offer& offer) {
  auto port = CollectivePort::open(near);
  if (!port) return std::move(port).error();
  next_.port = std::move(*port);
  auto area = Scratch::of(comm_.instance).lease(near, pieces);
  if (!area) return std::move(area).error();
  next_.area = *area;
  offer.epoch = next_.area->epoch;
  auto uuid = device::uuid_of(near.device);
  if (!uuid) return std::move(uuid).error();
  offer.device = *uuid;
  auto& exporter = p2p::exporter(comm_.instance);
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank == comm_.rank()) continue;
    auto region = exporter.export_region(next_.area->memory, comm_.process(rank));
    if (!region) return std::move(region).error();
    offer.region = *region->region;
  }
  auto probe = exporter.probe(next_.area->memory);
  if (!probe) return std::move(probe).error();
  offer.probe = *probe;
  return {};
}

/// What the others have offered.
Status Domain::map(const shared::Channel& channel) {
  std::vector<Offer> offers(static_cast<size_t>(comm_.size()));
  for (int rank = 0; rank < comm_.size(); ++rank)
    std::memcpy(&offers[static_cast<size_t>(rank)], channel.lane(rank).card.data, sizeof(Offer));
  next_epoch_ = 0;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const Offer& offer = offers[static_cast<size_t>(rank)];
    if (offer.good == 0)
      return Error(Errc::unsupported, "rank " + std::to_string(rank) + " cannot: see its log");
    if (offer.region.size != next_.area->memory.size)
      return Error(Errc::unsupported,
                   "WEFT_COLL_DEVICE_AREA or _AREA_LARGE differs between ranks: set it alike");
    next_epoch_ = std::max(next_epoch_, offer.epoch);
    for (int other = 0; other < rank; ++other)
      if (offers[static_cast<size_t>(other)].device == offer.device)
        return Error(Errc::unsupported, "ranks " + std::to_string(other) + " and " + std::to_string(rank) +
                                            " use the same GPU, where kernels that wait for each other would "
                                            "take turns: give each rank a GPU of its own");
  }
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (rank == comm_.rank()) {
      next_.areas[at] = next_.area->memory.base;
      continue;
    }
    auto mapping = p2p::importer(comm_.instance)
                       .open(comm_.process(rank), offers[at].region, &offers[at].probe, next_.area->memory);
    if (!mapping) return std::move(mapping).error();
    next_.mappings.push_back(*mapping);
    next_.areas[at] = reinterpret_cast<uint64_t>((*mapping)->at(offers[at].region.base));
  }
  if (generation_ == 0 && all_linked(offers)) links_ = kLinked;
  return {};
}

/// As this rank's driver reports every pair.
bool Domain::all_linked(const std::vector<Offer>& offers) {
  std::vector<int> devices;
  for (const Offer& offer : offers) {
    const auto device = device::find_device(offer.device);
    if (!device) return false;
    devices.push_back(*device);
  }
  return device::all_have_nvlink(devices);
}

void Domain::show(Stage stage, shared::Channel& channel) {
  stage_ = stage;
  channel.lane(comm_.rank()).card.stage.store(told(stage) | links_, std::memory_order_release);
  channel.tell();
}

bool Domain::all_at(Stage stage, const shared::Channel& channel) const {
  for (int rank = 0; rank < comm_.size(); ++rank)
    if (channel.lane(rank).card.stage.load(std::memory_order_acquire) < told(stage)) return false;
  return true;
}

void Domain::offer(const device::Memory& near, uint64_t pieces, shared::Channel& channel) {
  channel_ = &channel;
  Offer own{};
  mapped_ = prepare(near, pieces, own);
  own.good = mapped_.ok() ? 1 : 0;
  static_assert(sizeof(Offer) <= transport::shm::kCardBytes);
  std::memcpy(channel.lane(comm_.rank()).card.data, &own, sizeof own);
  show(Stage::offered, channel);
}

/// After offer(): true once all have mapped, or have not been able to.
bool Domain::prepared(shared::Channel& channel) {
  if (stage_ == Stage::offered) {
    if (!all_at(Stage::offered, channel)) return false;
    if (mapped_.ok()) mapped_ = map(channel);
    show(mapped_.ok() ? Stage::mapped : Stage::failed, channel);
  }
  if (!all_at(Stage::mapped, channel)) return false;
  conclude(channel);
  return true;
}

bool Domain::connect(const device::Memory& near, shared::Channel& channel) {
  if (state_ != State::unknown) return true;
  if (stage_ == Stage::nothing) offer(near, area_data(), channel);
  return prepared(channel);
}

/// All have published whether they could. A rank that goes on publishes kLinked as before.
void Domain::conclude(const shared::Channel& channel) {
  stage_ = Stage::nothing;
  if (!mapped_.ok()) return fail(mapped_.error().message());
  next_.linked = true;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const uint32_t published = channel.lane(rank).card.stage.load(std::memory_order_acquire);
    if ((published & ~kLinked) == told(Stage::failed))
      return fail("another rank of the communicator cannot: see its log");
    next_.linked = next_.linked && (published & kLinked) != 0;
  }
  if (state_ == State::open) {
    ground_.area->epoch = std::max(ground_.area->epoch, epoch_);
    release(ground_);
  }
  ground_ = std::exchange(next_, {});
  ahead_largest_ = 0;
  epoch_ = next_epoch_;
  settle();
  state_ = State::open;
}

/// Large messages get a larger area, once.
void Domain::connect_now(const device::Memory& near, uint64_t largest, shared::Channel& channel) {
  core::Instance& instance = comm_.instance;
  core::wait_until(instance, [&] { return connect(near, channel); });
  if (state_ != State::open || generation_ != 0 || !wants_large_area(largest)) return;
  generation_ = 1;
  offer(ground_.area->memory, large_area_data(), channel);
  core::wait_until(instance, [&] { return prepared(channel); });
}

/// Differs between ranks: kernels that have started in another order on every GPU would else take turns in
/// step.
uint64_t Domain::own_patience() const {
  return patience + patience / 8 * static_cast<uint64_t>(comm_.rank());
}

void Domain::settle() {
  device::kernel::Collective home{};
  std::copy(ground_.areas.begin(), ground_.areas.end(), home.areas);
  home.rank = static_cast<uint32_t>(comm_.rank());
  home.size = static_cast<uint32_t>(comm_.size());
  home.blocks = 1;
  home.patience = own_patience();
  ground_.port.settle(home);
}

/// Flags of 32 bits come round: before that each rank clears its area, when all that others push there has
/// come, and before it arrives in the next call.
Status Domain::renew() {
  if (epoch_ < epochs) return {};
  epoch_ = 0;
  ground_.area->epoch = 0;
  return clear(*ground_.area);
}

Status Domain::begin(Plan& plan) {
  ++epoch_;
  ++calls_;
  running_ = &plan;
  launches_ = 0;
  std::copy(ground_.areas.begin(), ground_.areas.end(), plan.collective.areas);
  Status begun = plan.aside ? put_aside(plan) : Status();
  if (begun.ok() && !ring()) begun = launch();
  if (!begun.ok()) give_up();
  return begun;
}

/// By the copier, when it is awake.
bool Domain::ring() {
  const Plan& plan = *running_;
  if (plan.small) return ground_.port.ring(*plan.small, plan.wire, epoch_, plan.bells);
  if (plan.bells != 0) ground_.port.want_copier(plan.bells);
  return false;
}

/// After a launch that the copier could have spared: the next call may be for it. Its life must not be over
/// then, so it begins when a long call is about to end.
void Domain::wake_copier() {
  wake_at_ = 0;
  ground_.port.wake_copier();
}

/// This rank's kernel cannot be started, or has failed. The others' kernels, which may need what it would
/// have pushed, leave when they have waited long enough; their ranks then see this and end the call, too. No
/// rank begins another one before.
void Domain::give_up() {
  running_ = nullptr;
  channel_->lane(comm_.rank()).failed.store(calls_, std::memory_order_release);
  channel_->tell();
}

Status Domain::others_go_on() const {
  for (int rank = 0; rank < comm_.size(); ++rank)
    if (channel_->lane(rank).failed.load(std::memory_order_acquire) == calls_)
      return Error(Errc::other, "the GPU of rank " + std::to_string(rank) +
                                    " failed in this collective: its own error says why");
  return {};
}

Status Domain::launch() {
  device::kernel::Collective& collective = running_->collective;
  collective.epoch = epoch_;
  collective.patience = own_patience();
  collective.launch = launches_;
  if (running_->direct) {
    running_->direct->call = collective;
    return ground_.port.launch(*running_->direct, running_->blocks, running_->threads);
  }
  WEFT_TRY(ground_.port.launch(collective, running_->wire, running_->blocks, running_->threads));
  if (running_->small)
    wake_copier();
  else if (running_->bells != 0)
    wake_at_ = monotonic_ns() + kWakeAfter;
  return {};
}

/// The output of a call in place goes elsewhere first.
Status Domain::put_aside(Plan& plan) {
  if (!aside_ || aside_.memory().size < plan.aside->bytes) WEFT_TRY(reserve(plan.memory, plan.aside->bytes));
  for (uint32_t rank = 0; rank < plan.collective.size; ++rank)
    plan.collective.recv[rank].address = aside_.memory().base;
  return {};
}

Status Domain::reserve(const device::Memory& near, uint64_t bytes) {
  auto leased = device::Workspace::lease(near, bytes);
  if (!leased) return std::move(leased).error();
  aside_ = std::move(*leased);
  return {};
}

/// The kernel is done, and the copy of what was put aside; then this rank is ready for the next call.
Result<bool> Domain::finish() {
  if (running_->aside && !copy_.pending() && aside_) {
    auto copied = device::copy_async(reinterpret_cast<void*>(running_->aside->address), running_->memory,
                                     reinterpret_cast<const void*>(aside_.memory().base), aside_.memory(),
                                     running_->aside->bytes, device::Lane::local);
    if (!copied) return std::move(copied).error();
    copy_ = std::move(*copied);
  }
  if (copy_.pending()) {
    auto done = device::done(copy_);
    if (!done || !*done) return done;
  }
  aside_ = {};
  Status renewed = renew();
  if (!renewed.ok()) return std::move(renewed).error();
  return true;
}

Result<bool> Domain::poll() {
  auto over = look();
  if (!over && others_go_on().ok())
    give_up();
  else if (!over || *over)
    running_ = nullptr;
  return over;
}

Result<bool> Domain::look() {
  if (copy_.pending()) return finish();
  auto outcome = ground_.port.look();
  if (!outcome) return std::move(outcome).error();
  switch (*outcome) {
    case CollectivePort::Outcome::running:
      if (wake_at_ != 0 && monotonic_ns() >= wake_at_) wake_copier();
      return false;
    case CollectivePort::Outcome::late:
      ++launches_;
      break;
    case CollectivePort::Outcome::untouched:
      break;
    case CollectivePort::Outcome::complete:
      if (wake_at_ != 0) wake_copier();
      return finish();
  }
  Status launched = others_go_on();
  if (launched.ok()) launched = launch();
  if (!launched.ok()) return std::move(launched).error();
  return false;
}

Plan Domain::plan(const Call& call, uint64_t largest, bool awake) const {
  Room room = Room::of_area(static_cast<uint32_t>(call.size), ground_.linked,
                            ground_.area->memory.size - device::kernel::Area::kCleared);
  room.awake = awake;
  return make_plan(call, largest, room);
}

bool Domain::prepare_direct(const Call& call, uint64_t largest, shared::Channel& channel) {
  prepared_.emplace();
  if (!direct_.prepare(call, largest, ground_.area->memory, channel, *prepared_)) prepared_.reset();
  return prepared_.has_value();
}

void Domain::plan_ahead(const Call& call, uint64_t largest, bool awake) {
  ahead_largest_ = 0;
  ahead_awake_ = awake;
  if (largest == 0 || state_ != State::open || wants_direct(call, largest)) return;
  ahead_ = plan(call, largest, awake);
  ahead_largest_ = largest;
}

Status Domain::run(const Call& call, uint64_t largest, bool awake) {
  if (largest == 0) return {};
  if (prepared_) {
    Plan own = *std::exchange(prepared_, std::nullopt);
    Status outcome = run(own);
    direct_.release();
    return outcome;
  }
  if (ahead_largest_ != largest || ahead_awake_ != awake) ahead_ = plan(call, largest, awake);
  ahead_largest_ = 0;
  return run(ahead_);
}

Status Domain::run(Plan& plan) {
  WEFT_TRY(begin(plan));
  Status outcome;
  const auto over = [&] {
    auto looked = poll();
    if (looked) return *looked;
    outcome = std::move(looked).error();
    return true;
  };
  for (int spins = comm_.instance.oversubscribed ? 1 : kSpins; spins > 0; --spins)
    if (over()) return outcome;
  core::wait_until(comm_.instance, over);
  return outcome;
}

}  // namespace weft::coll::gpu
