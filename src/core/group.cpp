// SPDX-License-Identifier: BSD-3-Clause
// Group: construction, rank lookup and the set operations.
#include "core/group.hpp"

#include <string>

namespace weft::core {
namespace {

bool counts_from_zero(const std::vector<ProcessId>& processes) {
  for (size_t n = 0; n < processes.size(); ++n)
    if (processes[n] != n) return false;
  return true;
}

Error bad_rank(int rank, int size) {
  return Error(Errc::rank, "rank " + std::to_string(rank) + " is not in the group (it has " +
                               std::to_string(size) + " processes): use 0 to " + std::to_string(size - 1));
}

/// Marks `rank` in `chosen`; an error if it is out of range or marked already.
Status mark(std::vector<bool>& chosen, int rank) {
  const int size = static_cast<int>(chosen.size());
  if (rank < 0 || rank >= size) return bad_rank(rank, size);
  if (chosen[static_cast<size_t>(rank)])
    return Error(Errc::rank,
                 "rank " + std::to_string(rank) + " is named twice (a group contains a process once)");
  chosen[static_cast<size_t>(rank)] = true;
  return {};
}

/// Returns the ranks of the triplets, in order (MPI 5.0 section 7.3.2).
Result<std::vector<int>> expand(std::span<const RankRange> ranges, int size) {
  std::vector<int> ranks;
  for (const RankRange& range : ranges) {
    if (range.stride == 0)
      return Error(Errc::arg, "a rank range has stride 0: use a positive or negative one");
    if (range.first < 0 || range.first >= size) return bad_rank(range.first, size);
    if (range.last < 0 || range.last >= size) return bad_rank(range.last, size);
    const int64_t last = range.last, stride = range.stride;
    for (int64_t rank = range.first; stride > 0 ? rank <= last : rank >= last; rank += stride)
      ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

}  // namespace

Group::Group(std::vector<ProcessId> processes, ProcessId self)
    : processes_(std::move(processes)), identity_(counts_from_zero(processes_)), self_(self), rank_(-1) {
  for (size_t n = 0; n < processes_.size() && rank_ < 0; ++n)
    if (processes_[n] == self) rank_ = static_cast<int>(n);
}

int Group::rank_of(ProcessId process) const {
  if (identity_) return process < processes_.size() ? static_cast<int>(process) : -1;
  if (ranks_.empty()) {
    ranks_.reserve(processes_.size());
    for (size_t n = 0; n < processes_.size(); ++n) ranks_.emplace(processes_[n], static_cast<int>(n));
  }
  const auto found = ranks_.find(process);
  return found == ranks_.end() ? -1 : found->second;
}

Comparison Group::compare(const Group& other) const {
  if (this == &other || processes_ == other.processes_) return Comparison::identical;
  if (size() != other.size()) return Comparison::unequal;
  for (const ProcessId process : processes_)
    if (other.rank_of(process) < 0) return Comparison::unequal;
  return Comparison::similar;
}

Result<Group*> Group::include(std::span<const int> ranks) const {
  std::vector<bool> chosen(processes_.size());
  std::vector<ProcessId> result;
  result.reserve(ranks.size());
  for (const int rank : ranks) {
    WEFT_TRY(mark(chosen, rank));
    result.push_back(process(rank));
  }
  return derive(std::move(result), *this);
}

Result<Group*> Group::exclude(std::span<const int> ranks) const {
  std::vector<bool> chosen(processes_.size());
  for (const int rank : ranks) WEFT_TRY(mark(chosen, rank));
  std::vector<ProcessId> result;
  for (size_t n = 0; n < processes_.size(); ++n)
    if (!chosen[n]) result.push_back(processes_[n]);
  return derive(std::move(result), *this);
}

Result<Group*> Group::include(std::span<const RankRange> ranges) const {
  auto ranks = expand(ranges, size());
  if (!ranks) return std::move(ranks).error();
  return include(std::span<const int>(*ranks));
}

Result<Group*> Group::exclude(std::span<const RankRange> ranges) const {
  auto ranks = expand(ranges, size());
  if (!ranks) return std::move(ranks).error();
  return exclude(std::span<const int>(*ranks));
}

Result<Group*> Group::unite(const Group& other) const {
  std::vector<ProcessId> result = processes_;
  for (const ProcessId process : other.processes_)
    if (rank_of(process) < 0) result.push_back(process);
  return derive(std::move(result), other);
}

Result<Group*> Group::intersect(const Group& other) const {
  std::vector<ProcessId> result;
  for (const ProcessId process : processes_)
    if (other.rank_of(process) >= 0) result.push_back(process);
  return derive(std::move(result), other);
}

Result<Group*> Group::subtract(const Group& other) const {
  std::vector<ProcessId> result;
  for (const ProcessId process : processes_)
    if (other.rank_of(process) < 0) result.push_back(process);
  return derive(std::move(result), other);
}

Result<Group*> Group::derive(std::vector<ProcessId> processes, const Group& other) const {
  if (processes.empty()) return Ref<Group>::share(empty()).detach();
  Group* group = create(std::move(processes), self_ != kNoProcess ? self_ : other.self_);
  if (group == nullptr) return Error(Errc::no_mem, "too many groups: free some");
  group->session = session ? session : other.session;
  return group;
}

Group* Group::create(std::vector<ProcessId> processes, ProcessId self) {
  return slab().create(std::move(processes), self);
}

Group* Group::empty() {
  static Group* const group = new Group({}, kNoProcess);
  return group;
}

Slab<Group>& Group::slab() {
  static Slab<Group> groups;
  return groups;
}

void Group::destroy() {
  if (this != empty()) slab().destroy(this);
}

}  // namespace weft::core
