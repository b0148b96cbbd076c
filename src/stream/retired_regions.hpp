// SPDX-License-Identifier: BSD-3-Clause
// Retired regions: mailbox regions of communicators that have ended with an error, which a peer may still
// have mapped, and whose kernels may write to them. They are freed when no live process has them mapped any
// more. Threading: under the instance lock.
#pragma once
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/communicator.hpp"
#include "core/instance.hpp"
#include "device/memory.hpp"

namespace weft::stream {

class RetiredRegions {
 public:
  explicit RetiredRegions(core::Instance& instance);
  ~RetiredRegions();
  RetiredRegions(const RetiredRegions&) = delete;
  RetiredRegions& operator=(const RetiredRegions&) = delete;

  /// The mailbox of a communicator may map regions of its peers from now on.
  void begin_mapping(core::ContextId context) { mapping_.insert(context); }
  /// It has unmapped them, and maps none any more: answers the peers that have asked.
  void end_mapping(core::ContextId context);
  /// Takes the region of a communicator, after end_mapping() of its mailbox; asks the other members when they
  /// have unmapped it.
  void retire(const core::Communicator& comm, const device::Memory& region);
  /// Frees the regions that nobody has mapped. The driver may wait for running kernels.
  void free_unmapped();

 private:
  struct Region {
    core::ContextId context;
    device::Memory memory;
    std::unordered_set<core::ProcessId> mapped_by;
  };
  void unmapped_by(core::ContextId context, core::ProcessId process);
  [[nodiscard]] bool has_ended(core::ProcessId process) const;

  core::Instance& instance_;
  std::unordered_set<core::ContextId> mapping_;
  std::vector<std::pair<core::ContextId, core::ProcessId>> asked_;  // by peers; answered later
  std::vector<Region> regions_;
};

}  // namespace weft::stream
