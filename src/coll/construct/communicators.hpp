// SPDX-License-Identifier: BSD-3-Clause
// Construction of communicators from others (MPI 5.0 sections 7.4.2 and 7.6): collective algorithms over the
// parent that agree on members and context id. api/ handles attributes and hints.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "coll/bootstrap/group.hpp"
#include "core/communicator.hpp"
#include "core/request.hpp"

namespace weft::coll {

struct Algorithm;

/// Context id of messages between processes without a common communicator (create_from_group). No process
/// creates ids below 2^33.
inline constexpr core::ContextId kBootstrapContext = 0x100;

/// A new communicator with one reference; nullptr if this process is not a member (MPI_COMM_NULL).
using NewCommunicator = Result<core::Communicator*>;

/// Duplicates groups, error handler and topology, also of intercommunicators.
[[nodiscard]] NewCommunicator duplicate(core::Communicator& parent);
/// MPI_Comm_idup: the child is usable once the request, which receives its context id, completes.
struct PendingChild {
  core::Communicator* child;
  core::Request* request;
};
[[nodiscard]] Result<PendingChild> start_duplicate(core::Communicator& parent);
/// Members of equal color, ordered by (key, rank in parent). color < 0: nullptr.
[[nodiscard]] NewCommunicator split(core::Communicator& parent, int64_t color, int key);
/// Like split(), but returns nullptr if the child would be as large as the parent.
[[nodiscard]] NewCommunicator split_proper(core::Communicator& parent, int64_t color, int key);
/// A color for split(), equal for all processes of a host.
[[nodiscard]] int64_t host_color(core::Instance& instance);
/// MPI_Comm_create: called by all ranks of the parent; the groups of different callers are equal or disjoint.
[[nodiscard]] NewCommunicator create(core::Communicator& parent, core::Group& group);
/// MPI_Comm_create_group: called by the members of `group` only.
[[nodiscard]] NewCommunicator create_group(core::Communicator& parent, core::Group& group, int tag);
/// MPI_Comm_create_from_group: without a parent; `name` distinguishes concurrent calls.
[[nodiscard]] NewCommunicator create_from_group(core::Instance& instance, core::Group& group,
                                                std::string_view name);

/// MPI_Intercomm_create. `peer` and `remote_leader` are significant at the local leader only.
[[nodiscard]] NewCommunicator intercomm_create(core::Communicator& local, int local_leader,
                                               core::Communicator* peer, int remote_leader, int tag);
/// MPI_Intercomm_merge: the group with `high` comes second; on a tie the group with the lower first process
/// comes first.
[[nodiscard]] NewCommunicator intercomm_merge(core::Communicator& intercomm, bool high);

/// MPI_Intercomm_create_from_groups: without a parent. nullptr if a group is empty.
[[nodiscard]] NewCommunicator intercomm_create_from_groups(core::Instance& instance, core::Group& local,
                                                           int local_leader, const core::Group& remote,
                                                           int remote_leader, std::string_view name);

/// Context ids of an intercommunicator: its own and one for the local communicator of each side.
inline constexpr uint32_t kIdsPerIntercomm = 3;
/// Makes an intercommunicator and the communicator of its local group; null: out of memory. `id`: the first
/// of kIdsPerIntercomm ids.
[[nodiscard]] core::Communicator* assemble(core::Instance& instance, core::ContextId id,
                                           core::Ref<core::Group> local, core::Ref<core::Group> remote);

/// Gives the child of a shrink its id and members: Communicator::settle(), and its local communicator.
/// Errc::no_mem: the child stays as it is. `id`: the first of kIdsPerIntercomm ids for an intercommunicator.
[[nodiscard]] Status settle(core::Communicator& child, core::ContextId id, core::Ref<core::Group> local,
                            core::Ref<core::Group> remote);

// The same operations on a parent that is an intercommunicator.
[[nodiscard]] NewCommunicator intercomm_duplicate(core::Communicator& parent);
[[nodiscard]] Result<PendingChild> intercomm_start_duplicate(core::Communicator& parent);
[[nodiscard]] NewCommunicator intercomm_split(core::Communicator& parent, int64_t color, int key);
[[nodiscard]] NewCommunicator intercomm_subset(core::Communicator& parent, core::Group& group);

/// Record of one process in a split. Every process with a color proposes context ids; the child uses those of
/// its first member, which saves a second round.
struct SplitEntry {
  int64_t color;
  int64_t key;
  core::ContextId context;
};
/// The entries of all members of `bootstrap`, in member order; this process proposes `ids` context ids.
[[nodiscard]] Result<std::vector<SplitEntry>> allgather_split_entries(core::Communicator& parent,
                                                                      const BootstrapGroup& bootstrap,
                                                                      int64_t color, int key, uint32_t ids);
/// The ranks of one color, ordered by (key, rank).
[[nodiscard]] std::vector<int> members_of(const std::vector<SplitEntry>& entries, int64_t color);
/// Errc::group if `group` contains a process that `whole` does not.
[[nodiscard]] Status check_subset(const core::Group& group, const core::Group& whole);

/// Starts the broadcast of the child's context id to all ranks of the parent. A given `algorithm` replaces
/// the broadcast.
[[nodiscard]] Result<PendingChild> start_context_broadcast(core::Communicator& parent,
                                                           core::Communicator& child,
                                                           const Algorithm* algorithm = nullptr);
/// Copies the error handler of the parent to a new communicator. Errc::no_mem if `child` is null.
[[nodiscard]] NewCommunicator inherit(core::Communicator& parent, core::Communicator* child);
/// Makes a child with inherit(); an intercommunicator with `remote`. An error if no process makes such ids.
[[nodiscard]] NewCommunicator make_child(core::Communicator& parent, core::ContextId id,
                                         core::Ref<core::Group> local, core::Ref<core::Group> remote = {});

}  // namespace weft::coll
