// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/engine/connections.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/config.hpp"
#include "base/published.hpp"
#include "device/queue/submission_batcher.hpp"
#include "launch/cpus.hpp"
#include "launch/fake_hosts.hpp"
#include "p2p/engine/delivery.hpp"
#include "p2p/message/header.hpp"

namespace weft::p2p {
namespace {

constexpr uint32_t kRoundsPerNetworkPoll = 8;
constexpr size_t kLastPolls = 64, kMessagesPerPoll = 64;
constexpr uint64_t kNsPerUs = 1000;

config::Size late_messages_us{
    "net.late_messages_us", 0, 0, 1'000'000,
    "Longest time in microseconds for which arrived messages of a peer are held "
    "back, at random, so that messages of different peers arrive in rare orders; 0: "
    "none are."};

std::unique_ptr<transport::am::LateDelivery> late_delivery(core::Instance& instance) {
  if (late_messages_us == 0) return nullptr;
  return std::make_unique<transport::am::LateDelivery>(instance.handlers, late_messages_us * kNsPerUs,
                                                       static_cast<uint64_t>(::getpid()));
}

}  // namespace

Connections::Connections(core::Instance& instance)
    : instance_(instance),
      late_(late_delivery(instance)),
      receiver_(late_ != nullptr ? static_cast<transport::Receiver&>(*late_) : instance.handlers) {
  if (connected()) publish_waits();
}

Connections::~Connections() {
  instance_.shm = nullptr;
  instance_.network = nullptr;
}

Status Connections::open_network(const std::string& need, Delivery& delivery) {
  auto network = transport::open_network(instance_.exchange->job(), need);
  if (!network) return std::move(network).error();
  network_ = std::move(*network);
  instance_.network = network_.get();
  addresses_ = std::make_unique<transport::AddressBook>(*network_, *instance_.exchange);
  network_->start(*addresses_);
  delivery.check_sources();
  return {};
}

Status Connections::connect(Delivery& delivery) {
  if (connected()) return {};
  launch::Exchange& exchange = *instance_.exchange;
  const auto& job = exchange.job();
  if (job.size > EagerHeader::kMaxSource - static_cast<int>(core::kMaxOtherProcesses))
    return Error(Errc::other, "the job has " + std::to_string(job.size) + " processes: too many");
  const bool local_peers = job.local_size > 1, several_hosts = job.local_size != job.size;
  if (several_hosts && job.host_of_rank.empty())
    return Error(Errc::other, "the launcher (" + job.launcher +
                                  ") reports a job on several hosts, but not the host of each rank: use one "
                                  "that does (Weft's mpiexec, Hydra, Slurm, PRRTE)");
  transport::shm::Server server;
  if (local_peers) {
    auto published = transport::shm::Shm::publish(exchange);
    if (!published) return std::move(published).error();
    server = std::move(*published);
  }
  if (several_hosts) {
    WEFT_TRY(open_network("the job spans several hosts (" + std::to_string(job.local_size) + " of " +
                              std::to_string(job.size) +
                              " ranks are on this one) and there is no network between them:",
                          delivery));
    WEFT_TRY(transport::publish_address(*network_, exchange));
  }
  WEFT_TRY(exchange.share());
  if (local_peers) {
    auto shm = transport::shm::Shm::create(exchange, std::move(server));
    if (!shm) return std::move(shm).error();
    shm_ = std::move(*shm);
    instance_.shm = shm_.get();
  }
  publish_waits();
  if (several_hosts) WEFT_TRY(transport::check_addresses(*addresses_, exchange));
  count_cores();
  return {};
}

void Connections::publish_waits() {
  const auto& job = instance_.exchange->job();
  instance_.waits.open(shm_ != nullptr ? &shm_->wait_table(instance_.self) : nullptr, job.rank, job.size);
  const std::string host = launch::host_name(job);  // behind the boot id
  published::set_identity(job.id, host.substr(host.find('/') + 1),
                          job.launcher.substr(0, job.launcher.find(',')));
}

void Connections::count_cores() {
  const auto& job = instance_.exchange->job();
  const size_t cores = shm_ != nullptr ? shm_->usable_cores() : launch::allowed_cpus().size();
  instance_.cores = std::max(1u, static_cast<uint32_t>(cores / std::max(1, job.local_size)));
  instance_.oversubscribed =
      static_cast<size_t>(job.local_size) > cores || job.machine_size > ::sysconf(_SC_NPROCESSORS_ONLN);
  // Messages from another host cause no wake-up.
  instance_.notified_when_idle = instance_.oversubscribed && shm_ != nullptr && network_ == nullptr;
  if (instance_.oversubscribed && shm_ != nullptr) shm_->enable_wakeups();
}

bool Connections::poll_open(bool shm_progressed) {
  if (shm_progressed && ++network_rounds_ % kRoundsPerNetworkPoll != 0) return false;
  return network_->poll(receiver_, device::SubmissionBatcher::kMaxMessages) != 0;
}

bool Connections::deliver_late() { return late_->deliver_due(monotonic_ns()); }

void Connections::read_last_messages() {
  for (size_t i = 0; i < kLastPolls && shm_->poll(receiver_, kMessagesPerPoll) != 0;) ++i;
  if (late_ != nullptr) late_->deliver_all();
}

void Connections::forget(core::ProcessId process) {
  if (late_ != nullptr) late_->forget(process);
  if (addresses_ != nullptr) addresses_->remove(process);
}

Status Connections::open_segment() {
  WEFT_ASSERT(connected());
  if (shm_ != nullptr) return {};
  auto shm = transport::shm::Shm::create_alone(instance_.self);
  if (!shm) return std::move(shm).error();
  shm_ = std::move(*shm);
  instance_.shm = shm_.get();
  publish_waits();
  return {};
}

void Connections::leave_network() {
  if (network_ == nullptr) return;
  network_->send_disconnects();
  static Connections* closing = nullptr;
  static pid_t process = ::getpid();
  if (std::exchange(closing, this) == nullptr)
    std::atexit([] {
      if (process == ::getpid()) closing->network_->close();
    });
}

}  // namespace weft::p2p
