// SPDX-License-Identifier: BSD-3-Clause
// One of two jobs that connect: messages between all processes of both jobs while each job keeps its own
// traffic, disconnection, a job that is killed. Arguments: accept or connect, file of the address, mode
// (traffic, killed, exits, withdrawn, late_reply, abandoned), number of connections. Or one of several jobs
// that connect and disconnect in turn: its number, file of the addresses, mode random, number of steps, seed,
// host of each job (as 001). connect.py runs it.
#include "connect.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "../live_objects.h"
#include "base/clock.hpp"
#include "base/config.hpp"
#include "coll/construct/connect.hpp"
#include "core/process_address.hpp"
#include "datatype/predefined.hpp"
#include "p2p/engine/jobs.hpp"
#include "p2p/p2p.hpp"
#include "transport/shm/shm.hpp"

namespace weft::coll {
namespace {

class Job {
 public:
  Job(Instance& instance, Communicator& world, bool accepts, std::string file)
      : instance_(instance), world_(world), accepts_(accepts), file_(std::move(file)) {
    const char* reach = std::getenv("TEST_REACH");
    reach_ = reach != nullptr && std::string(reach) == "anywhere" ? p2p::Reach::anywhere : p2p::Reach::host;
  }

  Communicator* connect() { return connect(accepts_, file_, reach_); }

  Communicator* connect(bool accepts, const std::string& file, p2p::Reach reach) {
    if (accepts) {
      open_port(file, reach);
      return checked(accept_job(world_, 0, port_), "accept_job");
    }
    const std::string address = world_.rank() == 0 ? await(file) : "";
    return checked(connect_job(world_, 0, address), "connect_job");
  }

  /// Traffic inside of the job and between the jobs at once.
  void exchange(Communicator& intercomm, int round) {
    Exchange inside(world_, round), between(intercomm, round + 1), more(world_, round + 2);
    between.finish(instance_);
    inside.finish(instance_);
    more.finish(instance_);
  }

  void check_names(Communicator& intercomm) const {
    for (int rank = 0; rank < intercomm.remote_size(); ++rank) {
      const core::ProcessId process = intercomm.process(rank);
      CHECK(!instance_.processes.in_own_job(process) && process >= instance_.size);
      CHECK(instance_.processes.at(process).rank == static_cast<uint32_t>(rank));
    }
    const auto creator = static_cast<uint32_t>(intercomm.id >> core::kCreatorShift);
    CHECK(instance_.processes.is_creator(creator));
    const uint32_t own = instance_.processes.first_creator(core::kOwnJob);
    CHECK((creator - own < instance_.size) == !accepts_);  // the connecting side has made the id
  }

  /// A communicator of both jobs: messages by its ranks, and a communicator derived from it.
  void merge(Communicator& intercomm) {
    Ref<Communicator> merged(checked(intercomm_merge(intercomm, accepts_), "intercomm_merge"));
    CHECK(merged->size() == intercomm.size() + intercomm.remote_size());
    Exchange(*merged, 50).finish(instance_);
    Ref<Communicator> copy(checked(duplicate(*merged), "duplicate"));
    Exchange(*copy, 60).finish(instance_);
    barrier(*merged);
  }

  void traffic(int connections) {
    size_t descriptors = 0;
    for (int i = 0; i < connections; ++i) {
      Communicator* const intercomm = connect();
      check_names(*intercomm);
      for (int round = 0; round < 3; ++round) exchange(*intercomm, 10 * round);
      merge(*intercomm);
      CHECK(disconnect_job(intercomm).ok());
      CHECK(!instance_.processes.any_others());
      CHECK(instance_.processes.limit() <= instance_.size + 8);  // indices are used again
      close_port();
      barrier(world_);
      Exchange(world_, i).finish(instance_);
      if (i == 1) descriptors = open_descriptors();
      // A network closes its sockets later.
      if (i > 1 && reach_ == p2p::Reach::host) CHECK(open_descriptors() == descriptors);
      if (instance_.shm != nullptr) CHECK(mapped_segments() == 1);
    }
  }

  static Result<bool> disconnected(Communicator* intercomm) {
    Status status = disconnect_job(intercomm);
    if (!status.ok()) return std::move(status).error();
    return true;
  }

  /// The first request of the connecting job times out, the second one is accepted.
  void withdrawn() {
    if (accepts_) {
      open_port(file_, reach_);
      core::wait_until(instance_, [&] { return std::filesystem::exists(file_ + ".again"); });
    } else if (world_.rank() == 0) {
      const std::string address = await(file_);
      for (const size_t length : {size_t{0}, size_t{7}, address.size() / 2, address.size() - 1})
        CHECK(p2p::connect_process(instance_, address.substr(0, length)).error().code() == Errc::port);
      time_out(address);
      CHECK(!instance_.processes.any_others());
      publish(file_, address);
      publish(file_ + ".again", address);
    }
    Communicator* const intercomm =
        accepts_ ? checked(accept_job(world_, 0, port_), "accept_job") : connect(false, file_, reach_);
    exchange(*intercomm, 1);
    checked(disconnected(intercomm), "disconnect_job");
    CHECK(!instance_.processes.any_others());
    if (accepts_ && world_.rank() == 0) CHECK(::unlink((file_ + ".again").c_str()) == 0);
  }

  /// A connect request that is not accepted within its timeout. Later requests have time.
  void time_out(const std::string& address) {
    set_connect_timeout("1");
    const auto failed = p2p::connect_process(instance_, address);
    set_connect_timeout("60");
    CHECK(!failed);
    const std::string& why = failed.error().message();
    if (why.find("has not accepted") == std::string::npos) std::fprintf(stderr, "%s\n", why.c_str());
    CHECK(why.find("has not accepted") != std::string::npos);
  }

  /// The reply to a request that has timed out arrives while the next request waits for its own reply. One
  /// rank per job.
  void late_reply() {
    const std::string first = file_ + ".first", second = file_ + ".second";
    if (!accepts_) {
      const std::string address = await(file_);
      publish(first, address);
      checked(p2p::job_address(instance_, reach_), "job_address");  // the late acceptor fetches the segment
      time_out(address);
      publish(second, address);
      const auto connection = checked(p2p::connect_process(instance_, address), "connect_process");
      p2p::release_job_address(instance_);
      end(connection);
      return;
    }
    open_port(file_, reach_);
    await(first);
    const uint64_t received = monotonic_ns() + 500'000'000;  // half of the timeout
    core::wait_until(instance_, [&] { return monotonic_ns() > received; });
    while (!std::filesystem::exists(second)) ::usleep(1000);  // without progress: no withdrawal is received
    ::usleep(300'000);                                        // the second request has left
    const auto withdrawn = p2p::accept_process(instance_, port_);
    CHECK(!withdrawn && withdrawn.error().message().find("withdrawn") != std::string::npos);
    end(accept_next());
    CHECK(!instance_.processes.any_others());
    CHECK(::unlink(second.c_str()) == 0);
  }

  p2p::JobConnection accept_next() {
    std::optional<p2p::JobConnection> connection;
    core::wait_until(instance_, [&] {
      connection = checked(p2p::accept_process(instance_, port_), "accept_process");
      return connection.has_value();
    });
    return *connection;
  }

  void end(const p2p::JobConnection& connection) {
    p2p::release(instance_, {&connection.process, 1});
    CHECK(p2p::disconnect(instance_, {&connection.process, 1}).ok());
  }

  /// The accepting process drops the first connection alone; the other one disconnects without a time-out and
  /// connects anew. One rank per job.
  void abandoned() {
    if (accepts_) {
      open_port(file_, reach_);
      const p2p::JobConnection dropped = accept_next();
      p2p::abandon(instance_, {&dropped.process, 1});
      end(accept_next());
    } else {
      const std::string address = await(file_);
      set_connect_timeout("10");
      end(checked(p2p::connect_process(instance_, address), "connect_process"));
      end(checked(p2p::connect_process(instance_, address), "connect_process"));
    }
    CHECK(!instance_.processes.any_others());
  }

  /// The connecting job is killed; the accepting one gets errors and goes on.
  void killed() {
    Communicator* const intercomm = connect();
    exchange(*intercomm, 1);
    if (!accepts_) {
      barrier(world_);
      ::kill(::getpid(), SIGKILL);
    }
    const uint64_t begin = monotonic_ns();
    for (int rank = 0; rank < intercomm->remote_size(); ++rank) {
      Bytes data(8);
      Transfer t(Transfer::Kind::receive);
      p2p::post_receive(t, p2p::host_bytes(data.data(), data.size()), rank, 99, *intercomm);
      core::wait(instance_, t);
      CHECK(!t.outcome.ok() && t.outcome.error().code() == Errc::proc_aborted);
    }
    std::fprintf(stderr, "loss noticed after %.3f s\n", static_cast<double>(monotonic_ns() - begin) / 1e9);
    CHECK(disconnect_job(intercomm).ok());
    CHECK(!instance_.processes.any_others());
    barrier(world_);
    Exchange(world_, 5).finish(instance_);
  }

  /// All jobs follow the same random steps: in each one, two jobs make or end a connection. Messages of all
  /// other connections are in flight meanwhile. `hosts`: one digit per job. TEST_NO_NETWORK: none can be
  /// opened, and jobs of one host need none.
  void random(int self, int steps, unsigned seed, const std::string& hosts) {
    const int jobs = static_cast<int>(hosts.size());
    std::mt19937 draw(seed);
    const auto below = [&](int end) { return static_cast<int>(draw() % static_cast<unsigned>(end)); };
    std::map<std::pair<int, int>, int> connections;  // of all jobs
    std::map<int, std::list<Connection>> own;        // by the other job
    const bool has_network = std::getenv("TEST_NO_NETWORK") == nullptr;
    bool uses_network = false;
    for (int step = 0; step < steps; ++step) {
      const int acceptor = below(jobs), connector = (acceptor + 1 + below(jobs - 1)) % jobs;
      const bool again = below(3) == 0, oldest = below(2) == 0, available = below(4) == 0,
                 closes = below(2) == 0;
      const int other = self == acceptor ? connector : acceptor;
      const bool involved = self == acceptor || self == connector;
      const bool same_host = hosts[static_cast<size_t>(acceptor)] == hosts[static_cast<size_t>(connector)];
      int& count = connections[std::minmax(acceptor, connector)];
      for (auto& [job, list] : own)
        for (Connection& connection : list) connection.in_flight.emplace_back(*connection.intercomm, step);
      if (count == 0 || (count == 1 && again)) {
        ++count;
        const p2p::Reach reach = !same_host  ? p2p::Reach::anywhere
                                 : available ? p2p::Reach::available
                                             : p2p::Reach::host;
        if (involved) {
          const std::string file = file_ + "." + std::to_string(step);
          own[other].push_back({connect(self == acceptor, file, reach), {}});
          uses_network |= !same_host || (has_network && self == acceptor && world_.rank() == 0 && available);
          if (closes) close_port();
        }
      } else {
        --count;
        if (involved) {
          std::list<Connection>& list = own[other];
          disconnect(list, oldest ? list.begin() : std::prev(list.end()));
        }
      }
      CHECK((instance_.network != nullptr) == uses_network);
      for (auto& [job, list] : own)
        for (Connection& connection : list)
          while (connection.in_flight.size() > 1) finish_first(connection);
    }
    for (const auto& [pair, count] : connections)
      for (int i = 0; i < count; ++i)
        if (self == pair.first || self == pair.second) {
          std::list<Connection>& list = own[self == pair.first ? pair.second : pair.first];
          disconnect(list, list.begin());
        }
    CHECK(!instance_.processes.any_others());
    if (instance_.shm != nullptr) CHECK(mapped_segments() == 1);
    barrier(world_);
    Exchange(world_, steps).finish(instance_);
  }

  /// Both jobs end while they are connected.
  void exits() {
    Communicator* const intercomm = connect();
    exchange(*intercomm, 1);
    ends_with_live_objects = 1;
  }

 private:
  struct Connection {
    Communicator* intercomm;
    std::list<Exchange> in_flight;
  };

  void finish_first(Connection& connection) {
    connection.in_flight.front().finish(instance_);
    connection.in_flight.pop_front();
  }
  void disconnect(std::list<Connection>& connections, std::list<Connection>::iterator leaving) {
    while (!leaving->in_flight.empty()) finish_first(*leaving);
    CHECK(disconnect_job(leaving->intercomm).ok());
    connections.erase(leaving);
  }

  /// At rank 0: opens another port and publishes its name.
  void open_port(const std::string& file, p2p::Reach reach) {
    if (world_.rank() != 0) return;
    const p2p::Port port = checked(p2p::open_port(instance_, reach), "open_port");
    CHECK(checked(p2p::find_port(instance_, port.name), "find_port") == port.number);
    CHECK(core::ProcessAddress::parse(port.name.substr(port.name.find('@') + 1)).ok());
    close_port();
    port_ = port.number;
    publish(file, port.name);
  }
  void close_port() {
    if (const auto port = std::exchange(port_, 0); port != 0) CHECK(p2p::close_port(instance_, port));
  }

  static void publish(const std::string& file, const std::string& address) {
    std::ofstream(file + ".new") << address;
    CHECK(std::rename((file + ".new").c_str(), file.c_str()) == 0);
  }
  /// Makes progress meanwhile: other jobs may need it before they publish their address.
  std::string await(const std::string& file) {
    std::string address;
    const uint64_t deadline = monotonic_ns() + 30'000'000'000;
    core::wait_until(instance_, [&] {
      CHECK(monotonic_ns() < deadline);
      return static_cast<bool>(std::ifstream(file) >> address);
    });
    CHECK(::unlink(file.c_str()) == 0);
    return address;
  }

  Instance& instance_;
  Communicator& world_;
  const bool accepts_;
  const std::string file_;
  p2p::Reach reach_;
  p2p::PortNumber port_ = 0;
};

int run(const std::vector<std::string>& arguments) {
  const std::string &role = arguments[0], &file = arguments[1], &mode = arguments[2];
  const int count = arguments.size() > 3 ? std::stoi(arguments[3]) : 1;
  CHECK(config::load().ok());
  auto& instance = *new Instance(checked(launch::connect(), "launch"));
  CHECK(p2p::create(instance).ok());
  CHECK(p2p::connect(instance).ok());
  std::vector<core::ProcessId> everyone(instance.size);
  std::iota(everyone.begin(), everyone.end(), 0U);
  Ref<core::Group> group(core::Group::create(std::move(everyone), instance.self));
  Ref<Communicator> world(Communicator::create(instance, core::kContextStep, std::move(group)));
  Job job(instance, *world, role == "accept", file);
  if (mode == "traffic") job.traffic(count);
  if (mode == "killed") job.killed();
  if (mode == "withdrawn") job.withdrawn();
  if (mode == "late_reply") job.late_reply();
  if (mode == "abandoned") job.abandoned();
  if (mode == "exits") job.exits();
  if (mode == "random")
    job.random(std::stoi(role), count, static_cast<unsigned>(std::stoul(arguments.at(4))), arguments.at(5));
  p2p::quiesce(instance);
  if (instance.shm != nullptr) instance.shm->set_departed(true);
  CHECK(instance.exchange->finalize().ok());
  std::printf("good\n");
  return 0;
}

}  // namespace
}  // namespace weft::coll

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  return weft::coll::run({argv + 1, argv + argc});
}
