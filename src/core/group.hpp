// SPDX-License-Identifier: BSD-3-Clause
// Group: an immutable ordered set of processes (MPI 5.0 section 7.3). Ranks are positions in it.
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

/// A process of the job: the index into the instance's process table; the rank in MPI_COMM_WORLD.
using ProcessId = uint32_t;
inline constexpr ProcessId kNoProcess = UINT32_MAX;

enum class Comparison { identical, congruent, similar, unequal };

/// The triplet of MPI_Group_range_incl: first, first + stride, ... up to and including last if it is hit.
struct RankRange {
  int first, last, stride;
};

class Group final : public Counted {
 public:
  /// `self`: this process, to know its own rank in the group.
  Group(std::vector<ProcessId> processes, ProcessId self);
  [[nodiscard]] int size() const { return static_cast<int>(processes_.size()); }
  /// This process's rank, or -1 when it is no member (api/ shows it as MPI_UNDEFINED).
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] ProcessId process(int rank) const { return processes_[static_cast<size_t>(rank)]; }
  /// Rank of a process, or -1.
  [[nodiscard]] int rank_of(ProcessId process) const;
  [[nodiscard]] const std::vector<ProcessId>& processes() const { return processes_; }
  [[nodiscard]] Comparison compare(const Group& other) const;  ///< identical, similar or unequal

  // Set operations (MPI 5.0 section 7.3.2). Each returns a new reference; an empty result is empty().
  // Ranks out of range or named twice are Errc::rank; no room is Errc::no_mem.
  [[nodiscard]] Result<Group*> include(std::span<const int> ranks) const;
  [[nodiscard]] Result<Group*> exclude(std::span<const int> ranks) const;
  [[nodiscard]] Result<Group*> include(std::span<const RankRange> ranges) const;
  [[nodiscard]] Result<Group*> exclude(std::span<const RankRange> ranges) const;
  [[nodiscard]] Result<Group*> unite(const Group& other) const;
  [[nodiscard]] Result<Group*> intersect(const Group& other) const;
  [[nodiscard]] Result<Group*> subtract(const Group& other) const;

  static Group* create(std::vector<ProcessId> processes, ProcessId self);
  Ref<Session> session;  ///< where its processes come from; null: the world model
  /// MPI_GROUP_EMPTY; never destroyed.
  static Group* empty();
  static Slab<Group>& slab();

 private:
  void destroy() override;
  [[nodiscard]] Result<Group*> derive(std::vector<ProcessId> processes, const Group& other) const;
  std::vector<ProcessId> processes_;
  mutable std::unordered_map<ProcessId, int> ranks_;  // built on first need; empty when process == rank
  bool identity_;                                     // process(i) == i for all i
  ProcessId self_;
  int rank_;
};

}  // namespace weft::core
