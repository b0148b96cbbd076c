// SPDX-License-Identifier: BSD-3-Clause
#include "coll/construct/connect.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "coll/bootstrap/group.hpp"
#include "core/instance.hpp"
#include "p2p/engine/jobs.hpp"

namespace weft::coll {
namespace {

using core::Communicator;
using core::ContextId;
using core::Group;
using core::Instance;
using core::ProcessId;
using core::Ref;
using p2p::Reach;

constexpr int kTag = 0;  // of the messages between the roots

/// The record that the roots exchange.
struct Side {
  ContextId context;  // first of kIdsPerIntercomm ids; those of the connecting side are used
  uint64_t bytes;     // of its addresses; 0: the side has failed
};

class Connector {
 public:
  Connector(Communicator& local, int root)
      : local_(local),
        instance_(local.instance),
        root_(root),
        bootstrap_(local, local.next_collective_tag()) {}

  /// `connected`: the connection of the roots, significant at the root.
  NewCommunicator run(Result<p2p::JobConnection>* connected, bool accepts) {
    Status bridged = make_bridge(connected);
    const bool has_bridge = is_root() && bridged.ok();
    Status agreed = agree(std::move(bridged), "the root could not connect to the other job");
    if (!agreed.ok() && !has_bridge) return std::move(agreed).error();
    alone_ = !agreed.ok();
    return complete(std::move(agreed), accepts);
  }

  /// `bridge`: significant at the root.
  NewCommunicator run(const Bridge& bridge) {
    if (!is_root()) return complete({}, false);
    bridge_ = bridge;
    other_root_ = bridge.comm->process(bridge.remote);
    return complete({}, instance_.processes.before(other_root_, instance_.self));
  }

  ~Connector() {
    if (has_address_) p2p::release_job_address(instance_);
    if (held_root_ == core::kNoProcess) return;
    own_bridge_ = {};
    if (abandoned_) {
      p2p::abandon(instance_, {&held_root_, 1});
    } else {
      p2p::release(instance_, {&held_root_, 1});
      static_cast<void>(p2p::disconnect(instance_, {&held_root_, 1}));  // unless the communicator has it
    }
  }
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

 private:
  /// `begun`: of the steps before; the root of a side that has failed makes all exchanges, since the other
  /// root waits for them. `accepts`: the context ids of the other side are used; significant at the root.
  NewCommunicator complete(Status begun, bool accepts) {
    Status status = exchange_addresses(std::move(begun), accepts);
    WEFT_TRY(agree_with_other_side(std::move(status)));
    NewCommunicator made = build();
    if (made.ok()) {
      p2p::release(instance_, std::exchange(remote_, {}));  // the communicator has them
    } else {
      drop_remote(false);
    }
    return made;
  }

  [[nodiscard]] bool is_root() const { return local_.rank() == root_; }

  Status make_bridge(Result<p2p::JobConnection>* connected) {
    if (!is_root()) return {};
    if (!*connected) return std::move(*connected).error();
    other_root_ = held_root_ = (*connected)->process;
    Ref<Group> here(Group::create({instance_.self}, instance_.self));
    Ref<Group> there(Group::create({other_root_}, instance_.self));
    own_bridge_ = Ref<Communicator>(
        Communicator::create(instance_, (*connected)->context, std::move(here), std::move(there)));
    bridge_ = {own_bridge_.get(), 0, kTag};
    return own_bridge_ ? Status() : Error(Errc::no_mem, "out of memory for another communicator: free some");
  }

  /// All ranks of this side return an error if one of them has one: that of the first such rank has the class
  /// of the others.
  Status agree(Status mine, const char* else_) {
    if (alone_) return mine;
    struct Outcome {
      bool failed;
      Errc code;
    };
    std::vector<Outcome> outcomes(static_cast<size_t>(bootstrap_.size()));
    outcomes[static_cast<size_t>(bootstrap_.rank())] = {!mine.ok(), mine.ok() ? Errc{} : mine.error().code()};
    WEFT_TRY(bootstrap_.allgather(outcomes.data(), sizeof(Outcome)));
    if (!mine.ok()) return mine;
    const auto first =
        std::find_if(outcomes.begin(), outcomes.end(), [](const Outcome& outcome) { return outcome.failed; });
    if (first == outcomes.end()) return {};
    return Error(first->code,
                 std::string(else_) + ": see the error of rank " + std::to_string(first - outcomes.begin()));
  }

  /// From the root to all ranks of this side; `mine`: as in BootstrapGroup::share().
  Status share(void* data, size_t bytes, Status mine = {}) {
    return alone_ ? std::move(mine) : bootstrap_.share(std::move(mine), data, bytes, root_);
  }

  /// No process sends to the other side before all of both sides are ready to receive. The root tells the
  /// other side what this one has agreed on, and its own side whether both are ready. A rank that learns of
  /// neither drops the connection alone.
  Status agree_with_other_side(Status mine) {
    Status agreed = agree(std::move(mine), "a process could not connect to the other job");
    struct {
      bool both;
      Errc why;  // otherwise
    } ready{false, Errc::other};
    if (is_root()) {
      const bool here = agreed.ok();
      bool there = false;
      if (Status met = exchange(&here, 1, &there, 1); !met.ok())
        ready = {false, met.error().code()};
      else
        ready.both = here && there;
    }
    Status told = share(&ready, sizeof ready);
    const bool refused = !ready.both && (told.ok() || is_root());
    if (agreed.ok() && told.ok() && !refused) return {};
    drop_remote(refused);
    if (!agreed.ok()) return agreed;
    if (!told.ok()) return told;
    return Error(ready.why,
                 "the two jobs could not connect: see the errors of the other ranks and of the "
                 "other job");
  }

  /// `refused`: the processes of the other side drop the connection, too. They may not know this one then.
  void drop_remote(bool refused) {
    abandoned_ = !refused;
    if (refused)
      p2p::give_up(instance_, std::exchange(remote_, {}));
    else
      p2p::abandon(instance_, std::exchange(remote_, {}));
  }

  /// The addresses of all ranks of this side, each followed by a line end; significant at the root.
  Result<std::string> gather_addresses(Reach reach) {
    auto mine = p2p::job_address(instance_, reach);
    has_address_ = mine.ok();
    WEFT_TRY(
        agree(mine ? Status() : Status(mine.error().copy()), "a process has no address for the other job"));
    std::vector<uint32_t> sizes(static_cast<size_t>(bootstrap_.size()));
    sizes[static_cast<size_t>(bootstrap_.rank())] = static_cast<uint32_t>(mine->size());
    WEFT_TRY(bootstrap_.allgather(sizes.data(), sizeof sizes[0]));
    const size_t record = *std::max_element(sizes.begin(), sizes.end());
    std::string records(record * sizes.size(), '\0');
    mine->copy(records.data() + record * static_cast<size_t>(bootstrap_.rank()), record);
    WEFT_TRY(bootstrap_.allgather(records.data(), record));
    std::string all;
    for (size_t rank = 0; rank < sizes.size(); ++rank)
      all += records.substr(rank * record, sizes[rank]) + "\n";
    return all;
  }

  /// A message from each root to the other.
  Status exchange(const void* out, size_t out_bytes, void* in, size_t in_bytes) {
    return sendrecv_bytes(*bridge_.comm, out, out_bytes, bridge_.remote, in, in_bytes, bridge_.remote,
                          bridge_.tag);
  }

  /// Both sides use the host's shared memory if all of their processes are on one host.
  Result<Reach> agree_on_reach() {
    uint8_t anywhere = 1;
    if (is_root()) {
      uint8_t here = local_.on_one_host() && instance_.same_host(other_root_) ? 0 : 1, there = 1;
      if (!exchange(&here, 1, &there, 1).ok()) there = 1;
      anywhere = here | there;
    }
    WEFT_TRY(share(&anywhere, 1));
    return anywhere != 0 ? Reach::anywhere : Reach::host;
  }

  Status exchange_addresses(Status begun, bool accepts) {
    auto reach = agree_on_reach();
    if (begun.ok() && !reach) begun = std::move(reach).error();
    auto mine = begun.ok() ? gather_addresses(*reach) : Result<std::string>(std::move(begun).error());
    Side here{0, mine ? mine->size() : 0}, there{};
    std::string theirs;
    Status exchanged;
    if (is_root()) {
      here.context = instance_.new_contexts(kIdsPerIntercomm);
      exchanged = exchange(&here, sizeof here, &there, sizeof there);
      theirs.resize(there.bytes);
      if (exchanged.ok() && here.bytes != 0 && there.bytes != 0)
        exchanged = exchange(mine->data(), here.bytes, theirs.data(), there.bytes);
      if (!exchanged.ok()) there.bytes = 0;
      if (!accepts) there.context = here.context;
    }
    if (!mine) return std::move(mine).error();
    p2p::learn_hosts(instance_, *mine);
    WEFT_TRY(share(&there, sizeof there, std::move(exchanged)));
    if (there.bytes == 0) return Error(Errc::other, "the other job has failed to connect: see its own error");
    context_ = there.context;
    theirs.resize(there.bytes);
    WEFT_TRY(share(theirs.data(), theirs.size()));
    for (size_t begin = 0; begin < theirs.size();) {
      const size_t end = theirs.find('\n', begin);
      auto process = p2p::add_process(instance_, theirs.substr(begin, end - begin));
      if (!process) return std::move(process).error();
      remote_.push_back(*process);
      begin = end + 1;
    }
    for (const ProcessId process : remote_)
      if (local_.group->rank_of(process) >= 0)
        return Error(Errc::comm, "the two sides share process " + std::to_string(process) +
                                     ": an intercommunicator needs disjoint groups");
    return {};
  }

  NewCommunicator build() {
    p2p::allow_rings(instance_, remote_);
    Ref<Group> remote(Group::create(remote_, instance_.self));
    return inherit(local_, remote ? assemble(instance_, context_, local_.group, std::move(remote)) : nullptr);
  }

  Communicator& local_;
  Instance& instance_;
  const int root_;
  BootstrapGroup bootstrap_;
  Bridge bridge_;                 // at the root
  Ref<Communicator> own_bridge_;  // made for this connection
  ProcessId other_root_ = core::kNoProcess, held_root_ = core::kNoProcess;
  bool has_address_ = false;
  bool abandoned_ = false;  // the other side may count on the connection, which this process has dropped
  bool alone_ = false;      // the other ranks of this side have given up; this one is the root
  std::vector<ProcessId> remote_;
  ContextId context_ = 0;
};

/// The next connector. Errors of single connectors are theirs; the root goes on waiting, unless a process of
/// its side has failed or has revoked the communicator.
Result<p2p::JobConnection> await_connector(Communicator& local, p2p::PortNumber port,
                                           const StillAwaited& go_on) {
  Instance& instance = local.instance;
  std::optional<p2p::JobConnection> accepted;
  Status ended;
  core::wait_until(instance, [&] {
    ended = instance.failures.check(local);
    if (go_on && ended.ok()) ended = go_on();
    if (!ended.ok()) return true;
    auto next = p2p::accept_process(instance, port);
    if (next)
      accepted = *next;
    else
      log::write(log::Level::warn, "a process of another job cannot connect: %s",
                 next.error().message().c_str());
    return accepted.has_value();
  });
  if (!ended.ok()) return std::move(ended).error();
  return *accepted;
}

}  // namespace

NewCommunicator accept_job(Communicator& local, int root, p2p::PortNumber port, const StillAwaited& go_on) {
  std::optional<Result<p2p::JobConnection>> connected;
  if (local.rank() == root) connected.emplace(await_connector(local, port, go_on));
  return Connector(local, root).run(connected ? &*connected : nullptr, true);
}

NewCommunicator connect_job(Communicator& local, int root, const std::string& port_name, size_t timeout_s) {
  std::optional<Result<p2p::JobConnection>> connected;
  if (local.rank() == root) connected.emplace(p2p::connect_process(local.instance, port_name, timeout_s));
  return Connector(local, root).run(connected ? &*connected : nullptr, false);
}

NewCommunicator connect_groups(Communicator& local, int root, const Bridge& bridge) {
  return Connector(local, root).run(bridge);
}

NewCommunicator fail_job(Communicator& local, int root, Error why) {
  Result<p2p::JobConnection> failed(std::move(why));
  return Connector(local, root).run(&failed, true);
}

Status disconnect_job(Communicator* comm) {
  Instance& instance = comm->instance;
  if (!instance.processes.any_others()) {
    comm->release();
    return {};
  }
  std::vector<ProcessId> members = comm->group->processes();
  if (comm->inter()) {
    const auto& remote = comm->remote_group->processes();
    members.insert(members.end(), remote.begin(), remote.end());
  }
  comm->release();
  return p2p::disconnect(instance, members);
}

}  // namespace weft::coll
