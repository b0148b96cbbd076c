// SPDX-License-Identifier: BSD-3-Clause
// Agreement: every rank publishes a vote about a call, and all ranks reduce the votes to the same decision.
// Threading: under the instance lock.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "coll/gpu/domain.hpp"
#include "coll/gpu/plan.hpp"
#include "coll/schedule/call.hpp"

namespace weft::coll::gpu {

/// The vote of one rank. `amounts` is published only for calls with blocks of different sizes, unless `even`.
struct Vote {
  uint64_t largest = 0, bytes = 0;
  uint32_t busy = 0;        ///< unfinished calls that kernels may execute
  uint32_t free_slots = 0;  ///< bit mask: free slots for persistent calls
  Location location = Location::nothing;
  Domain::State state = Domain::State::unknown;
  uint8_t resident_running = 0;  ///< its resident kernel runs with all its blocks
  Layouts layouts = Layouts::contiguous;
  uint8_t even = 0;  ///< all messages of this rank have `largest` bytes
  Amounts amounts{};

  /// Bytes of the vote to publish.
  [[nodiscard]] size_t size(const Call& call) const {
    return regular(call) || even != 0 ? offsetof(Vote, amounts) : sizeof(Vote);
  }
};

enum class AgreedPath : uint8_t {
  host,     ///< no operand is in GPU memory: shared memory
  kernels,  ///< all operands are, and the domain is open or can be opened
  messages,
  mismatch  ///< error: bytes sent and expected differ
};
struct Agreement {
  AgreedPath path = AgreedPath::messages;
  uint64_t largest = 0;                   ///< largest message of any rank, in bytes
  uint32_t free_slots = 0;                ///< free on all ranks
  bool idle = false;                      ///< no rank has unfinished calls
  bool resident_running = false;          ///< the resident kernels of all ranks run
  Layouts layouts = Layouts::contiguous;  ///< of all ranks
  device::Memory memory;                  ///< of an operand of this rank
  int from = -1, to = -1;                 ///< of the mismatch
  uint64_t sent = 0, expected = 0;
  [[nodiscard]] Error mismatch(const Call& call) const;
};

/// Returns the vote of this rank. Reserves staging memory in advance, since allocations wait for running
/// kernels.
[[nodiscard]] Vote vote_of(const Call& call, Domain& domain, device::Memory& memory);

/// Reduces the votes of all ranks to a decision. The votes must stay in place until result(). Reads no state
/// of this rank: progress of earlier calls may change the state while votes arrive, on each rank at another
/// time.
class VoteReduction {
 public:
  /// `queued`: the call enters the collective queue instead of running now.
  VoteReduction(const Call& call, bool queued) : call_(call), queued_(queued) {}
  void add(int rank, const std::byte* vote);
  [[nodiscard]] Agreement result() const;

 private:
  [[nodiscard]] bool matches(Agreement& result) const;
  const Call& call_;
  const bool queued_;
  std::array<const std::byte*, device::kernel::Collective::kRanks> votes_{};
  bool host_ = true, kernels_ = true, any_ = false, idle_ = true, resident_running_ = true;
  bool unopened_ = true, open_ = true;  // all ranks published Domain::State::unknown, or all State::open
  uint64_t largest_ = 0;
  uint32_t free_slots_ = UINT32_MAX;
  Layouts layouts_ = Layouts::contiguous;
};

/// Arguments that reduce_votes() adds to the vote.
struct VoteOptions {
  uint32_t busy = 0, free_slots = 0;
  bool queued = false;  ///< as in VoteReduction
};
/// Collective: publishes this rank's vote in one step of `channel` and reduces the votes of all ranks. When
/// the step is over, all ranks have entered the call.
[[nodiscard]] Agreement reduce_votes(const Call& call, host::SlotChannel& channel, Domain& domain,
                                     const VoteOptions& options);

}  // namespace weft::coll::gpu
