// SPDX-License-Identifier: BSD-3-Clause
// Agreement: what every rank says about a call, from which all draw the same conclusion, since all have to go
// the same way. Threading: under the instance lock.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "coll/call.hpp"
#include "coll/gpu/domain.hpp"
#include "coll/gpu/plan.hpp"

namespace weft::coll::gpu {

/// What a rank says; of calls whose messages differ in length, with what it sends and awaits.
struct Statement {
  uint64_t largest = 0, bytes = 0;
  uint32_t busy = 0;    ///< calls under way that kernels may do
  uint32_t places = 0;  ///< bits: free for persistent calls
  Side side = Side::nothing;
  Domain::State state = Domain::State::unknown;
  uint8_t awake = 0;  ///< its copier can share the call among its blocks now
  Amounts amounts{};

  /// As much of it as is to be told.
  [[nodiscard]] static size_t size(const Call& call) {
    return regular(call) ? offsetof(Statement, amounts) : sizeof(Statement);
  }
};

enum class Way : uint8_t {
  host,     ///< no operand is in GPU memory: by shared memory
  kernels,  ///< all are, in a domain or where one can be made
  messages,
  mismatch  ///< by no way: what is sent is not what is awaited
};
struct Agreement {
  Way way = Way::messages;
  uint64_t largest = 0;    ///< bytes of the largest message of all ranks
  uint32_t places = 0;     ///< free on all ranks
  bool idle = false;       ///< no rank has calls under way
  bool awake = false;      ///< the copiers of all ranks are
  device::Memory memory;   ///< of an operand of this rank
  int from = -1, to = -1;  ///< mismatch
  uint64_t sent = 0, awaited = 0;
  [[nodiscard]] Error mismatch(const Call& call) const;
};

/// What this rank has to say. Reserves what the call needs besides: allocations wait for running kernels.
[[nodiscard]] Statement statement_of(const Call& call, Domain& domain, device::Memory& memory);

/// Draws the conclusion from the statements of all, which have to stay where they are until then. Sees no
/// state of this rank: progress of earlier calls may change it while statements arrive, on each rank at
/// another time.
class Judge {
 public:
  /// `later`: the call takes its turn among others, rather than to be run now.
  Judge(const Call& call, bool later) : call_(call), later_(later) {}
  void hear(int rank, const std::byte* statement);
  [[nodiscard]] Agreement verdict() const;

 private:
  [[nodiscard]] bool matches(Agreement& result) const;
  const Call& call_;
  const bool later_;
  std::array<const std::byte*, device::kernel::Collective::kRanks> said_{};
  bool host_ = true, kernels_ = true, some_ = false, idle_ = true, awake_ = true;
  bool unopened_ = true, open_ = true;  // all published Domain::State::unknown, or all open
  uint64_t largest_ = 0;
  uint32_t places_ = UINT32_MAX;
};

/// What a rank says besides in agree().
struct Besides {
  uint32_t busy = 0, places = 0;
  bool later = false;  ///< Judge
};
/// One step of a channel in which all ranks speak and hear. When it is over all have arrived.
[[nodiscard]] Agreement agree(const Call& call, shared::Channel& channel, Domain& domain,
                              const Besides& besides);

}  // namespace weft::coll::gpu
