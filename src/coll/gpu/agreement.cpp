// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/agreement.hpp"

#include <algorithm>
#include <cstring>

#include "coll/gpu/plan.hpp"

namespace weft::coll::gpu {
namespace {

struct Record {
  uint64_t largest, vector;
  Side side;
};

/// As the others need to know it: GPU memory that kernels of this rank cannot work on is none.
Side usable(const Call& call, const Domain& domain) {
  const Side side = suits(call)                                      ? side_of(call)
                    : call.send.on_device() || call.recv.on_device() ? Side::other
                                                                     : Side::host;
  if (side != Side::device) return side;
  if (domain.state() == Domain::State::refused) return Side::other;
  const auto fits = [&](const Operand& operand) {
    return !operand.on_device() || domain.state() == Domain::State::unknown || domain.reaches(operand.memory);
  };
  return fits(call.send) && fits(call.recv) ? side : Side::other;
}

}  // namespace

Agreement agree(const Call& call, shared::Channel& channel, const Domain& domain) {
  Record own{0, call.bytes, usable(call, domain)};
  if (own.side == Side::device) own.largest = largest_message(call);
  const uint32_t step = channel.begin(1);
  std::memcpy(channel.claim(step, sizeof own), &own, sizeof own);
  channel.show(step, sizeof own);
  Agreement result;
  result.memory = call.send.on_device() ? call.send.memory : call.recv.memory;
  bool host = true, kernels = true, some = false;
  for (int rank = 0; rank < call.size; ++rank) {
    Record record;
    std::memcpy(&record, channel.await(rank, step).data, sizeof record);
    const bool nothing = record.side == Side::nothing;
    host = host && (nothing || record.side == Side::host);
    kernels = kernels && ((nothing && domain.state() == Domain::State::open) || record.side == Side::device);
    some = some || record.side == Side::device;
    result.largest = std::max(result.largest, record.largest);
  }
  channel.met(step);
  if (host)
    result.way = Way::host;
  else if (kernels && some && pays(call, result.largest))
    result.way = Way::kernels;
  return result;
}

}  // namespace weft::coll::gpu
