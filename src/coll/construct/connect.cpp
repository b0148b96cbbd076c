// SPDX-License-Identifier: BSD-3-Clause
#include "coll/construct/connect.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "coll/bootstrap/group.hpp"
#include "core/instance.hpp"
#include "p2p/jobs.hpp"

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

/// The communicator of the two roots, at a root; else null.
using Bridge = Ref<Communicator>;

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
    WEFT_TRY(agree(std::move(bridged), "the root could not connect to the other job"));
    Status status = exchange_addresses(accepts);
    WEFT_TRY(agree_with_other_side(std::move(status)));
    NewCommunicator made = build();
    if (made.ok() && *made == nullptr)
      return Error(Errc::no_mem, "out of memory for another communicator: free some");
    return made;
  }

  ~Connector() {
    if (bridge_) {
      bridge_ = {};
      static_cast<void>(p2p::disconnect(instance_, {&root_process_, 1}));  // one of its two connections
    }
  }
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;

 private:
  [[nodiscard]] bool is_root() const { return local_.rank() == root_; }

  Status make_bridge(Result<p2p::JobConnection>* connected) {
    if (!is_root()) return {};
    if (!*connected) return std::move(*connected).error();
    root_process_ = (*connected)->process;
    Ref<Group> here(Group::create({instance_.self}, instance_.self));
    Ref<Group> there(Group::create({root_process_}, instance_.self));
    bridge_ =
        Bridge(Communicator::create(instance_, (*connected)->context, std::move(here), std::move(there)));
    return bridge_ ? Status() : Error(Errc::no_mem, "out of memory for another communicator: free some");
  }

  /// All ranks of this side return an error if one of them has one.
  Status agree(Status mine, const char* else_) {
    std::vector<uint8_t> failed(static_cast<size_t>(bootstrap_.size()));
    failed[static_cast<size_t>(bootstrap_.rank())] = mine.ok() ? 0 : 1;
    WEFT_TRY(bootstrap_.allgather(failed.data(), 1));
    if (!mine.ok()) return mine;
    if (std::find(failed.begin(), failed.end(), 1) == failed.end()) return {};
    return Error(Errc::other, std::string(else_) + ": see the error of another rank");
  }

  /// No process sends to the other side before all of both sides are ready to receive.
  Status agree_with_other_side(Status mine) {
    Status agreed = agree(std::move(mine), "a process could not connect to the other job");
    uint8_t here = agreed.ok() ? 1 : 0, there = 0;
    if (is_root()) {
      Status exchanged = sendrecv_bytes(*bridge_, &here, 1, 0, &there, 1, 0, kTag);
      if (!exchanged.ok()) there = 0;
    }
    WEFT_TRY(bootstrap_.broadcast(&there, 1, root_));
    if (!agreed.ok() || there == 1) {
      if (!agreed.ok()) forget_remote();
      return agreed;
    }
    forget_remote();
    return Error(Errc::other, "the other job could not connect to this one: see its own error");
  }

  void forget_remote() { static_cast<void>(p2p::disconnect(instance_, std::exchange(remote_, {}))); }

  /// The addresses of all ranks of this side, each followed by a line end; significant at the root.
  Result<std::string> gather_addresses(Reach reach) {
    auto mine = p2p::job_address(instance_, reach);
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

  /// Both sides use the host's shared memory if all of their processes are on one host.
  Result<Reach> agree_on_reach() {
    uint8_t anywhere = 1;
    if (is_root()) {
      uint8_t here = local_.on_one_host() && instance_.same_host(root_process_) ? 0 : 1, there = 1;
      if (!sendrecv_bytes(*bridge_, &here, 1, 0, &there, 1, 0, kTag).ok()) there = 1;
      anywhere = here | there;
    }
    WEFT_TRY(bootstrap_.broadcast(&anywhere, 1, root_));
    return anywhere != 0 ? Reach::anywhere : Reach::host;
  }

  Status exchange_addresses(bool accepts) {
    auto reach = agree_on_reach();
    if (!reach) return std::move(reach).error();
    auto mine = gather_addresses(*reach);
    Side here{0, mine ? mine->size() : 0}, there{};
    std::string theirs;
    Status exchanged;
    if (is_root()) {
      here.context = instance_.new_contexts(kIdsPerIntercomm);
      exchanged = sendrecv_bytes(*bridge_, &here, sizeof here, 0, &there, sizeof there, 0, kTag);
      theirs.resize(there.bytes);
      if (exchanged.ok() && here.bytes != 0 && there.bytes != 0)
        exchanged =
            sendrecv_bytes(*bridge_, mine->data(), here.bytes, 0, theirs.data(), there.bytes, 0, kTag);
      if (!exchanged.ok()) there.bytes = 0;
      if (!accepts) there.context = here.context;
    }
    if (!mine) return std::move(mine).error();
    WEFT_TRY(bootstrap_.broadcast(&there, sizeof there, root_));
    WEFT_TRY(std::move(exchanged));
    if (there.bytes == 0) return Error(Errc::other, "the other job has failed to connect: see its own error");
    context_ = there.context;
    theirs.resize(there.bytes);
    WEFT_TRY(bootstrap_.broadcast(theirs.data(), theirs.size(), root_));
    for (size_t begin = 0; begin < theirs.size();) {
      const size_t end = theirs.find('\n', begin);
      auto process = p2p::add_process(instance_, theirs.substr(begin, end - begin));
      if (!process) return std::move(process).error();
      remote_.push_back(*process);
      begin = end + 1;
    }
    return {};
  }

  NewCommunicator build() {
    p2p::allow_rings(instance_, remote_);
    Ref<Group> remote(Group::create(remote_, instance_.self));
    if (!remote) return nullptr;
    Communicator* const intercomm = assemble(instance_, context_, local_.group, std::move(remote));
    if (intercomm == nullptr) return nullptr;
    return inherit(local_, intercomm);
  }

  Communicator& local_;
  Instance& instance_;
  const int root_;
  BootstrapGroup bootstrap_;
  Bridge bridge_;
  ProcessId root_process_ = core::kNoProcess;
  std::vector<ProcessId> remote_;
  ContextId context_ = 0;
};

/// The next connector. Errors of single connectors are theirs; the root goes on waiting.
p2p::JobConnection await_connector(Instance& instance) {
  std::optional<p2p::JobConnection> accepted;
  core::wait_until(instance, [&] {
    auto next = p2p::accept_process(instance);
    if (next)
      accepted = *next;
    else
      log::write(log::Level::warn, "a process of another job cannot connect: %s",
                 next.error().message().c_str());
    return accepted.has_value();
  });
  return *accepted;
}

}  // namespace

NewCommunicator accept_job(Communicator& local, int root) {
  std::optional<Result<p2p::JobConnection>> connected;
  if (local.rank() == root) connected.emplace(await_connector(local.instance));
  return Connector(local, root).run(connected ? &*connected : nullptr, true);
}

NewCommunicator connect_job(Communicator& local, int root, const std::string& address) {
  std::optional<Result<p2p::JobConnection>> connected;
  if (local.rank() == root) connected.emplace(p2p::connect_process(local.instance, address));
  return Connector(local, root).run(connected ? &*connected : nullptr, false);
}

Status disconnect_job(Communicator* intercomm) {
  Instance& instance = intercomm->instance;
  const std::vector<ProcessId> remote = intercomm->remote_group->processes();
  intercomm->release();
  return p2p::disconnect(instance, remote);
}

}  // namespace weft::coll
