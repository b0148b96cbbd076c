// SPDX-License-Identifier: BSD-3-Clause
// Connections: the transports of this process: their start, and their end. Threading: under the instance
// lock.
#pragma once
#include <memory>
#include <string>

#include "core/instance.hpp"
#include "transport/am/late_delivery.hpp"
#include "transport/network.hpp"
#include "transport/shm/shm.hpp"

namespace weft::p2p {

class Delivery;

/// Owns the transports, which core::Instance names while they are open.
class Connections {
 public:
  explicit Connections(core::Instance& instance);
  ~Connections();
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;

  /// Publishes the addresses of shared memory and network, exchanges them once, then opens both. A job on one
  /// host opens no network. `delivery`: receives check their source once there is a network.
  [[nodiscard]] Status connect(Delivery& delivery);
  [[nodiscard]] bool connected() const {
    return shm_ != nullptr || network_ != nullptr || instance_.size == 1;
  }
  /// The only rank of its job on this host has no segment until it connects to another job.
  [[nodiscard]] Status open_segment();
  /// `need`: the beginning of the error.
  [[nodiscard]] Status open_network(const std::string& need, Delivery& delivery);
  /// Determines this rank's share of the cores, and whether ranks outnumber them.
  void count_cores();
  /// Delivers up to `max_messages` messages of this host. Returns false if there was none.
  [[nodiscard]] bool poll_shm(size_t max_messages) {
    const bool late = late_ != nullptr && deliver_late();
    return (shm_ != nullptr && shm_->poll(receiver_, max_messages) != 0) || late;
  }
  /// The same for other hosts. While shared memory progresses, the network is polled seldom.
  [[nodiscard]] bool poll_network(bool shm_progressed) {
    return network_ != nullptr && poll_open(shm_progressed);
  }
  /// Delivers the last messages of processes of this host that have ended.
  void read_last_messages();
  /// A process of another job is no longer known.
  void forget(core::ProcessId process);
  /// Returns whether no operation of the network is in flight.
  [[nodiscard]] bool network_idle() const { return network_ == nullptr || network_->idle(); }
  /// Sends disconnect notices, so that peers report no failure. The network is closed at process exit.
  void leave_network();
  /// The addresses of the network; null: none is open.
  [[nodiscard]] transport::AddressBook* addresses() const { return addresses_.get(); }

 private:
  void publish_waits();
  [[nodiscard]] bool poll_open(bool shm_progressed);
  [[nodiscard]] bool deliver_late();

  core::Instance& instance_;
  const std::unique_ptr<transport::am::LateDelivery> late_;  // null: no message is held back
  transport::Receiver& receiver_;                            // of all messages
  std::unique_ptr<transport::shm::Shm> shm_;                 // null: no other process on this host
  std::unique_ptr<transport::AddressBook> addresses_;        // of the network
  std::unique_ptr<transport::Network> network_;              // null: no process on another host
  uint32_t network_rounds_ = 0;                              // since the network was last polled
};

}  // namespace weft::p2p
