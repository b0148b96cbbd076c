// SPDX-License-Identifier: BSD-3-Clause
// Domain: exchanging areas, and the life of a call's kernels.
#include "coll/gpu/domain.hpp"

#include <algorithm>

#include "base/config.hpp"
#include "base/log.hpp"
#include "coll/circle.hpp"
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

config::Size patience{
    "coll.device_patience", 100'000, 1'000, 1'000'000'000,
    "nanoseconds that a collective's kernel waits for other ranks before it leaves the GPU, "
    "to be started again"};
config::Size epochs{"coll.device_epochs", 0xfffff000, 2, 0xfffff000,
                    "collectives on device buffers after which a communicator's scratch is cleared"};

constexpr int kSpins = 2000;  // looks at a running kernel before anything else is progressed

}  // namespace

/// What a rank tells the others once.
struct Domain::Offer {
  uint32_t good, epoch;
  device::Uuid device;
  Region region;
  Probe probe;
};

Domain::~Domain() {
  if (state_ != State::open || comm_.instance.gpu_scratch == nullptr) return;  // or MPI is over
  for (auto* mapping : mappings_) p2p::importer(comm_.instance).release(mapping);
  area_->epoch = std::max(area_->epoch, epoch_);
  area_->leased = false;
}

void Domain::refuse(const std::string& reason) {
  no_domain.hit(reason);
  for (auto* mapping : mappings_) p2p::importer(comm_.instance).release(mapping);
  mappings_.clear();
  if (area_ != nullptr) area_->leased = false;
  area_ = nullptr;
  port_ = {};
  state_ = State::refused;
}

Status Domain::prepare(const device::Memory& near, Offer& offer) {
  auto port = CollectivePort::open(near);
  if (!port) return std::move(port).error();
  port_ = std::move(*port);
  auto area = Scratch::of(comm_.instance).lease(near);
  if (!area) return std::move(area).error();
  area_ = *area;
  offer.epoch = area_->epoch;
  auto uuid = device::uuid_of(near.device);
  if (!uuid) return std::move(uuid).error();
  offer.device = *uuid;
  auto& exporter = p2p::exporter(comm_.instance);
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank == comm_.rank()) continue;
    auto told = exporter.export_region(area_->memory, comm_.process(rank));
    if (!told) return std::move(told).error();
    offer.region = *told->region;
  }
  auto probe = exporter.probe(area_->memory);
  if (!probe) return std::move(probe).error();
  offer.probe = *probe;
  return {};
}

Status Domain::map(const std::vector<Offer>& offers) {
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const Offer& offer = offers[static_cast<size_t>(rank)];
    if (offer.good == 0)
      return Error(Errc::unsupported, "rank " + std::to_string(rank) + " cannot: see its log");
    if (offer.region.size != area_->memory.size)
      return Error(Errc::unsupported, "WEFT_COLL_DEVICE_AREA differs between ranks: set it alike");
    for (int other = 0; other < rank; ++other)
      if (offers[static_cast<size_t>(other)].device == offer.device)
        return Error(Errc::unsupported, "ranks " + std::to_string(other) + " and " + std::to_string(rank) +
                                            " use the same GPU, where kernels that wait for each other would "
                                            "take turns: give each rank a GPU of its own");
  }
  for (int rank = 0; rank < comm_.size(); ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (rank == comm_.rank()) {
      areas_[at] = area_->memory.base;
      continue;
    }
    auto mapping = p2p::importer(comm_.instance)
                       .open(comm_.process(rank), offers[at].region, &offers[at].probe, area_->memory);
    if (!mapping) return std::move(mapping).error();
    mappings_.push_back(*mapping);
    areas_[at] = reinterpret_cast<uint64_t>((*mapping)->at(offers[at].region.base));
  }
  return {};
}

Status Domain::connect(const device::Memory& near) {
  const auto size = static_cast<size_t>(comm_.size()), self = static_cast<size_t>(comm_.rank());
  std::vector<Offer> offers(size);
  Status own = prepare(near, offers[self]);
  offers[self].good = own.ok() ? 1 : 0;
  WEFT_TRY(Circle(comm_, comm_.next_collective_tag()).gather_all(offers.data(), sizeof(Offer)));
  if (own.ok()) own = map(offers);
  std::vector<uint32_t> mapped(size);
  mapped[self] = own.ok() ? 1 : 0;
  WEFT_TRY(Circle(comm_, comm_.next_collective_tag()).gather_all(mapped.data(), sizeof mapped[0]));
  if (std::find(mapped.begin(), mapped.end(), 0u) != mapped.end()) {
    refuse(own.ok() ? "another rank of the communicator cannot: see its log" : own.error().message());
    return {};
  }
  for (const Offer& offer : offers) epoch_ = std::max(epoch_, offer.epoch);
  settle();
  state_ = State::open;
  return {};
}

/// Differs between ranks: kernels that have started in another order on every GPU would else take turns in
/// step.
uint64_t Domain::own_patience() const {
  return patience + patience / 8 * static_cast<uint64_t>(comm_.rank());
}

void Domain::settle() {
  device::kernel::Collective home{};
  std::copy(areas_.begin(), areas_.end(), home.areas);
  home.rank = static_cast<uint32_t>(comm_.rank());
  home.size = static_cast<uint32_t>(comm_.size());
  home.blocks = 1;
  home.patience = own_patience();
  port_.settle(home);
}

/// Flags of 32 bits come round: before that all areas are cleared, while nobody writes there.
Status Domain::next_epoch(shared::Channel& channel) {
  if (++epoch_ <= epochs) return {};
  Status cleared = clear(*area_);
  channel.meet();
  epoch_ = 1;
  area_->epoch = 0;
  return cleared;
}

/// Waits for what was started last.
Result<CollectivePort::Outcome> Domain::finish() {
  core::Instance& instance = comm_.instance;
  int spins = instance.oversubscribed ? 1 : kSpins;
  for (unsigned rounds = 0;;) {
    auto outcome = port_.look();
    if (!outcome || *outcome != CollectivePort::Outcome::running) return outcome;
    if (spins > 0) {
      --spins;
    } else if (instance.progress()) {
      rounds = 0;
    } else {
      instance.idle(rounds);
    }
  }
}

Status Domain::run(const Call& call, uint64_t largest, shared::Channel& channel) {
  if (largest == 0) return {};
  WEFT_TRY(next_epoch(channel));
  Plan plan = make_plan(call, largest);
  uint32_t launches = 0;
  for (bool rung = plan.small && port_.ring(*plan.small, epoch_);; rung = false) {
    if (!rung) WEFT_TRY(launch(plan, launches));
    auto outcome = finish();
    if (!outcome) return std::move(outcome).error();
    if (*outcome == CollectivePort::Outcome::complete) return {};
    if (*outcome == CollectivePort::Outcome::late) ++launches;
  }
}

Status Domain::launch(Plan& plan, uint32_t number) {
  device::kernel::Collective& collective = plan.collective;
  std::copy(areas_.begin(), areas_.end(), collective.areas);
  collective.epoch = epoch_;
  collective.patience = own_patience();
  collective.launch = number;
  WEFT_TRY(port_.launch(collective, plan.wire, plan.blocks, plan.threads));
  if (plan.small) port_.wake_copier();
  return {};
}

}  // namespace weft::coll::gpu
