// SPDX-License-Identifier: BSD-3-Clause
// Domain: plans of calls, and blocking calls.
#include <utility>

#include "coll/gpu/domain.hpp"

namespace weft::coll::gpu {
namespace {

constexpr int kMaxSpins = 2000;  // polls of a running kernel before other progress is made

}  // namespace

Plan Domain::plan(const Call& call, uint64_t largest, bool resident_running, Layouts layouts) const {
  RegionCapacity capacity =
      RegionCapacity::of_region(static_cast<uint32_t>(call.size), resources_.linked, region_data_bytes());
  capacity.resident_running = resident_running;
  capacity.max_blocks = resources_.max_blocks;
  if (layouts != Layouts::contiguous)
    return make_layouts_plan(call, largest, layouts, capacity, resources_.region->memory);
  return make_plan(call, largest, capacity);
}

bool Domain::prepare_direct_buffers(const Call& call, uint64_t largest, Layouts layouts,
                                    host::SlotChannel& channel) {
  prepared_.emplace();
  const device::Memory& near = resources_.region->memory;
  const bool able =
      stores_blocks(call, layouts)
          ? direct_buffers_.prepare_blocks(call, near, resources_.max_blocks, channel, *prepared_)
          : direct_buffers_.prepare(call, largest, near, resources_.max_blocks, channel, *prepared_);
  if (!able) prepared_.reset();
  return prepared_.has_value();
}

void Domain::plan_early(const Call& call, uint64_t largest, bool resident_running) {
  early_largest_ = 0;
  early_resident_running_ = resident_running;
  if (largest == 0 || state_ != State::open || wants_direct_buffers(call, largest)) return;
  early_plan_ = plan(call, largest, resident_running);
  early_largest_ = largest;
}

Status Domain::run(const Call& call, uint64_t largest, bool resident_running, Layouts layouts) {
  if (largest == 0) return {};
  if (prepared_) {
    Plan own = std::move(*prepared_);
    prepared_.reset();
    Status outcome = run(own);
    direct_buffers_.release();
    return outcome;
  }
  if (early_largest_ != largest || early_resident_running_ != resident_running ||
      layouts != Layouts::contiguous)
    early_plan_ = plan(call, largest, resident_running, layouts);
  early_largest_ = 0;
  return run(early_plan_);
}

Status Domain::run(Plan& plan) {
  begin(plan);
  Status outcome;
  const auto over = [&] {
    auto looked = poll();
    if (looked) return *looked;
    outcome = std::move(looked).error();
    return true;
  };
  for (int spins = comm_.instance.oversubscribed ? 1 : kMaxSpins; spins > 0; --spins)
    if (over()) return outcome;
  core::wait_until(comm_.instance, over);
  return outcome;
}

}  // namespace weft::coll::gpu
