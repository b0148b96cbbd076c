// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/job_connections.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "launch/fake_hosts.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/message/errors.hpp"
#include "p2p/message/validate.hpp"

namespace weft::p2p {
namespace {

config::Size connect_timeout{"jobs.connect_timeout_s", 60, 1, 3600,
                             "Timeout in seconds for a process of another job to answer when jobs connect or "
                             "disconnect."};

constexpr uint64_t kNsPerSecond = 1'000'000'000;
constexpr size_t kMaxConnectRequests = 4096;

/// A connect request is the first message of a process and followed by `length` bytes of its address. The
/// process confirms the reply, or withdraws the request if it no longer waits. A disconnect notice is the
/// last message.
struct JobMessage {
  transport::am::HandlerId handler;
  uint8_t unused[3];
  uint32_t length;
  core::ContextId context;  ///< names a connect request; for the messages of the connection
  PortNumber port;          ///< of a connect request
  uint32_t unused_too;
};

Error not_accepted(core::ProcessId process) {
  return Error(Errc::proc_aborted,
               "process " + std::to_string(process) + " has left MPI without accepting the connection");
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
      [this](core::ProcessId known, const std::byte* message, size_t size) {
        return on_unknown_source(known, message, size);
      });
  const auto add = [&]<class F>(transport::am::HandlerId id, F) {
    handlers.add<JobMessage>(
        id, *this, [](JobConnections& jobs, uint32_t source, const JobMessage& message, size_t size) {
          const auto other = jobs.others_.find(source);
          if (other == jobs.others_.end()) return drop_malformed();
          F{}(jobs, source, other->second, message, size);
        });
  };
  // A process of this job has sent nothing to JobConnections before its request.
  handlers.add<JobMessage>(kConnectRequest, *this,
                           [](JobConnections& jobs, uint32_t source, const JobMessage& message, size_t size) {
                             const auto other = jobs.others_.find(source);
                             const bool duplicate = other != jobs.others_.end() &&
                                                    message.context <= other->second.last_accepted;
                             if (duplicate) return drop_malformed();
                             jobs.on_connect_request(reinterpret_cast<const std::byte*>(&message), size);
                           });
  add(kConnectReply,
      [](JobConnections& jobs, uint32_t source, Other& other, const JobMessage& message, size_t) {
        if (message.context == 0) return drop_malformed();
        if (message.context != other.requested) {
          other.stale_reply = true;
          if (other.reached) jobs.post(source, kWithdraw, message.context);
          return;
        }
        other.requested = 0;
        jobs.allow_rings({&source, 1});
        jobs.post(source, kConfirm, message.context);
      });
  add(kDisconnect, [](JobConnections& jobs, uint32_t source, Other& other, const JobMessage&, size_t) {
    other.peer_disconnected = true;
    if (other.abandoned) jobs.answer(source, other);
  });
  add(kConfirm, [](JobConnections&, uint32_t, Other& other, const JobMessage& message, size_t) {
    if (message.context != other.accepted) return drop_malformed();
    other.accepted = 0;
  });
  add(kWithdraw, [](JobConnections& jobs, uint32_t, Other& other, const JobMessage& message, size_t) {
    static_cast<void>(jobs.withdraw_request(message.context));
    other.withdrawn |= other.accepted != 0 && message.context == other.accepted;
  });
}

JobConnections::~JobConnections() {
  if (listener_ != nullptr) instance_.remove(*listener_);
}

Error JobConnections::no_answer(core::ProcessId process, const char* what, size_t timeout_s) {
  return Error(Errc::other,
               "process " + std::to_string(process) + " of another job has not " + what + " within " +
                   std::to_string(timeout_s != 0 ? timeout_s : static_cast<size_t>(connect_timeout)) +
                   " s: both jobs have to make the matching calls");
}

uint64_t JobConnections::deadline_of(size_t timeout_s) {
  const size_t seconds = timeout_s != 0 ? timeout_s : static_cast<size_t>(connect_timeout);
  return monotonic_ns() + seconds * kNsPerSecond;
}

/// The request carries the address of this process. It is longer than a control message.
Status JobConnections::send_request(core::ProcessId process, const ConnectRequest& request) {
  const std::string& own = request.address;
  const size_t size = sizeof(JobMessage) + own.size();
  transport::Transport& transport = *engine_.peers[process].transport;
  if (size > transport.max_message(process))
    return Error(Errc::intern, "an address of " + std::to_string(own.size()) + " bytes exceeds a message");
  std::byte* slot = nullptr;
  const auto reserved = [&] { return (slot = transport.reserve(process, size)) != nullptr; };
  if (!wait([&] { return lost(process) || departed(process) || reserved(); }))
    return no_answer(process, "received messages");
  if (slot == nullptr) return lost(process) ? loss_error(instance_, process) : not_accepted(process);
  const JobMessage message{kConnectRequest, {},           static_cast<uint32_t>(own.size()),
                           request.context, request.port, 0};
  std::memcpy(slot, &message, sizeof message);
  std::memcpy(slot + sizeof message, own.data(), own.size());
  transport.commit(process, size);
  return {};
}

void JobConnections::post(core::ProcessId process, transport::am::HandlerId handler,
                          core::ContextId context) {
  const JobMessage message{handler, {}, 0, context, 0, 0};
  engine_.outgoing.post_control(process, &message, sizeof message);
}

/// Errors of a connection attempt have the class of a wrong port.
Result<JobConnection> JobConnections::connect(const std::string& port_name, size_t timeout_s) {
  auto connected = try_connect(port_name, timeout_s);
  if (connected || connected.error().code() == Errc::no_mem) return connected;
  return Error(Errc::port, connected.error().message());
}

Result<JobConnection> JobConnections::try_connect(const std::string& port_name, size_t timeout_s) {
  auto port = parse_port(port_name);
  if (!port) return std::move(port).error();
  auto process = add(port->name);
  if (!process) return std::move(process).error();
  const core::ContextId context = instance_.new_contexts();
  Status status;
  if (auto own = address(instance_.same_host(*process) ? Reach::host : Reach::anywhere)) {
    status = request_connection(*process, {context, port->number, *own}, timeout_s);
    release_address();
  } else {
    status = std::move(own).error();
  }
  if (status.ok()) return JobConnection{*process, context};
  give_up(*process);
  return std::move(status).error();
}

/// Returns when the process has accepted. A process that has left MPI is not going to.
Status JobConnections::request_connection(core::ProcessId process, const ConnectRequest& request,
                                          size_t timeout_s) {
  Other& other = others_[process];
  other.connected = true;
  other.requested = request.context;
  Status sent = send_request(process, request);
  const auto ended = [&] { return other.requested == 0 || lost(process) || departed(process); };
  if (sent.ok() && !wait(ended, timeout_s)) {
    sent = no_answer(process, "accepted the connection", timeout_s);
    post(process, kWithdraw, request.context);
  }
  if (sent.ok() && lost(process)) sent = loss_error(instance_, process);
  if (sent.ok() && other.requested != 0) sent = not_accepted(process);
  other.requested = 0;
  return sent;
}

/// Ends the hold of a connection that has failed. Nobody answers a disconnect notice.
void JobConnections::give_up(core::ProcessId process) {
  release({&process, 1});
  if (const auto other = others_.find(process); other != others_.end() && unused(process))
    other->second.lost = true;
  static_cast<void>(disconnect({&process, 1}));
}

Result<std::optional<JobConnection>> JobConnections::accept(PortNumber port) {
  const auto next = std::find_if(requests_.begin(), requests_.end(), [&](const ConnectRequest& request) {
    return request.port == port && !request.taken;
  });
  if (next == requests_.end()) return std::optional<JobConnection>();
  next->taken = true;  // stays in the queue, from which a withdrawal removes it
  const ConnectRequest request = *next;
  auto process = add(request.address);
  if (!process) static_cast<void>(withdraw_request(request.context));
  if (!process) return std::move(process).error();
  others_[*process].connected = true;
  allow_rings({&*process, 1});
  if (Status confirmed = await_confirmation(*process, request.context); !confirmed.ok()) {
    give_up(*process);
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
  const bool ended = wait([&] { return other.accepted == 0 || other.withdrawn || lost(process); });
  if (std::exchange(other.accepted, 0) == 0) return {};
  if (lost(process)) return loss_error(instance_, process);
  if (!ended) return no_answer(process, "confirmed its connect request");
  return Error(Errc::other, "the process has withdrawn its connect request (jobs.connect_timeout_s)");
}

void JobConnections::allow_rings(std::span<const core::ProcessId> processes) {
  for (const core::ProcessId process : processes)
    if (!instance_.processes.in_own_job(process) && instance_.same_host(process))
      instance_.shm->allow_ring(process);
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
      size - sizeof request < request.length || requests_.size() == kMaxConnectRequests ||
      !ports_.contains(request.port))
    return drop_malformed();
  const char* const address = reinterpret_cast<const char*>(message + sizeof request);
  ConnectRequest received{request.context, request.port, {address, request.length}};
  if (std::find(requests_.begin(), requests_.end(), received) != requests_.end()) return drop_malformed();
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
