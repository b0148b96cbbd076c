// SPDX-License-Identifier: BSD-3-Clause
// Communicator: a context and one or two groups (MPI 5.0 chapter 7), with what users attach to it.
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

/// Unique for ever: (creator process + 1) << 34 | counter << 2. The low two bits are the channel.
using ContextId = uint64_t;
/// Between this id and the next.
inline constexpr ContextId kContextStep = 4;

/// The message spaces of a communicator: `partitioned` is where both sides of such an operation find each
/// other.
enum class Channel : uint8_t { user = 0, collective = 1, partitioned = 2 };

/// Base of Cartesian, graph and distributed-graph topologies (src/topo/). Immutable once it is attached.
struct Topology {
  enum class Kind { cartesian, graph, distributed_graph };
  explicit Topology(Kind topology_kind) : kind(topology_kind) {}
  virtual ~Topology() = default;
  [[nodiscard]] virtual std::unique_ptr<Topology> clone() const = 0;
  Kind kind;
  /// The neighbors that this process receives from and sends to, in the order of their blocks (MPI 5.0
  /// section 8.7); MPI_PROC_NULL where a Cartesian grid ends.
  std::vector<int> sources, destinations;
};

/// Base of what coll/ keeps with a communicator (coll/shared).
struct CollectiveState {
  virtual ~CollectiveState() = default;
};

/// Base of what stream/ keeps with a communicator that has a GPU stream.
struct StreamState {
  virtual ~StreamState() = default;
};

class Communicator final : public Counted {
 public:
  /// `remote` is null for an intracommunicator.
  Communicator(Instance& owner, ContextId id, Ref<Group> local, Ref<Group> remote);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] bool inter() const { return static_cast<bool>(remote_group); }
  [[nodiscard]] int remote_size() const { return inter() ? remote_group->size() : size_; }
  /// The session it comes from; null: the world model.
  [[nodiscard]] Session* session() const { return group->session.get(); }
  /// All processes of the (local) group are on this host.
  [[nodiscard]] bool on_one_host() const {
    if (on_one_host_ < 0) [[unlikely]]
      on_one_host_ = find_hosts();
    return on_one_host_ != 0;
  }
  /// The process that a rank argument of a send or receive names.
  [[nodiscard]] ProcessId process(int rank) const { return peers_->process(rank); }
  [[nodiscard]] ContextId context(Channel channel) const { return id | static_cast<ContextId>(channel); }
  /// The tag of the next collective operation on this communicator (the same on all ranks by MPI's order
  /// rule).
  [[nodiscard]] int next_collective_tag() { return collective_tag_ = (collective_tag_ + 1) & 0x3fffffff; }
  /// The same for nonblocking ones, which never match blocking ones (MPI 5.0 section 6.12): programs that
  /// call the two in another order on some ranks are wrong, yet they run elsewhere.
  [[nodiscard]] int next_nonblocking_tag() {
    return 0x40000000 | (nonblocking_tag_ = (nonblocking_tag_ + 1) & 0x3fffffff);
  }

  static Communicator* create(Instance& owner, ContextId id, Ref<Group> local, Ref<Group> remote = {});
  static Slab<Communicator>& slab();

  Instance& instance;
  ContextId id;  ///< constant once known: MPI_Comm_idup learns it when its request completes
  Ref<Group> group, remote_group;
  Ref<Communicator> local;  ///< of an intercommunicator: the local group's own, for its collectives
  Ref<Errhandler> errhandler;
  bool errhandler_set = false;  ///< by MPI_Comm_set_errhandler
  Ref<Info> info;
  AttributeSet attributes;
  std::string name;
  std::unique_ptr<Topology> topology;
  std::unique_ptr<CollectiveState> collective;
  std::unique_ptr<StreamState> stream;
  bool freed = false;  ///< MPI_Comm_free was called; pending operations keep the object
  uintptr_t handle;    ///< the MPI_Comm value: the object's address, or a predefined handle's value

 private:
  void destroy() override;
  [[nodiscard]] signed char find_hosts() const;
  const Group* peers_;
  mutable signed char on_one_host_ = -1;  // -1: not known yet
  int rank_, size_;
  int collective_tag_ = 0, nonblocking_tag_ = 0;
};

}  // namespace weft::core
