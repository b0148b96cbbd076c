// SPDX-License-Identifier: BSD-3-Clause
// Teams: constructors of communicators, each with the result that MPI specifies.
#include "coll/random/team.hpp"

#include <algorithm>
#include <numeric>

#include "coll/expect.hpp"
#include "coll/random/topology.hpp"

namespace randomized {
namespace {

using expect::success;

std::vector<int> world_ranks(MPI_Group group) {
  MPI_Group world;
  int size;
  success(MPI_Comm_group(MPI_COMM_WORLD, &world));
  success(MPI_Group_size(group, &size));
  std::vector<int> own(static_cast<size_t>(size)), ranks(own);
  std::iota(own.begin(), own.end(), 0);
  success(MPI_Group_translate_ranks(group, size, own.data(), world, ranks.data()));
  success(MPI_Group_free(&group));
  success(MPI_Group_free(&world));
  return ranks;
}

MPI_Group group_of(const Team& team, const std::vector<int>& ranks) {
  MPI_Group all, group;
  success(MPI_Comm_group(team.comm, &all));
  success(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &group));
  success(MPI_Group_free(&all));
  return group;
}

std::vector<int> pick(const std::vector<int>& from, const std::vector<int>& ranks) {
  std::vector<int> picked;
  for (const int rank : ranks) picked.push_back(from[static_cast<size_t>(rank)]);
  return picked;
}

/// A random subset of n ranks in random order; empty only if `empty_too`.
std::vector<int> random_ranks(int n, bool empty_too, Draw& draw) {
  std::vector<int> ranks(static_cast<size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  for (int i = n; i > 1; --i)
    std::swap(ranks[static_cast<size_t>(i - 1)], ranks[static_cast<size_t>(draw.below(i))]);
  ranks.resize(static_cast<size_t>(empty_too ? draw.below(n + 1) : 1 + draw.below(n)));
  return ranks;
}

/// Ranks of one color in a group, ordered by (key, rank); the world rank determines color and key.
struct Coloring {
  uint64_t drawn;
  int colors;
  [[nodiscard]] int color(int world) const {
    const int color = mix(drawn, world, 1, colors + 1);
    return color == colors ? MPI_UNDEFINED : color;
  }
  [[nodiscard]] int key(int world) const { return mix(drawn, world, 2, 3) - 1; }
  [[nodiscard]] std::vector<int> members(const std::vector<int>& of, int wanted) const {
    std::vector<int> result;
    for (const int world : of)
      if (color(world) == wanted) result.push_back(world);
    std::stable_sort(result.begin(), result.end(), [&](int a, int b) { return key(a) < key(b); });
    return result;
  }
};

Team split(const Team& from, Draw& draw) {
  const Coloring coloring{draw.number(), 1 + draw.below(3)};
  Team made;
  const int color = coloring.color(from.me());
  if (color != MPI_UNDEFINED) made.members = coloring.members(from.members, color);
  if (color != MPI_UNDEFINED && from.inter()) made.remote = coloring.members(from.remote, color);
  success(MPI_Comm_split(from.comm, color, coloring.key(from.me()), &made.comm));
  const bool wanted = color != MPI_UNDEFINED && from.inter() == made.inter();
  if (made.exists() != wanted) expect::fail("the wrong processes got a communicator from MPI_Comm_split");
  made.history = "split";
  return made;
}

Team create(const Team& from, Draw& draw) {
  // Both sides draw the subsets of both sides, first for the side with the lowest process.
  const bool first = !from.inter() || from.members < from.remote;
  const auto& a = first ? from.members : from.remote;
  std::vector<int> mine = random_ranks(static_cast<int>(a.size()), from.inter(), draw), theirs;
  if (from.inter())
    theirs = random_ranks(first ? static_cast<int>(from.remote.size()) : from.size(), true, draw);
  if (!first) std::swap(mine, theirs);
  const bool in = std::find(mine.begin(), mine.end(), from.rank) != mine.end();
  const bool by_group = !from.inter() && draw.one_in(2);
  const int tag = draw.below(1000);
  Team made;
  MPI_Group group = group_of(from, mine);
  if (!by_group)
    success(MPI_Comm_create(from.comm, group, &made.comm));
  else if (in)
    success(MPI_Comm_create_group(from.comm, group, tag, &made.comm));
  success(MPI_Group_free(&group));
  if (made.exists() != (in && from.inter() == !theirs.empty()))
    expect::fail("the wrong processes got a communicator from MPI_Comm_create");
  made.members = pick(from.members, mine);
  made.remote = pick(from.remote, theirs);
  made.history = by_group ? "create_group" : "create";
  return made;
}

Team duplicate(const Team& from, Draw& draw) {
  Team made = from;
  MPI_Request request;
  switch (draw.below(3)) {
    case 0:
      success(MPI_Comm_dup(from.comm, &made.comm));
      break;
    case 1:
      success(MPI_Comm_dup_with_info(from.comm, MPI_INFO_NULL, &made.comm));
      break;
    default:
      success(MPI_Comm_idup(from.comm, &made.comm, &request));
      success(MPI_Barrier(from.comm));
      success(MPI_Wait(&request, MPI_STATUS_IGNORE));
  }
  made.history = "dup";
  return made;
}

/// An intercommunicator of two parts of an intracommunicator.
Team make_intercomm(const Team& from, Draw& draw) {
  const uint64_t drawn = draw.number();
  const int cut = draw.below(from.size()), other = (cut + 1 + draw.below(from.size() - 1)) % from.size();
  const auto side = [&](int rank) { return rank == cut ? 0 : rank == other ? 1 : mix(drawn, rank, 0, 2); };
  const int own = side(from.rank);
  std::vector<int> ranks[2];
  for (int rank = 0; rank < from.size(); ++rank) ranks[side(rank)].push_back(rank);
  Team made;
  made.members = pick(from.members, ranks[own]);
  made.remote = pick(from.members, ranks[1 - own]);
  const int leaders[2] = {draw.below(static_cast<int>(ranks[0].size())),
                          draw.below(static_cast<int>(ranks[1].size()))};
  const bool by_groups = draw.one_in(3);
  const std::string name = "teams " + std::to_string(draw.number());
  if (by_groups) {
    MPI_Group local = group_of(from, ranks[own]), remote = group_of(from, ranks[1 - own]);
    success(MPI_Intercomm_create_from_groups(local, leaders[own], remote, leaders[1 - own], name.c_str(),
                                             MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made.comm));
    success(MPI_Group_free(&local));
    success(MPI_Group_free(&remote));
  } else {
    MPI_Comm local;
    success(MPI_Comm_split(from.comm, own, 0, &local));
    const bool is_leader = ranks[own][static_cast<size_t>(leaders[own])] == from.rank;
    const int remote_leader = ranks[1 - own][static_cast<size_t>(leaders[1 - own])];
    success(MPI_Intercomm_create(local, leaders[own], is_leader ? from.comm : MPI_COMM_NULL,
                                 is_leader ? remote_leader : -17, 5, &made.comm));
    success(MPI_Comm_free(&local));
  }
  made.history = by_groups ? "intercomm_from_groups" : "intercomm";
  return made;
}

Team merge(const Team& from, Draw& draw) {
  const bool first_side = from.members < from.remote, high = draw.one_in(2) == first_side;
  Team made;
  success(MPI_Intercomm_merge(from.comm, high, &made.comm));
  made.members = high ? from.remote : from.members;
  const auto& behind = high ? from.members : from.remote;
  made.members.insert(made.members.end(), behind.begin(), behind.end());
  made.history = "merge";
  return made;
}

/// Checks the groups; sets the rank of this process.
void verify(Team& team) {
  int inter;
  success(MPI_Comm_rank(team.comm, &team.rank));
  success(MPI_Comm_test_inter(team.comm, &inter));
  if ((inter != 0) != team.inter()) expect::fail("inter- or intracommunicator", inter);
  MPI_Group group;
  success(MPI_Comm_group(team.comm, &group));
  if (world_ranks(group) != team.members) expect::fail("wrong members of the local group");
  if (!team.inter()) return;
  success(MPI_Comm_remote_group(team.comm, &group));
  if (world_ranks(group) != team.remote) expect::fail("wrong members of the remote group");
}

Team make(const Team& from, Draw& draw) {
  const int kinds = from.inter() ? 4 : 5;
  switch (draw.below(kinds)) {
    case 0:
      return split(from, draw);
    case 1:
      return create(from, draw);
    case 2:
      return duplicate(from, draw);
    case 3:
      return from.inter()      ? merge(from, draw)
             : from.size() > 1 ? make_intercomm(from, draw)
                               : duplicate(from, draw);
    default:
      return with_topology(from, draw);
  }
}

}  // namespace

Team world_team() {
  Team team;
  team.comm = MPI_COMM_WORLD;
  int size;
  success(MPI_Comm_size(MPI_COMM_WORLD, &size));
  success(MPI_Comm_rank(MPI_COMM_WORLD, &team.rank));
  team.members.resize(static_cast<size_t>(size));
  std::iota(team.members.begin(), team.members.end(), 0);
  team.history = "world";
  return team;
}

Team derive(const Team& from, Draw& draw) {
  Team made = make(from, draw);
  made.history = from.history + " " + made.history;
  std::snprintf(expect::situation, sizeof expect::situation, "%s", made.history.c_str());
  if (made.exists()) verify(made);
  return made;
}

void disband(Team& team) {
  if (team.exists() && team.comm != MPI_COMM_WORLD) success(MPI_Comm_free(&team.comm));
}

}  // namespace randomized
