// SPDX-License-Identifier: BSD-3-Clause
// Construction of communicators from others (MPI 5.0 sections 7.4.2 and 7.6): collective algorithms over the
// parent that agree on members and context id. Attributes and hints are api/'s business.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "coll/circle.hpp"
#include "core/communicator.hpp"
#include "core/request.hpp"

namespace weft::coll {

struct Algorithm;

/// Context of messages between processes that share no communicator yet (create_from_group). Ids below
/// 2^33 belong to no creator.
inline constexpr core::ContextId kBootstrapContext = 0x100;

/// A new communicator with one reference, or nullptr: this process is in none (MPI_COMM_NULL).
using Made = Result<core::Communicator*>;

/// Same groups, error handler and topology. Intercommunicators too.
[[nodiscard]] Made duplicate(core::Communicator& parent);
/// MPI_Comm_idup: the child's context id arrives with the request, and then it can be used.
struct PendingChild {
  core::Communicator* child;
  core::Request* request;
};
[[nodiscard]] Result<PendingChild> start_duplicate(core::Communicator& parent);
/// Members of equal color, ordered by (key, rank in parent). color < 0: in none.
[[nodiscard]] Made split(core::Communicator& parent, int64_t color, int key);
/// Only parts smaller than the parent: a split that would not divide it gives nullptr.
[[nodiscard]] Made split_strictly(core::Communicator& parent, int64_t color, int key);
/// A color that processes of one host share, for split().
[[nodiscard]] int64_t host_color(core::Instance& instance);
/// MPI_Comm_create: called by all of the parent; the groups of different callers are equal or disjoint.
[[nodiscard]] Made create(core::Communicator& parent, core::Group& group);
/// MPI_Comm_create_group: called by the members of `group` only.
[[nodiscard]] Made create_group(core::Communicator& parent, core::Group& group, int tag);
/// MPI_Comm_create_from_group: without a parent; `name` tells concurrent calls apart.
[[nodiscard]] Made create_from_group(core::Instance& instance, core::Group& group, std::string_view name);

/// MPI_Intercomm_create. `peer` and `remote_leader` matter at the local leader only.
[[nodiscard]] Made intercomm_create(core::Communicator& local, int local_leader, core::Communicator* peer,
                                    int remote_leader, int tag);
/// MPI_Intercomm_merge: the group that says high comes second; on a tie the one whose first process is lower
/// comes first.
[[nodiscard]] Made intercomm_merge(core::Communicator& intercomm, bool high);

/// MPI_Intercomm_create_from_groups: without a parent. nullptr when one of the groups is empty.
[[nodiscard]] Made intercomm_create_from_groups(core::Instance& instance, core::Group& local,
                                                int local_leader, const core::Group& remote,
                                                int remote_leader, std::string_view name);

// What the above do when the parent is an intercommunicator.
[[nodiscard]] Made intercomm_duplicate(core::Communicator& parent);
[[nodiscard]] Result<PendingChild> intercomm_start_duplicate(core::Communicator& parent);
[[nodiscard]] Made intercomm_split(core::Communicator& parent, int64_t color, int key);
[[nodiscard]] Made intercomm_subset(core::Communicator& parent, core::Group& group);

/// What each process says in a split. Every colored process offers context ids; its leader's are used, which
/// saves a second round.
struct Wish {
  int64_t color;
  int64_t key;
  core::ContextId context;
};
/// The wishes of all in the circle, in its order; this process offers `ids` context ids.
[[nodiscard]] Result<std::vector<Wish>> gather_wishes(core::Communicator& members, const Circle& circle,
                                                      int64_t color, int key, uint32_t ids);
/// Ranks of one color by (key, rank).
[[nodiscard]] std::vector<int> members_of(const std::vector<Wish>& wishes, int64_t color);
/// Errc::group when `group` holds a process that `whole` does not.
[[nodiscard]] Status check_subset(const core::Group& group, const core::Group& whole);

/// Starts telling all of the parent the child's context id; `algorithm`: a broadcast unless given, which gets
/// the child as its operand to send.
[[nodiscard]] Result<PendingChild> await_context(core::Communicator& parent, core::Communicator& child,
                                                 const Algorithm* algorithm = nullptr);
/// Gives a fresh communicator what every child inherits of its parent; errors when it could not be made.
[[nodiscard]] Made inherit(core::Communicator& parent, core::Communicator* child);

}  // namespace weft::coll
