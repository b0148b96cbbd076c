// SPDX-License-Identifier: BSD-3-Clause
#include "coll/gpu/agreement.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "coll/gpu/direct_buffers.hpp"

namespace weft::coll::gpu {
namespace {

/// Location as published: GPU memory that kernels of this rank cannot access counts as `other`.
Location effective_location(const Call& call, Domain& domain, device::Memory& memory, Layouts& layouts) {
  if (call.failed != nullptr) return Location::other;
  if (!supports(call))
    return call.send.on_device() || call.recv.on_device() ? Location::other : Location::host;
  const Operands place = locate_operands(call);
  memory = place.memory;
  layouts = place.layouts;
  if (place.location != Location::device) return place.location;
  if (domain.state() == Domain::State::refused ||
      (domain.state() == Domain::State::open && !domain.reaches(memory)))
    return Location::other;
  const uint64_t staged_output = in_place_staging_bytes(call);
  if (staged_output != 0 && (domain.busy() || !domain.reserve(memory, staged_output))) return Location::other;
  return Location::device;
}

/// Returns whether all messages of a call with blocks of different sizes have the largest size.
bool is_even(const Call& call, const Vote& vote) {
  if (regular(call) || vote.largest == 0) return false;
  for (int rank = 0; rank < call.size; ++rank)
    if (vote.amounts.sent[rank] != vote.largest || vote.amounts.expected[rank] != vote.largest) return false;
  return true;
}

uint64_t number_at(const std::byte* vote, size_t offset, int i) {
  uint64_t number;
  std::memcpy(&number, vote + offset + static_cast<size_t>(i) * sizeof number, sizeof number);
  return number;
}

}  // namespace

Error Agreement::mismatch(const Call& call) const {
  return Error(Errc::truncate, std::string(name(call.what)) + ": rank " + std::to_string(from) + " sends " +
                                   std::to_string(sent) + " bytes where rank " + std::to_string(to) +
                                   " expects " + std::to_string(expected) +
                                   ": make counts and types of all ranks agree");
}

Vote vote_of(const Call& call, Domain& domain, device::Memory& memory) {
  Vote own;
  own.bytes = call.bytes;
  own.state = domain.state();
  own.location = effective_location(call, domain, memory, own.layouts);
  if (own.location != Location::device && own.location != Location::nothing) return own;
  if (supports(call) && !regular(call)) own.amounts = amounts_of(call);
  if (own.location == Location::device) {
    own.largest = largest_message(call, own.amounts);
    own.even = is_even(call, own) ? 1 : 0;
  }
  own.resident_running = domain.resident_running() ? 1 : 0;
  return own;
}

void VoteReduction::add(int rank, const std::byte* vote) {
  Vote peer_vote;
  std::memcpy(static_cast<void*>(&peer_vote), vote, offsetof(Vote, amounts));
  if (const auto at = static_cast<size_t>(rank); at < votes_.size())
    votes_[at] = vote;  // larger ranks only if !supports()
  const bool nothing = peer_vote.location == Location::nothing;
  host_ = host_ && (nothing || peer_vote.location == Location::host);
  unopened_ = unopened_ && peer_vote.state == Domain::State::unknown;
  open_ = open_ && peer_vote.state == Domain::State::open;
  kernels_ = kernels_ &&
             ((nothing && peer_vote.state == Domain::State::open) || peer_vote.location == Location::device);
  any_ = any_ || peer_vote.location == Location::device;
  idle_ = idle_ && peer_vote.busy == 0;
  resident_running_ = resident_running_ && peer_vote.resident_running != 0;
  largest_ = std::max(largest_, peer_vote.largest);
  layouts_ = std::max(layouts_, peer_vote.layouts);
  free_slots_ &= peer_vote.free_slots;
}

/// Returns whether each rank expects what its peers send.
bool VoteReduction::matches(Agreement& result) const {
  const auto differ = [&](int from, int to, uint64_t sent, uint64_t expected) {
    if (sent == expected) return false;
    result.from = from;
    result.to = to;
    result.sent = sent;
    result.expected = expected;
    return true;
  };
  const auto ranks = static_cast<int>(call_.size);
  if (regular(call_)) {
    for (int rank = 1; rank < ranks; ++rank)
      if (differ(0, rank, number_at(votes_[0], offsetof(Vote, bytes), 0),
                 number_at(votes_[static_cast<size_t>(rank)], offsetof(Vote, bytes), 0)))
        return false;
    return true;
  }
  constexpr size_t kSent = offsetof(Vote, amounts) + offsetof(Amounts, sent),
                   kExpected = offsetof(Vote, amounts) + offsetof(Amounts, expected);
  const auto amount = [&](int rank, size_t offset, int i) {
    const std::byte* const vote = votes_[static_cast<size_t>(rank)];
    const bool even = vote[offsetof(Vote, even)] != std::byte{0};
    return even ? number_at(vote, offsetof(Vote, largest), 0) : number_at(vote, offset, i);
  };
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      if (differ(from, to, amount(from, kSent, to), amount(to, kExpected, from))) return false;
  return true;
}

Agreement VoteReduction::result() const {
  Agreement result;
  result.largest = largest_;
  result.free_slots = free_slots_;
  result.idle = idle_;
  result.resident_running = resident_running_;
  result.layouts = layouts_;
  const bool free = idle_ ? unopened_ || open_ : queued_ && open_;
  if (host_)
    result.path = AgreedPath::host;
  else if (kernels_ && any_ && free &&
           (kernels_faster(call_, largest_, layouts_) ||
            (!queued_ && wants_direct_buffers(call_, largest_, layouts_))))
    result.path = matches(result) ? AgreedPath::kernels : AgreedPath::mismatch;
  return result;
}

Agreement reduce_votes(const Call& call, host::SlotChannel& channel, Domain& domain,
                       const VoteOptions& options) {
  device::Memory memory;
  Vote own = vote_of(call, domain, memory);
  own.busy = options.busy;
  own.free_slots = options.free_slots;
  const size_t size = own.size(call);
  const host::Step step = channel.reserve_steps(1);
  std::memcpy(channel.claim(step, size), &own, size);
  channel.publish(step, size);
  const bool plans =
      !options.queued && own.location == Location::device && own.layouts == Layouts::contiguous;
  domain.plan_early(call, plans ? own.largest : 0, own.resident_running != 0);
  VoteReduction votes(call, options.queued);
  for (int rank = 0; rank < call.size; ++rank) votes.add(rank, channel.wait_published(rank, step).data);
  channel.exchanged(step, step);
  Agreement result = votes.result();
  result.memory = memory;
  return result;
}

}  // namespace weft::coll::gpu
