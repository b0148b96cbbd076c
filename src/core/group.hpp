// SPDX-License-Identifier: BSD-3-Clause
// Group: an immutable ordered set of processes (MPI 5.0 section 7.3). A rank is a position in the group.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.hpp"
#include "base/slab.hpp"
#include "core/reference.hpp"
#include "core/session.hpp"

namespace weft::core {

/// A process of the job: its rank in MPI_COMM_WORLD and index in the instance's process table.
using ProcessId = uint32_t;
inline constexpr ProcessId kNoProcess = UINT32_MAX;

enum class Comparison { identical, congruent, similar, unequal };

/// A triplet of MPI_Group_range_incl: first, first + stride, ... up to and including last if it is reached.
struct RankRange {
  int first, last, stride;
};

class Group final : public Counted {
 public:
  /// `self`: this process, to determine its rank in the group.
  Group(std::vector<ProcessId> processes, ProcessId self);
  [[nodiscard]] int size() const { return static_cast<int>(processes_.size()); }
  /// Returns this process's rank, or -1 if it is no member (MPI_UNDEFINED in api/).
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] ProcessId process(int rank) const { return processes_[static_cast<size_t>(rank)]; }
  /// Returns the rank of a process, or -1.
  [[nodiscard]] int rank_of(ProcessId process) const;
  [[nodiscard]] const std::vector<ProcessId>& processes() const { return processes_; }
  [[nodiscard]] Comparison compare(const Group& other) const;  ///< identical, similar or unequal

  // Set operations (MPI 5.0 section 7.3.2). Each returns a new reference; an empty result is empty().
  // Errc::rank: a rank is out of range or named twice; Errc::no_mem: too many groups.
  [[nodiscard]] Result<Group*> include(std::span<const int> ranks) const;
  [[nodiscard]] Result<Group*> exclude(std::span<const int> ranks) const;
  [[nodiscard]] Result<Group*> include(std::span<const RankRange> ranges) const;
  [[nodiscard]] Result<Group*> exclude(std::span<const RankRange> ranges) const;
  [[nodiscard]] Result<Group*> unite(const Group& other) const;
  [[nodiscard]] Result<Group*> intersect(const Group& other) const;
  [[nodiscard]] Result<Group*> subtract(const Group& other) const;

  static Group* create(std::vector<ProcessId> processes, ProcessId self);
  Ref<Session> session;  ///< the session of its processes; null: the world model
  /// MPI_GROUP_EMPTY; never destroyed.
  static Group* empty();
  static Slab<Group>& slab();

 private:
  void destroy() override;
  [[nodiscard]] Result<Group*> derive(std::vector<ProcessId> processes, const Group& other) const;
  std::vector<ProcessId> processes_;
  mutable std::unordered_map<ProcessId, int> ranks_;  // built at first use; empty if process == rank
  bool identity_;                                     // process(i) == i for all i
  ProcessId self_;
  int rank_;
};

}  // namespace weft::core
