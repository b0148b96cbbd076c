// SPDX-License-Identifier: BSD-3-Clause
// JobConnections: the engine's state of processes of other jobs. Interface: jobs.hpp.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "core/process_address.hpp"
#include "p2p/engine/jobs.hpp"
#include "transport/am/handlers.hpp"

namespace weft::p2p {

class Engine;

class JobConnections {
 public:
  explicit JobConnections(Engine& engine);
  ~JobConnections();
  JobConnections(const JobConnections&) = delete;
  JobConnections& operator=(const JobConnections&) = delete;

  [[nodiscard]] Result<std::string> address(Reach reach);
  void release_address();
  [[nodiscard]] Result<Port> open_port(Reach reach);
  bool close_port(PortNumber number);
  [[nodiscard]] Result<PortNumber> find_port(const std::string& name) const;
  [[nodiscard]] Result<JobConnection> connect(const std::string& port_name, size_t timeout_s);
  [[nodiscard]] Result<std::optional<JobConnection>> accept(PortNumber port);
  [[nodiscard]] Result<core::ProcessId> add(const std::string& address);
  void learn_hosts(const std::string& addresses);
  void allow_rings(std::span<const core::ProcessId> processes);
  void release(std::span<const core::ProcessId> processes);
  [[nodiscard]] Status disconnect(std::span<const core::ProcessId> processes);
  void give_up(core::ProcessId process);
  void abandon(std::span<const core::ProcessId> processes);

  /// Called by the engine when a process of another job is lost.
  void on_lost(core::ProcessId process);

 private:
  static constexpr transport::am::HandlerId kConnectRequest = transport::am::kSpawnHandlers,
                                            kConnectReply = kConnectRequest + 1,
                                            kDisconnect = kConnectRequest + 2, kConfirm = kConnectRequest + 3,
                                            kWithdraw = kConnectRequest + 4;
  struct Other {           // a process of another job, or one of this job that connects or is connected to
    uint32_t holds = 0;    ///< by a connection that is being made
    bool ended = false;    ///< disconnected; operations of the network may be in flight
    bool reached = false;  ///< messages can be sent
    core::ContextId requested = 0;      ///< of the connect request of this process that waits for a reply
    core::ContextId accepted = 0;       ///< of the accepted request that waits for its confirmation
    core::ContextId last_accepted = 0;  ///< requests of a process have increasing contexts
    bool withdrawn = false;             ///< the accepted request is
    bool connected = false;             ///< a connect request or reply was exchanged
    bool stale_reply = false;           ///< a reply to a former request has arrived
    bool disconnect_sent = false, peer_disconnected = false;
    bool abandoned = false;  ///< nothing is sent to it but the answer to its disconnect notice
    bool lost = false;
  };
  struct ConnectRequest {  // received, and not yet answered
    core::ContextId context;
    PortNumber port;
    std::string address;
    bool taken = false;  // by accept(), which connects to the process
    bool operator==(const ConnectRequest& other) const {
      return context == other.context && address == other.address;
    }
  };
  [[nodiscard]] Status open_network(const std::string& need);
  [[nodiscard]] int host_number(const std::string& host);
  void learn_host(const core::ProcessAddress& own);
  [[nodiscard]] Status reach(core::ProcessId process, const core::ProcessAddress& address);
  [[nodiscard]] Status map_segment(const core::ProcessAddress& address);
  [[nodiscard]] static Result<Port> parse_port(const std::string& name);
  [[nodiscard]] Result<JobConnection> try_connect(const std::string& port_name, size_t timeout_s);
  [[nodiscard]] Result<core::ProcessId> add_own(const core::ProcessAddress& address);
  [[nodiscard]] Result<core::ProcessId> add_other(const core::ProcessAddress& address);
  [[nodiscard]] bool lost(core::ProcessId process) const;
  [[nodiscard]] Status request_connection(core::ProcessId process, const ConnectRequest& request,
                                          size_t timeout_s);
  [[nodiscard]] Status send_request(core::ProcessId process, const ConnectRequest& request);
  [[nodiscard]] Status await_confirmation(core::ProcessId process, core::ContextId context);
  void post(core::ProcessId process, transport::am::HandlerId handler, core::ContextId context = 0);
  [[nodiscard]] bool on_unknown_source(core::ProcessId known, const std::byte* message, size_t size);
  void on_connect_request(const std::byte* message, size_t size);
  [[nodiscard]] bool withdraw_request(core::ContextId context);
  /// Forgets processes that have left MPI or, abandoned, have disconnected, if no communicator has them any
  /// more.
  void forget_departed();
  [[nodiscard]] bool unused(core::ProcessId process) const;
  [[nodiscard]] bool departed(core::ProcessId process) const;
  [[nodiscard]] bool in_contact(core::ProcessId process, const Other& other);
  [[nodiscard]] bool settled(core::ProcessId process);
  void answer(core::ProcessId process, Other& other);
  void forget(core::ProcessId process);
  [[nodiscard]] Status remove(std::span<const core::ProcessId> leaving);
  [[nodiscard]] static Error no_answer(core::ProcessId process, const char* what, size_t timeout_s = 0);
  /// In ns of monotonic_ns(); 0: jobs.connect_timeout_s.
  [[nodiscard]] static uint64_t deadline_of(size_t timeout_s);
  /// Progresses until done() or the timeout; returns done().
  template <class Done>
  [[nodiscard]] bool wait(Done&& done, size_t timeout_s = 0) {
    const uint64_t deadline = deadline_of(timeout_s);
    bool reached = false;
    core::wait_until(instance_, [&] { return (reached = done()) || monotonic_ns() > deadline; });
    return reached;
  }

  Engine& engine_;
  core::Instance& instance_;
  const launch::JobId job_;  // the own one
  const std::string host_;
  std::map<core::ProcessId, Other> others_;
  std::map<std::string, int> own_hosts_;  // numbers of hosts of the own job whose names are known
  std::vector<std::string> other_hosts_;  // names, by host number
  std::deque<ConnectRequest> requests_;
  std::set<PortNumber> ports_;  // open
  PortNumber last_port_ = 0;
  bool adding_ = false;                     // a thread is in add_other()
  uint32_t listener_users_ = 0;             // open ports, and calls of address() without release_address()
  std::unique_ptr<core::Poller> listener_;  // accepts requests for the segment
  std::string listener_name_;
};

}  // namespace weft::p2p
