// SPDX-License-Identifier: BSD-3-Clause
// Communicator: a context id and one or two groups (MPI 5.0 chapter 7), with the objects that users attach.
// Threading: changed under the instance lock.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/slab.hpp"
#include "core/attribute.hpp"
#include "core/errhandler.hpp"
#include "core/group.hpp"
#include "core/info.hpp"
#include "core/reference.hpp"

namespace weft::core {

class Instance;

/// Never reused: creator << 34 | counter << 2. The low two bits are the channel. The creator is a number of
/// the process that made the id, unique among all processes of connected jobs (ProcessTable::first_creator);
/// 0: one of the job's own predefined ids, which no message between jobs carries.
using ContextId = uint64_t;
inline constexpr unsigned kCreatorShift = 34;
/// Distance of consecutive ids.
inline constexpr ContextId kContextStep = 4;

/// Separate match spaces of a communicator. `partitioned`: the setup messages of partitioned operations.
enum class Channel : uint8_t { user = 0, collective = 1, partitioned = 2 };

/// Base of Cartesian, graph and distributed-graph topologies (src/topo/). Immutable once attached.
struct Topology {
  enum class Kind { cartesian, graph, distributed_graph };
  explicit Topology(Kind topology_kind) : kind(topology_kind) {}
  virtual ~Topology() = default;
  [[nodiscard]] virtual std::unique_ptr<Topology> clone() const = 0;
  Kind kind;
  /// Neighbor ranks of this process, in the order of their blocks (MPI 5.0 section 8.7); MPI_PROC_NULL at the
  /// border of a Cartesian grid.
  std::vector<int> sources, destinations;
};

/// Base of the collective state of a communicator (coll/dispatch).
struct CollectiveState {
  virtual ~CollectiveState() = default;
};

/// Base of the state of a communicator with a GPU stream (stream/).
struct StreamState {
  virtual ~StreamState() = default;
};

/// Base of the state of a communicator whose operations run in the order of a GPU stream (stream/order/).
struct OrderState {
  virtual ~OrderState() = default;
};

class Communicator final : public Counted {
 public:
  /// `remote` is null for an intracommunicator.
  Communicator(Instance& owner, ContextId id, Ref<Group> local, Ref<Group> remote);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool inter() const { return static_cast<bool>(remote_group); }
  [[nodiscard]] int remote_size() const { return inter() ? remote_group->size() : size_; }
  /// Returns the communicator's session; null: the world model.
  [[nodiscard]] Session* session() const { return group->session.get(); }
  /// Returns whether all processes of the (local) group are on this host.
  [[nodiscard]] bool on_one_host() const {
    if (on_one_host_ < 0) [[unlikely]]
      on_one_host_ = find_hosts();
    return on_one_host_ != 0;
  }
  /// Returns the process of a rank argument of a send or receive.
  [[nodiscard]] ProcessId process(int rank) const { return peers_->process(rank); }
  /// Returns a number that names the communicator for people and tools, the same on all ranks; 1:
  /// MPI_COMM_WORLD.
  [[nodiscard]] uint64_t number() const { return id / kContextStep; }
  [[nodiscard]] ContextId context(Channel channel) const { return id | static_cast<ContextId>(channel); }
  /// Returns the tag of the next collective operation on this communicator, the same on all ranks by MPI's
  /// ordering rule.
  [[nodiscard]] int next_collective_tag() { return collective_tag_ = (collective_tag_ + 1) & 0x3fffffff; }
  /// The same for nonblocking operations, which never match blocking ones (MPI 5.0 section 6.12). Incorrect
  /// programs that call both kinds in different orders still run, as with other MPI libraries.
  [[nodiscard]] int next_nonblocking_tag() {
    return 0x40000000 | (nonblocking_tag_ = (nonblocking_tag_ + 1) & 0x3fffffff);
  }

  /// Gives a communicator whose id and members were not known at its creation, and which nobody has used, its
  /// final ones: a subset of its members.
  void settle(ContextId id, Ref<Group> local, Ref<Group> remote);

  /// Whether a process of this or a connected job makes such ids: ids agreed on by ranks that call different
  /// operations are arbitrary.
  [[nodiscard]] static bool valid_id(const Instance& instance, ContextId id);
  static Communicator* create(Instance& owner, ContextId id, Ref<Group> local, Ref<Group> remote = {});
  static Slab<Communicator>& slab();

  Instance& instance;
  ContextId id;  ///< constant once known: MPI_Comm_idup sets it when its request completes
  Ref<Group> group, remote_group;
  Ref<Communicator>
      local;  ///< of an intercommunicator: the intracommunicator of the local group, for its collectives
  Ref<Errhandler> errhandler;
  bool errhandler_set = false;  ///< by MPI_Comm_set_errhandler
  Ref<Info> info;
  AttributeSet attributes;
  std::string name;
  std::unique_ptr<Topology> topology;
  std::unique_ptr<CollectiveState> collective;
  std::unique_ptr<StreamState> stream;
  std::shared_ptr<OrderState> order;  ///< null: no operation was ever enqueued; shared with its windows
  /// False: MPI_Comm_free was called while operations keep the object alive, or the library made the object
  /// for its own steps, such as a window's: no handle of the program, not even a stale one, leads to it.
  bool has_handle = true;
  bool revoked = false;  ///< by FailureDetector::revoke(): every operation on it fails
  uintptr_t handle;      ///< the MPI_Comm value: the object's address, or a predefined handle value
  /// Of a communicator that the library made for steps of operations on another one: that one, with which it
  /// is revoked (FailureDetector::make_part()). Null: none.
  Communicator* part_of = nullptr;
  /// Of a communicator of all processes by which some make another one: those. Null: all of `group`.
  Ref<Group> users;
  /// The processes of `group` whose failure ends the collective operations.
  [[nodiscard]] const Group& needed() const { return users ? *users : *group; }
  /// How many of FailureDetector::failed_in() the program has acknowledged (MPIX_Comm_ack_failed).
  size_t acknowledged_failures = 0;

 private:
  void destroy() override;
  [[nodiscard]] signed char find_hosts() const;
  const Group* peers_;
  mutable signed char on_one_host_ = -1;  // -1: not determined yet
  int rank_, size_;
  int collective_tag_ = 0, nonblocking_tag_ = 0;
};

}  // namespace weft::core
