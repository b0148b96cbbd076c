// SPDX-License-Identifier: BSD-3-Clause
// Addresses of processes: that of this one with its ports, and those of other jobs, which it makes known.
#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "launch/fake_hosts.hpp"
#include "p2p/engine/engine.hpp"
#include "p2p/engine/job_connections.hpp"

namespace weft::p2p {
namespace {

constexpr char kPortSeparator = '@';
constexpr uint64_t kAcceptIntervalNs = 200'000;  // an accept is a system call

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

Status JobConnections::open_network(const std::string& need) {
  if (instance_.network != nullptr) return {};
  WEFT_TRY(engine_.connections.open_network(need, engine_.delivery));
  instance_.notified_when_idle = false;  // messages from another host cause no wake-up
  return {};
}

Result<std::string> JobConnections::address(Reach reach) {
  WEFT_TRY(engine_.connections.open_segment());
  if (reach != Reach::host) {
    Status opened = open_network("processes of other hosts cannot connect, since no network can be opened:");
    if (!opened.ok() && reach == Reach::anywhere) return std::move(opened).error();
    if (!opened.ok()) log::write(log::Level::info, "%s", opened.error().message().c_str());
  }
  if (listener_ == nullptr) {
    auto listener = transport::shm::JobListener::create(job_, instance_.shm->memory());
    if (!listener) return std::move(listener).error();
    listener_name_ = listener->name();
    listener_ = std::make_unique<ListenerPoller>(std::move(*listener));
    instance_.add(*listener_);
  }
  ++listener_users_;
  const launch::Job& job = instance_.exchange->job();
  core::ProcessAddress own;
  own.job = job_;
  own.size = instance_.size;
  own.rank = instance_.self;
  own.local_size = static_cast<uint32_t>(job.local_size);
  own.local_rank = static_cast<uint32_t>(job.local_rank);
  own.host = host_;
  own.segment = listener_name_;
  if (instance_.network != nullptr) own.network = transport::address_record(*instance_.network);
  return own.text();
}

void JobConnections::release_address() {
  WEFT_ASSERT(listener_users_ != 0);
  if (--listener_users_ != 0) return;
  instance_.remove(*listener_);
  listener_.reset();
}

Result<Port> JobConnections::open_port(Reach reach) {
  auto own = address(reach);
  if (!own) return std::move(own).error();
  const PortNumber number = ++last_port_;
  ports_.insert(number);
  return Port{number, std::to_string(number) + kPortSeparator + *own};
}

bool JobConnections::close_port(PortNumber number) {
  if (ports_.erase(number) == 0) return false;
  std::erase_if(requests_, [&](const ConnectRequest& request) { return request.port == number; });
  release_address();
  return true;
}

/// The address of the process, and the number of its port.
Result<Port> JobConnections::parse_port(const std::string& name) {
  const size_t separator = name.find(kPortSeparator);
  Port port{0, separator == std::string::npos ? std::string() : name.substr(separator + 1)};
  const char* const end = name.data() + std::min(separator, name.size());
  if (separator == std::string::npos || std::from_chars(name.data(), end, port.number).ptr != end)
    return Error(Errc::port,
                 std::string("'").append(name, 0, 80) + "' is not the name of a port (MPI_Open_port)");
  return port;
}

Result<PortNumber> JobConnections::find_port(const std::string& name) const {
  auto port = parse_port(name);
  if (!port) return std::move(port).error();
  auto address = core::ProcessAddress::parse(port->name);
  if (!address) return Error(Errc::port, address.error().message());
  if (address->job == job_ && address->rank == instance_.self && ports_.contains(port->number))
    return port->number;
  return Error(Errc::port,
               "port_name is not an open port of this process: MPI_Open_port at the root makes one");
}

/// Hosts without a known process of the own job have numbers above those of that job.
int JobConnections::host_number(const std::string& host) {
  if (host == host_) return instance_.host;
  if (const auto found = own_hosts_.find(host); found != own_hosts_.end()) return found->second;
  const auto& own = instance_.exchange->job().host_of_rank;
  const int first = own.empty() ? 1 : *std::max_element(own.begin(), own.end()) + 1;
  const auto known = std::find(other_hosts_.begin(), other_hosts_.end(), host);
  const auto number = first + static_cast<int>(known - other_hosts_.begin());
  if (known == other_hosts_.end()) other_hosts_.push_back(host);
  return number;
}

/// A process of the own job names its host: processes of other jobs there get the number of that host.
void JobConnections::learn_host(const core::ProcessAddress& own) {
  const auto& hosts = instance_.exchange->job().host_of_rank;
  if (own.rank >= hosts.size() || own.host == host_ || own_hosts_.contains(own.host)) return;
  const int before = host_number(own.host), now = hosts[own.rank];
  own_hosts_.emplace(own.host, now);
  core::ProcessTable& processes = instance_.processes;
  for (const auto& [process, other] : others_)
    if (!processes.in_own_job(process) && processes.host_of(process) == before)
      processes.set_host(process, now);
}

void JobConnections::learn_hosts(const std::string& addresses) {
  for (size_t begin = 0; begin < addresses.size();) {
    const size_t end = std::min(addresses.find('\n', begin), addresses.size());
    auto address = core::ProcessAddress::parse(addresses.substr(begin, end - begin));
    if (address && address->job == job_) learn_host(*address);
    begin = end + 1;
  }
}

Result<core::ProcessId> JobConnections::add(const std::string& text) {
  auto address = core::ProcessAddress::parse(text);
  if (!address) return std::move(address).error();
  if (address->job == job_) return add_own(*address);
  // Mapping a segment takes progress, in which another thread may add the same job.
  if (!wait([&] { return !adding_; }))
    return Error(Errc::other, "another thread of this process has not connected in time");
  adding_ = true;
  forget_departed();
  auto process = add_other(*address);
  adding_ = false;
  return process;
}

Result<core::ProcessId> JobConnections::add_other(const core::ProcessAddress& address) {
  core::ProcessTable& processes = instance_.processes;
  auto job = processes.add_job(address.job, address.size);
  if (!job) return std::move(job).error();
  core::ProcessId process = processes.find(address.job.tag(), address.rank);
  const bool known = process != core::kNoProcess && others_.contains(process);
  if (known && !others_[process].ended) {
    processes.release_job(*job);
    ++others_[process].holds;
    others_[process].abandoned = false;
    return process;
  }
  // Operations of its last connection may be in flight.
  if (known)
    if (Status removed = remove({&process, 1}); !removed.ok()) {
      processes.release_job(*job);
      return std::move(removed).error();
    }
  if (!processes.room_for(1)) {
    processes.release_job(*job);
    return Error(Errc::other, "more than " + std::to_string(core::kMaxOtherProcesses) +
                                  " processes of other jobs are connected: disconnect some");
  }
  process = processes.intern(*job, address.rank);
  processes.release_job(*job);
  processes.set_host(process, host_number(address.host));
  others_[process].holds = 1;  // reach() makes progress: messages of the process arrive meanwhile
  if (Status reached = reach(process, address); !reached) {
    processes.release(process);
    return std::move(reached).error();
  }
  engine_.peers.renew(process);
  others_[process].reached = true;
  if (!instance_.same_host(process)) return process;
  instance_.watch(process);
  instance_.oversubscribed |=
      address.local_size + instance_.shm->members().size() > instance_.shm->usable_cores();
  return process;
}

/// A process of this job is connected already.
Result<core::ProcessId> JobConnections::add_own(const core::ProcessAddress& address) {
  if (address.size != instance_.size)
    return Error(Errc::arg, "the address names a job of another size: it is damaged");
  if (address.rank == instance_.self)
    return Error(Errc::arg, "the address is that of this process, which cannot connect to itself");
  learn_host(address);
  ++others_[address.rank].holds;
  return address.rank;
}

/// Connects the transport that reaches the process.
Status JobConnections::reach(core::ProcessId process, const core::ProcessAddress& address) {
  if (instance_.same_host(process)) {
    WEFT_TRY(engine_.connections.open_segment());
    WEFT_TRY(map_segment(address));
    return instance_.shm->add(process, address.job, address.local_rank);
  }
  if (address.network.empty())
    return Error(Errc::unsupported,
                 "the process at this address is on another host (" + address.host +
                     ") and has opened no network: set WEFT_JOBS_REACH=anywhere there, whose error "
                     "names the reason if none can be opened");
  WEFT_TRY(open_network("the process at this address is on another host (" + address.host +
                        "), and no network to it can be opened:"));
  return engine_.connections.addresses()->add(process, address.network);
}

Status JobConnections::map_segment(const core::ProcessAddress& address) {
  if (instance_.shm->has_segment(address.job)) return {};
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
  return instance_.shm->add_segment(address.job, std::move(*segment), job_, instance_.self);
}

}  // namespace weft::p2p
