// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/job_connections.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "launch/fake_hosts.hpp"
#include "p2p/engine.hpp"
#include "p2p/protocol/states.hpp"

namespace weft::p2p {
namespace {

config::Size connect_timeout{"jobs.connect_timeout_s", 60, 1, 3600,
                             "Timeout in seconds for a process of another job to answer when jobs connect or "
                             "disconnect."};

constexpr uint64_t kNsPerSecond = 1'000'000'000;
constexpr uint64_t kAcceptIntervalNs = 200'000;  // an accept is a system call
constexpr size_t kMaxConnectRequests = 4096;

constexpr transport::am::HandlerId kConnectRequest = transport::am::kSpawnHandlers,
                                   kConnectReply = kConnectRequest + 1, kDisconnect = kConnectRequest + 2,
                                   kConfirm = kConnectRequest + 3, kWithdraw = kConnectRequest + 4;

/// A connect request is the first message of a process and followed by `length` bytes of its address. The
/// process confirms the reply, or withdraws the request if it no longer waits. A disconnect notice is the
/// last message.
struct JobMessage {
  transport::am::HandlerId handler;
  uint8_t unused[3];
  uint32_t length;
  core::ContextId context;  ///< names a connect request; for the messages of the connection
};

class ListenerPoller final : public core::Poller {
 public:
  explicit ListenerPoller(transport::shm::JobListener listener) : listener_(std::move(listener)) {}
  bool poll() override {
    const uint64_t now = monotonic_ns();
    if (now < next_) return false;
    next_ = now + kAcceptIntervalNs;
    return listener_.poll();
  }
  [[nodiscard]] bool idle() const override { return true; }

 private:
  transport::shm::JobListener listener_;
  uint64_t next_ = 0;
};

Error no_answer(core::ProcessId process, const char* what) {
  return Error(Errc::other, "process " + std::to_string(process) + " of another job has not " + what +
                                " within " + std::to_string(static_cast<size_t>(connect_timeout)) +
                                " s: both jobs have to make the matching calls");
}

}  // namespace

JobConnections::JobConnections(Engine& engine)
    : engine_(engine),
      instance_(engine.instance),
      job_(instance_.processes.job_id(core::kOwnJob)),
      host_(launch::host_name(instance_.exchange->job())) {
  instance_.processes.on_removed([this](core::ProcessId process) { forget(process); });
  auto& handlers = instance_.handlers;
  handlers.set_other_jobs(
      [this](uint32_t job_tag, uint32_t rank) { return instance_.processes.find(job_tag, rank); },
      [this](const std::byte* message, size_t size) { on_connect_request(message, size); });
  const auto add = [&]<class F>(transport::am::HandlerId id, F) {
    handlers.add<JobMessage>(
        id, *this, [](JobConnections& jobs, uint32_t source, const JobMessage& message, size_t size) {
          const auto other = jobs.others_.find(source);
          if (other == jobs.others_.end()) return Engine::drop_malformed();
          F{}(jobs, source, other->second, message, size);
        });
  };
  add(kConnectRequest, [](JobConnections& jobs, uint32_t, Other&, const JobMessage& message, size_t size) {
    jobs.on_connect_request(reinterpret_cast<const std::byte*>(&message), size);
  });
  add(kConnectReply,
      [](JobConnections& jobs, uint32_t source, Other& other, const JobMessage& message, size_t) {
        if (!other.connected || message.context == 0) return Engine::drop_malformed();
        if (message.context != other.requested) return jobs.post(source, kWithdraw, message.context);
        other.requested = 0;
        jobs.allow_rings({&source, 1});
        jobs.post(source, kConfirm, message.context);
      });
  add(kDisconnect, [](JobConnections&, uint32_t, Other& other, const JobMessage&, size_t) {
    other.peer_disconnected = true;
  });
  add(kConfirm, [](JobConnections&, uint32_t, Other& other, const JobMessage& message, size_t) {
    if (message.context != other.accepted) return Engine::drop_malformed();
    other.accepted = 0;
  });
  add(kWithdraw, [](JobConnections& jobs, uint32_t, Other& other, const JobMessage& message, size_t) {
    jobs.withdraw_request(message.context);
    other.withdrawn |= other.accepted != 0 && message.context == other.accepted;
  });
}

JobConnections::~JobConnections() { close_address(); }

/// Progresses until done() or the timeout; returns done().
template <class Done>
bool JobConnections::wait(Done&& done) {
  const uint64_t deadline = monotonic_ns() + static_cast<size_t>(connect_timeout) * kNsPerSecond;
  bool reached = false;
  core::wait_until(instance_, [&] { return (reached = done()) || monotonic_ns() > deadline; });
  return reached;
}

/// The only rank of its job on this host has no segment until it connects.
Status JobConnections::open_segment() {
  WEFT_ASSERT(engine_.connected());
  if (engine_.shm_ != nullptr) return {};
  auto shm = transport::shm::Shm::create_alone(instance_.self);
  if (!shm) return std::move(shm).error();
  engine_.shm_ = std::move(*shm);
  instance_.shm = engine_.shm_.get();
  return {};
}

Status JobConnections::open_network(const std::string& need) {
  if (engine_.network_ != nullptr) return {};
  WEFT_TRY(engine_.open_network(need));
  instance_.sleep_when_idle = false;  // messages from another host cause no wake-up
  return {};
}

Result<std::string> JobConnections::address(Reach reach) {
  WEFT_TRY(open_segment());
  if (reach == Reach::anywhere)
    WEFT_TRY(open_network("processes of other hosts cannot connect, since no network can be opened:"));
  if (!listener_) {
    auto listener = transport::shm::JobListener::create(job_, engine_.shm_->memory());
    if (!listener) return std::move(listener).error();
    listener_name_ = listener->name();
    listener_ = std::make_unique<ListenerPoller>(std::move(*listener));
    instance_.add(*listener_);
  }
  const launch::Job& job = instance_.exchange->job();
  core::ProcessAddress own;
  own.job = job_;
  own.size = instance_.size;
  own.rank = instance_.self;
  own.local_size = static_cast<uint32_t>(job.local_size);
  own.local_rank = static_cast<uint32_t>(job.local_rank);
  own.host = host_;
  own.segment = listener_name_;
  if (engine_.network_ != nullptr) own.network = transport::address_record(*engine_.network_);
  return own.text();
}

void JobConnections::close_address() {
  if (!listener_) return;
  instance_.remove(*listener_);
  listener_.reset();
}

/// Other hosts have numbers above those of the own job.
int JobConnections::host_number(const std::string& host) {
  if (host == host_) return instance_.host;
  const auto& own = instance_.exchange->job().host_of_rank;
  const int first = own.empty() ? 1 : *std::max_element(own.begin(), own.end()) + 1;
  const auto known = std::find(other_hosts_.begin(), other_hosts_.end(), host);
  const auto number = first + static_cast<int>(known - other_hosts_.begin());
  if (known == other_hosts_.end()) other_hosts_.push_back(host);
  return number;
}

Result<core::ProcessId> JobConnections::add(const std::string& text) {
  auto address = core::ProcessAddress::parse(text);
  if (!address) return std::move(address).error();
  if (address->job == job_) return Error(Errc::arg, "the address is that of a process of the same job");
  core::ProcessTable& processes = instance_.processes;
  auto job = processes.add_job(address->job, address->size);
  if (!job) return std::move(job).error();
  core::ProcessId process = processes.find(address->job.tag(), address->rank);
  if (process != core::kNoProcess && others_.contains(process)) {
    processes.release_job(*job);
    ++others_[process].connections;
    return process;
  }
  if (!processes.room_for(1)) {
    processes.release_job(*job);
    return Error(Errc::other, "more than " + std::to_string(core::kMaxOtherProcesses) +
                                  " processes of other jobs are connected: disconnect some");
  }
  process = processes.intern(*job, address->rank);
  processes.release_job(*job);
  processes.set_host(process, host_number(address->host));
  if (Status reached = reach(process, *address); !reached) {
    processes.release(process);
    return std::move(reached).error();
  }
  engine_.peers_.renew(process);
  others_.emplace(process, Other{});
  if (!instance_.same_host(process)) return process;
  instance_.watch(process);
  instance_.oversubscribed |=
      address->local_size + engine_.shm_->members().size() > engine_.shm_->usable_cores();
  return process;
}

/// Connects the transport that reaches the process.
Status JobConnections::reach(core::ProcessId process, const core::ProcessAddress& address) {
  if (instance_.same_host(process)) {
    WEFT_TRY(open_segment());
    WEFT_TRY(map_segment(address));
    return engine_.shm_->add(process, address.job, address.local_rank);
  }
  if (address.network.empty())
    return Error(Errc::unsupported, "the process at this address is on another host (" + address.host +
                                        ") and has opened no network: publish its address for other hosts");
  WEFT_TRY(open_network("the process at this address is on another host (" + address.host +
                        "), and no network to it can be opened:"));
  return engine_.addresses_->add(process, address.network);
}

Status JobConnections::map_segment(const core::ProcessAddress& address) {
  if (engine_.shm_->has_segment(address.job)) return {};
  transport::shm::SegmentRequest request(address.segment, address.job, address.local_size);
  std::optional<transport::shm::Segment> segment;
  Status failed;
  const bool ended = wait([&] {
    auto answer = request.poll();
    if (!answer)
      failed = std::move(answer).error();
    else if (*answer)
      segment = std::move(**answer);
    return !failed.ok() || segment;
  });
  WEFT_TRY(std::move(failed));
  if (!ended) return Error(Errc::other, "the other job on this host has not sent its shared memory in time");
  return engine_.shm_->add_segment(address.job, std::move(*segment), job_, instance_.self);
}

/// The request carries the address of this process. It is longer than a control message.
Status JobConnections::send_request(core::ProcessId process, core::ContextId context) {
  auto own = address(instance_.same_host(process) ? Reach::host : Reach::anywhere);
  if (!own) return std::move(own).error();
  const size_t size = sizeof(JobMessage) + own->size();
  transport::Transport& transport = *engine_.peers_[process].transport;
  if (size > transport.max_message(process))
    return Error(Errc::intern, "an address of " + std::to_string(own->size()) + " bytes exceeds a message");
  std::byte* slot = nullptr;
  if (!wait([&] { return others_[process].lost || (slot = transport.reserve(process, size)) != nullptr; }))
    return no_answer(process, "received messages");
  if (slot == nullptr) return engine_.loss_error(process);
  const JobMessage message{kConnectRequest, {}, static_cast<uint32_t>(own->size()), context};
  std::memcpy(slot, &message, sizeof message);
  std::memcpy(slot + sizeof message, own->data(), own->size());
  transport.commit(process, size);
  return {};
}

void JobConnections::post(core::ProcessId process, transport::am::HandlerId handler,
                          core::ContextId context) {
  const JobMessage message{handler, {}, 0, context};
  engine_.post_control(process, &message, sizeof message);
}

Result<JobConnection> JobConnections::connect(const std::string& address) {
  auto process = add(address);
  if (!process) return std::move(process).error();
  Other& other = others_[*process];
  other.connected = true;
  const core::ContextId context = instance_.new_contexts();
  other.requested = context;
  Status sent = send_request(*process, context);
  if (sent.ok() && !wait([&] { return other.requested == 0 || other.lost; })) {
    sent = no_answer(*process, "accepted the connection");
    post(*process, kWithdraw, context);
  }
  if (sent.ok() && other.lost) sent = engine_.loss_error(*process);
  if (!sent.ok()) {
    other.requested = 0;
    other.lost |= other.connections == 1;  // nobody answers a disconnect notice
    static_cast<void>(disconnect({&*process, 1}));
    return std::move(sent).error();
  }
  return JobConnection{*process, context};
}

Result<std::optional<JobConnection>> JobConnections::accept() {
  if (requests_.empty()) return std::optional<JobConnection>();
  const ConnectRequest request = std::move(requests_.front());
  requests_.pop_front();
  auto process = add(request.address);
  if (!process) return std::move(process).error();
  others_[*process].connected = true;
  allow_rings({&*process, 1});
  if (Status confirmed = await_confirmation(*process, request.context); !confirmed.ok()) {
    others_[*process].lost |= others_[*process].connections == 1;
    static_cast<void>(disconnect({&*process, 1}));
    return std::move(confirmed).error();
  }
  return std::optional(JobConnection{*process, request.context});
}

/// Replies to the request. The process may have given up meanwhile.
Status JobConnections::await_confirmation(core::ProcessId process, core::ContextId context) {
  Other& other = others_[process];
  other.accepted = context;
  other.withdrawn = false;
  post(process, kConnectReply, context);
  const bool ended = wait([&] { return other.accepted == 0 || other.withdrawn || other.lost; });
  if (std::exchange(other.accepted, 0) == 0) return {};
  if (other.lost) return engine_.loss_error(process);
  if (!ended) return no_answer(process, "confirmed its connect request");
  return Error(Errc::other, "the process has withdrawn its connect request (jobs.connect_timeout_s)");
}

void JobConnections::allow_rings(std::span<const core::ProcessId> processes) {
  for (const core::ProcessId process : processes)
    if (instance_.same_host(process)) engine_.shm_->allow_ring(process);
}

void JobConnections::on_connect_request(const std::byte* message, size_t size) {
  const auto& request = *reinterpret_cast<const JobMessage*>(message);
  if (size >= sizeof request && request.handler == kWithdraw) return withdraw_request(request.context);
  if (size < sizeof request || request.context == 0 || request.handler != kConnectRequest ||
      size - sizeof request < request.length || requests_.size() == kMaxConnectRequests || !listener_)
    return Engine::drop_malformed();
  const char* const address = reinterpret_cast<const char*>(message + sizeof request);
  ConnectRequest received{request.context, {address, request.length}};
  if (std::find(requests_.begin(), requests_.end(), received) != requests_.end())
    return Engine::drop_malformed();
  requests_.push_back(std::move(received));
}

void JobConnections::withdraw_request(core::ContextId context) {
  std::erase_if(requests_, [&](const ConnectRequest& request) { return request.context == context; });
}

void JobConnections::on_lost(core::ProcessId process) {
  if (const auto other = others_.find(process); other != others_.end()) other->second.lost = true;
}

/// Returns whether messages may have been exchanged. Over a network, a disconnect notice is not worth a
/// connection.
bool JobConnections::in_contact(core::ProcessId process, const Other& other) {
  const Peer& peer = engine_.peers_[process];
  return !peer.remote || other.connected || other.peer_disconnected || peer.sent != 0 || peer.arrived != 0 ||
         peer.eager_sent != 0 || peer.consumed != 0;
}

/// Returns whether no message to or from the process can follow. Sends the disconnect notice after the last
/// message.
bool JobConnections::settled(core::ProcessId process) {
  Other& other = others_.at(process);
  Peer& peer = engine_.peers_[process];
  if (other.lost) return true;
  if (!peer.requests.empty() || Engine::blocked(peer)) return false;
  if (!in_contact(process, other)) return true;
  if (!std::exchange(other.disconnect_sent, true)) post(process, kDisconnect);
  return other.peer_disconnected && !Engine::blocked(peer);
}

Status JobConnections::disconnect(std::span<const core::ProcessId> processes) {
  std::vector<core::ProcessId> leaving;
  for (const core::ProcessId process : processes) {
    WEFT_ASSERT(others_.contains(process) && others_[process].connections != 0);
    if (--others_[process].connections == 0) leaving.push_back(process);
  }
  Status outcome;
  // Every process gets its notice before this one waits for theirs.
  const bool in_time = wait([&] {
    bool done = true;
    for (const core::ProcessId process : leaving) done &= settled(process);
    return done;
  });
  for (const core::ProcessId process : leaving) {
    if (!in_time && outcome.ok() && !settled(process)) outcome = no_answer(process, "disconnected");
    if (others_[process].lost || settled(process)) continue;
    instance_.failures.report(process, Error(Errc::other, "it has not disconnected in time"));
  }
  const auto removed = [&](core::ProcessId process) {
    return !engine_.peers_[process].remote || engine_.network_->remove(process);
  };
  const bool all_removed = wait([&] {
    bool done = true;
    for (const core::ProcessId process : leaving) done &= removed(process);
    return done;
  });
  if (!all_removed && outcome.ok())
    outcome =
        Error(Errc::other, "the network has not completed its operations with a process of another job");
  // A process with operations in flight keeps its index.
  for (const core::ProcessId process : leaving)
    if (removed(process)) instance_.processes.release(process);
  return outcome;
}

/// Called when the last reference to a process is gone: its index may be used again.
void JobConnections::forget(core::ProcessId process) {
  Engine& e = engine_;
  Peer& peer = e.peers_[process];
  WEFT_ASSERT(peer.requests.empty());
  peer.lost = true;
  peer.pending.reset();
  peer.in_backlog = false;
  std::erase(e.backlog_, process);
  std::vector<UnexpectedMessage*> unmatched;
  e.unexpected_.for_all([&](match::MatchEntry& entry) {
    auto& message = static_cast<UnexpectedMessage&>(entry);
    if (message.peer == process) unmatched.push_back(&message);
  });
  for (UnexpectedMessage* message : unmatched) {
    e.unexpected_.remove(*message);
    e.dispose(*message);
  }
  instance_.memory->forget(process);
  e.gpudirect().forget_peer(process);
  instance_.failures.forget(process);
  if (e.shm_) e.shm_->remove(process);
  if (e.addresses_) e.addresses_->remove(process);
  others_.erase(process);
}

// The interface: jobs.hpp.

Result<std::string> job_address(core::Instance& instance, Reach reach) {
  return instance.engine->jobs().address(reach);
}
void close_job_address(core::Instance& instance) { instance.engine->jobs().close_address(); }
Result<JobConnection> connect_process(core::Instance& instance, const std::string& address) {
  return instance.engine->jobs().connect(address);
}
Result<std::optional<JobConnection>> accept_process(core::Instance& instance) {
  return instance.engine->jobs().accept();
}
Result<core::ProcessId> add_process(core::Instance& instance, const std::string& address) {
  return instance.engine->jobs().add(address);
}
void allow_rings(core::Instance& instance, std::span<const core::ProcessId> processes) {
  instance.engine->jobs().allow_rings(processes);
}
Status disconnect(core::Instance& instance, std::span<const core::ProcessId> processes) {
  return instance.engine->jobs().disconnect(processes);
}

}  // namespace weft::p2p
