// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/job_connections.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "launch/fake_hosts.hpp"
#include "p2p/engine.hpp"

namespace weft::p2p {
namespace {

config::Size connect_timeout{"jobs.connect_timeout_s", 60, 1, 3600,
                             "Timeout in seconds for a process of another job to answer when jobs connect or "
                             "disconnect."};

constexpr uint64_t kNsPerSecond = 1'000'000'000;
constexpr uint64_t kAcceptIntervalNs = 200'000;  // an accept is a system call
constexpr size_t kMaxConnectRequests = 4096;

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
      [this](core::ProcessId known, const std::byte* message, size_t size) {
        return on_unknown_source(known, message, size);
      });
  const auto add = [&]<class F>(transport::am::HandlerId id, F) {
    handlers.add<JobMessage>(
        id, *this, [](JobConnections& jobs, uint32_t source, const JobMessage& message, size_t size) {
          const auto other = jobs.others_.find(source);
          if (other == jobs.others_.end()) return Engine::drop_malformed();
          F{}(jobs, source, other->second, message, size);
        });
  };
  add(kConnectRequest,
      [](JobConnections& jobs, uint32_t, Other& other, const JobMessage& message, size_t size) {
        if (message.context <= other.last_accepted) return Engine::drop_malformed();  // a duplicate
        jobs.on_connect_request(reinterpret_cast<const std::byte*>(&message), size);
      });
  add(kConnectReply,
      [](JobConnections& jobs, uint32_t source, Other& other, const JobMessage& message, size_t) {
        if (message.context == 0) return Engine::drop_malformed();
        if (message.context != other.requested) {
          other.stale_reply = true;
          if (other.reached) jobs.post(source, kWithdraw, message.context);
          return;
        }
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
    static_cast<void>(jobs.withdraw_request(message.context));
    other.withdrawn |= other.accepted != 0 && message.context == other.accepted;
  });
}

JobConnections::~JobConnections() { close_address(); }

Error JobConnections::no_answer(core::ProcessId process, const char* what) {
  return Error(Errc::other, "process " + std::to_string(process) + " of another job has not " + what +
                                " within " + std::to_string(static_cast<size_t>(connect_timeout)) +
                                " s: both jobs have to make the matching calls");
}

/// Progresses until done() or the timeout; returns done().
bool JobConnections::wait(const std::function<bool()>& done) {
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
  if (process != core::kNoProcess && others_.contains(process) && others_[process].connections != 0) {
    processes.release_job(*job);
    ++others_[process].connections;
    return process;
  }
  // Operations of its last connection may be in flight.
  if (process != core::kNoProcess && others_.contains(process)) {
    if (Status removed = remove({&process, 1}); !removed.ok()) {
      processes.release_job(*job);
      return std::move(removed).error();
    }
  }
  if (!processes.room_for(1)) {
    processes.release_job(*job);
    return Error(Errc::other, "more than " + std::to_string(core::kMaxOtherProcesses) +
                                  " processes of other jobs are connected: disconnect some");
  }
  process = processes.intern(*job, address->rank);
  processes.release_job(*job);
  processes.set_host(process, host_number(address->host));
  others_.emplace(process, Other{});  // reach() makes progress: messages of the process arrive meanwhile
  if (Status reached = reach(process, *address); !reached) {
    processes.release(process);
    return std::move(reached).error();
  }
  engine_.peers_.renew(process);
  others_[process].reached = true;
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
  const auto next = std::find_if(requests_.begin(), requests_.end(),
                                 [](const ConnectRequest& request) { return !request.taken; });
  if (next == requests_.end()) return std::optional<JobConnection>();
  next->taken = true;  // stays in the queue, from which a withdrawal removes it
  const ConnectRequest request = *next;
  auto process = add(request.address);
  if (!process) static_cast<void>(withdraw_request(request.context));
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
  other.accepted = other.last_accepted = context;
  other.withdrawn = !withdraw_request(context);
  if (!other.withdrawn) post(process, kConnectReply, context);
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

/// The connection of a process that has accepted a former request of this one begins with the message, unless
/// that process connects anew.
bool JobConnections::on_unknown_source(core::ProcessId known, const std::byte* message, size_t size) {
  const auto other = others_.find(known);
  const auto handler = size != 0 ? static_cast<transport::am::HandlerId>(message[0]) : kConnectRequest;
  const bool connects = handler == kConnectRequest || handler == kWithdraw;
  if (other != others_.end() && other->second.stale_reply && !connects) return true;
  on_connect_request(message, size);
  return false;
}

void JobConnections::on_connect_request(const std::byte* message, size_t size) {
  const auto& request = *reinterpret_cast<const JobMessage*>(message);
  if (size >= sizeof request && request.handler == kWithdraw && withdraw_request(request.context)) return;
  if (size < sizeof request || request.context == 0 || request.handler != kConnectRequest ||
      size - sizeof request < request.length || requests_.size() == kMaxConnectRequests || !listener_)
    return Engine::drop_malformed();
  const char* const address = reinterpret_cast<const char*>(message + sizeof request);
  ConnectRequest received{request.context, {address, request.length}};
  if (std::find(requests_.begin(), requests_.end(), received) != requests_.end())
    return Engine::drop_malformed();
  requests_.push_back(std::move(received));
}

/// Returns whether the request was there.
bool JobConnections::withdraw_request(core::ContextId context) {
  return std::erase_if(requests_, [&](const ConnectRequest& known) { return known.context == context; }) != 0;
}

void JobConnections::on_lost(core::ProcessId process) {
  if (const auto other = others_.find(process); other != others_.end()) other->second.lost = true;
}

}  // namespace weft::p2p
