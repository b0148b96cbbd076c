// SPDX-License-Identifier: BSD-3-Clause
// Groups (MPI 5.0 section 7.3).
#include <span>

#include "api/check.hpp"
#include "api/impl.hpp"
#include "api/objects.hpp"

namespace weft::api::impl {
namespace {

using Ranges = std::span<const core::RankRange>;
static_assert(sizeof(core::RankRange) == sizeof(int[3]));

std::span<const int> ranks_of(int n, const int* ranks) { return {ranks, static_cast<size_t>(n)}; }
Ranges ranges_of(int n, int (*ranges)[3]) {
  return {reinterpret_cast<const core::RankRange*>(ranges), static_cast<size_t>(n)};
}

}  // namespace

Status Group_size(core::Group& group, int* size) {
  *size = group.size();
  return {};
}

Status Group_rank(core::Group& group, int* rank) {
  *rank = group.rank() < 0 ? MPI_UNDEFINED : group.rank();
  return {};
}

Status Group_translate_ranks(core::Group& group1, int n, const int* ranks1, core::Group& group2,
                             int* ranks2) {
  for (int i = 0; i < n; ++i) {
    if (ranks1[i] == MPI_PROC_NULL) {
      ranks2[i] = MPI_PROC_NULL;
      continue;
    }
    if (!is_valid_rank(ranks1[i], group1.size())) return bad_group_rank("ranks1", ranks1[i], group1.size());
    const int rank = group2.rank_of(group1.process(ranks1[i]));
    ranks2[i] = rank < 0 ? MPI_UNDEFINED : rank;
  }
  return {};
}

Status Group_compare(core::Group& group1, core::Group& group2, int* result) {
  switch (group1.compare(group2)) {
    case core::Comparison::identical:
    case core::Comparison::congruent:
      *result = MPI_IDENT;
      break;
    case core::Comparison::similar:
      *result = MPI_SIMILAR;
      break;
    case core::Comparison::unequal:
      *result = MPI_UNEQUAL;
  }
  return {};
}

Status Group_union(core::Group& group1, core::Group& group2, MPI_Group* newgroup) {
  return return_object(group1.unite(group2), newgroup);
}

Status Group_intersection(core::Group& group1, core::Group& group2, MPI_Group* newgroup) {
  return return_object(group1.intersect(group2), newgroup);
}

Status Group_difference(core::Group& group1, core::Group& group2, MPI_Group* newgroup) {
  return return_object(group1.subtract(group2), newgroup);
}

Status Group_incl(core::Group& group, int n, const int* ranks, MPI_Group* newgroup) {
  return return_object(group.include(ranks_of(n, ranks)), newgroup);
}

Status Group_excl(core::Group& group, int n, const int* ranks, MPI_Group* newgroup) {
  return return_object(group.exclude(ranks_of(n, ranks)), newgroup);
}

Status Group_range_incl(core::Group& group, int n, int (*ranges)[3], MPI_Group* newgroup) {
  return return_object(group.include(ranges_of(n, ranges)), newgroup);
}

Status Group_range_excl(core::Group& group, int n, int (*ranges)[3], MPI_Group* newgroup) {
  return return_object(group.exclude(ranges_of(n, ranges)), newgroup);
}

Status Group_free(MPI_Group* handle) {
  core::Group& group = *to_group(*handle);
  // MPI_GROUP_EMPTY may be freed: set operations may return it.
  if (group.has_handle())
    group.close_handle();
  else if (&group != core::Group::empty())
    return bad_handle(HandleKind::group, "group", *handle);
  *handle = MPI_GROUP_NULL;
  return {};
}

Status Comm_group(core::Communicator& comm, MPI_Group* group) {
  return_shared_object(comm.group.get(), group);
  return {};
}

Status Comm_remote_group(core::Communicator& comm, MPI_Group* group) {
  if (!comm.inter()) return Error(Errc::comm, "comm is an intracommunicator: it has no remote group");
  return_shared_object(comm.remote_group.get(), group);
  return {};
}

}  // namespace weft::api::impl
