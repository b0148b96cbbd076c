// SPDX-License-Identifier: BSD-3-Clause
// Hierarchy: blocking collectives of a communicator whose ranks are on several hosts, as collectives inside
// each host and among one leader of each. Inside hosts they go by shared memory or kernels, between them by
// messages. Threading: under the instance lock.
#pragma once
#include <vector>

#include "base/result.hpp"
#include "coll/call.hpp"
#include "core/communicator.hpp"

namespace weft::coll {

class Hierarchy final : public core::CollectiveState {
 public:
  explicit Hierarchy(core::Communicator& comm);
  /// Where a blocking call of a communicator on several hosts is done by hosts; null: by messages among all.
  /// Equal on all ranks. Counts calls; makes the communicators inside once there were some (collectively;
  /// errors are in `failed`).
  [[nodiscard]] static Hierarchy* of(const Call& call, Status& failed);
  /// Runs the call to its end.
  [[nodiscard]] Status run(const Call& call);

 private:
  [[nodiscard]] bool takes(const Call& call) const;
  [[nodiscard]] Status connect();
  [[nodiscard]] Status barrier();
  [[nodiscard]] Status bcast(const Call& call);
  [[nodiscard]] Status reduce(const Call& call);
  [[nodiscard]] Status allreduce(const Call& call);
  [[nodiscard]] Status allgather(const Call& call);
  [[nodiscard]] bool leads() const { return static_cast<bool>(leaders_); }

  core::Communicator& comm_;
  core::Ref<core::Communicator> local_, leaders_;  // leaders_: of leaders only
  std::vector<int> host_, place_;        // by rank: which host, as leaders are counted; rank inside it
  std::vector<int64_t> sizes_, firsts_;  // by host: ranks, the first of them
  bool worth_ = false;                   // several hosts, one of them with several ranks
  bool in_order_ = false;                // hosts follow each other in the order of ranks
  uint32_t calls_ = 0;
};

}  // namespace weft::coll
