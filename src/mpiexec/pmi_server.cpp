// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/pmi_server.hpp"

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/local_socket.hpp"
#include "launch/pmi/address.hpp"
#include "launch/pmi/mapping.hpp"
#include "mpiexec/processes.hpp"

namespace weft::mpiexec {

namespace pmi = launch::pmi;

namespace {

/// Returns the process that is a rank, if process `pid` can't take its place: it is another one, and lives.
pid_t other_process(pid_t process, pid_t pid) {
  if (process <= 0 || pid <= 0 || process == pid) return 0;
  return (::kill(process, 0) == 0 || errno == EPERM) && !is_exiting(process) ? process : 0;
}

pmi::Message refusal(const char* reply, pid_t process) {
  return pmi::Message(reply).add("rc", -1).add("msg", pmi::kRankInUse).add("pid", process);
}

}  // namespace

PmiServer::PmiServer(std::vector<int> fds, std::vector<int> programs, std::string job_id, Listener& listener,
                     int universe_size, launch::Values values)
    : programs_(std::move(programs)),
      job_id_(std::move(job_id)),
      listener_(listener),
      universe_size_(universe_size),
      values_(std::move(values)) {
  ranks_.resize(fds.size());
  for (size_t rank = 0; rank < fds.size(); ++rank) ranks_[rank].connections[inherited].fd = fds[rank];
}

PmiServer::~PmiServer() {
  for (size_t rank = 0; rank < ranks_.size(); ++rank) close_joined(static_cast<int>(rank));
}

void PmiServer::close_joined(int rank) {
  Rank& self = at(rank);
  if (self.connections[joined].fd < 0) return;
  ::close(self.connections[joined].fd);
  self.connections[joined] = {};
  if (self.active == joined) self.process = 0;
}

bool PmiServer::join(int rank, int fd, pid_t pid) {
  Rank& self = at(rank);
  const pid_t other = other_process(self.process, pid);
  if (other != 0 || self.exited) {
    const std::string line =
        (other != 0 ? refusal("joined", other)
                    : Message("joined").add("rc", -1).add("msg", "its%20rank%20has%20ended"))
            .line();
    (void)!::send(fd, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    return false;
  }
  close_joined(rank);
  self.connections[joined].fd = fd;
  self.active = joined;
  self.process = pid;
  const int one = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof one);
  reply(rank, Message("joined").add("rc", 0).add("rank", rank).add("size", static_cast<int>(ranks_.size())));
  return true;
}

bool PmiServer::read(int rank, Path path) {
  Connection& self = at(rank).connections[path];
  while (self.fd >= 0) {
    char bytes[16384];
    pid_t sender = 0;
    const ssize_t n = local_socket::receive_from(self.fd, bytes, sender);
    if (n < 0 && errno == EAGAIN) return true;
    if (n < 0 && errno != ECONNRESET)  // the rank may wait for a reply
      listener_.on_failure(
          rank, std::string("cannot be reached over PMI: recvmsg failed (") + std::strerror(errno) + ")");
    if (n <= 0) break;
    self.lines.append({bytes, static_cast<size_t>(n)});
    while (auto line = self.lines.next()) read_line(rank, path, sender, *line);
    if (self.lines.overfull()) {
      listener_.on_failure(rank, "sent an oversized line over PMI");
      break;
    }
  }
  if (path == joined) close_joined(rank);
  return false;
}

void PmiServer::read_line(int rank, Path path, pid_t sender, const std::string& line) {
  Connection& self = at(rank).connections[path];
  if (self.in_spawn && line.starts_with("endcmd")) {
    self.in_spawn = false;
    if (auto request = self.spawn.end_block())
      listener_.on_spawn(rank, std::move(*request), self.spawn.take_stored());
    return;
  }
  if (self.in_spawn ? self.spawn.add(line) : false) return;
  auto request = Message::parse(line);
  if (request && !self.in_spawn) return serve(rank, path, sender, *request);
  listener_.on_failure(rank, "sent '" + line.substr(0, 60) + "' instead of a PMI-1 command");
}

void PmiServer::reply_spawn(int rank, const launch::Spawned& spawned) {
  reply(rank, pmi::spawn_reply(spawned));
}

void PmiServer::rank_exited(int rank) {
  at(rank).exited = true;
  check_barrier();
}

std::string PmiServer::kvs_name(int round) const {
  return round == 0 ? job_id_ : job_id_ + "-" + std::to_string(round);
}

void PmiServer::serve(int rank, Path path, pid_t sender, const Message& request) {
  const std::string& command = request.command();
  Rank& self = at(rank);
  if (command == "init") return init(rank, path, sender);
  if (self.stage != Stage::initialized || path != self.active)
    return listener_.on_failure(rank, "sent PMI command '" + command + "' before init or after finalize");
  if (command == "get_maxes")
    return reply(rank, Message("maxes")
                           .add("kvsname_max", pmi::kNameMax)
                           .add("keylen_max", pmi::kKeyMax)
                           .add("vallen_max", pmi::kValueMax));
  if (command == "get_appnum") return reply(rank, program_of(rank));
  if (command == "get_my_kvsname")
    return reply(rank, Message("my_kvsname").add("kvsname", kvs_name(self.round)));
  if (command == "get_universe_size")
    return reply(rank, Message("universe_size").add("size", universe_size_));
  if (command == "put") return reply(rank, put(rank, request));
  if (command == "get") return reply(rank, get(rank, request));
  if (command == "barrier_in") return enter_barrier(rank);
  if (command == "publish_name" || command == "unpublish_name" || command == "lookup_name")
    return reply(rank, name_service(request));
  if (command == "abort") return abort(rank, request);
  if (command == "finalize") {
    self.stage = Stage::finalized;
    self.process = 0;
    return reply(rank, Message("finalize_ack").add("rc", 0));
  }
  if (command == "spawn") {
    self.connections[path].in_spawn = true;
    return;
  }
  listener_.on_failure(rank, "sent the unknown PMI command '" + command + "'");
}

PmiServer::Message PmiServer::program_of(int rank) const {
  size_t program = 0;
  for (int end = programs_[0]; rank >= end; end += programs_[program]) ++program;
  return Message("appnum").add("appnum", static_cast<int>(program)).add("maxprocs", programs_[program]);
}

void PmiServer::init(int rank, Path path, pid_t sender) {
  Rank& self = at(rank);
  if (const pid_t other = other_process(self.process, sender); other != 0) {
    // On the same connection either process could read the reply.
    if (path != self.active) return send(rank, path, refusal("response_to_init", other));
    return listener_.on_failure(rank, "has started two MPI programs at once (pids " + std::to_string(other) +
                                          " and " + std::to_string(sender) +
                                          "), and a rank is one process at a time: start them one after the "
                                          "other, or each by an mpiexec of its own");
  }
  if (std::exchange(self.waiting, false))  // its earlier program has ended in the barrier
    --rounds_[static_cast<size_t>(self.round)].waiting;
  self.active = path;
  self.process = sender;
  ++self.round;
  self.stage = Stage::initialized;
  if (static_cast<size_t>(self.round) == rounds_.size()) {
    rounds_.emplace_back();
    rounds_.back().values[pmi::kMappingKey] = pmi::one_host_mapping(static_cast<int>(ranks_.size()));
    for (const auto& [key, value] : values_) rounds_.back().values[key] = value;
  }
  reply(rank, Message("response_to_init").add("pmi_version", 1).add("pmi_subversion", 1).add("rc", 0));
  check_barrier();
}

PmiServer::Message PmiServer::put(int rank, const Message& request) {
  const std::string* key = request.find("key");
  const std::string* value = request.find("value");
  Message answer("put_result");
  if (key == nullptr || value == nullptr || key->size() >= pmi::kKeyMax || value->size() >= pmi::kValueMax)
    return answer.add("rc", -1).add("msg", "key_or_value_missing_or_too_long");
  auto& values = rounds_[static_cast<size_t>(at(rank).round)].values;
  if (!values.emplace(*key, *value).second) return answer.add("rc", -1).add("msg", "duplicate_key_" + *key);
  return answer.add("rc", 0).add("msg", "success");
}

PmiServer::Message PmiServer::get(int rank, const Message& request) {
  const std::string* key = request.find("key");
  Message answer("get_result");
  if (key != nullptr && *key == pmi::kDeadProcessesKey)
    return answer.add("rc", 0).add("msg", "success").add("value", dead_processes());
  const auto& values = rounds_[static_cast<size_t>(at(rank).round)].values;
  auto entry = key == nullptr ? values.end() : values.find(*key);
  if (entry == values.end()) return answer.add("rc", -1).add("msg", "key_not_found").add("value", "unknown");
  return answer.add("rc", 0).add("msg", "success").add("value", entry->second);
}

std::string PmiServer::dead_processes() const {
  std::string ranks;
  for (size_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].exited && ranks_[rank].stage != Stage::finalized)
      ranks += (ranks.empty() ? "" : ",") + std::to_string(rank);
  return ranks;
}

PmiServer::Message PmiServer::name_service(const Message& request) {
  const std::string& command = request.command();
  const std::string* service = request.find("service");
  const std::string* port = request.find("port");
  // Some clients read "info", others "rc": the reply has both.
  const auto answer = [](const char* name, bool ok, const std::string& problem) {
    return Message(name)
        .add("info", ok ? "ok" : "failed")
        .add("rc", ok ? 0 : -1)
        .add("msg", ok ? "success" : pmi::escape(problem));
  };
  const auto text = [](const std::string* escaped) {
    return escaped == nullptr ? std::string() : pmi::unescape(*escaped).value_or(*escaped);
  };
  const std::string name = text(service);
  NameServer& names = listener_.names();
  if (command == "publish_name") {
    const Status published = names.publish(name, text(port));
    return answer("publish_result", published.ok(), published.ok() ? "" : published.error().message());
  }
  if (command == "unpublish_name")
    return answer("unpublish_result", names.unpublish(name), "the name is not published by this job");
  const std::string* const found = names.find(name);
  return answer("lookup_result", found != nullptr, "no job publishes the name")
      .add("port", found != nullptr ? pmi::escape(*found) : "");
}

void PmiServer::abort(int rank, const Message& request) {
  const std::string* message = request.find("message");
  listener_.on_abort(rank, request.find_int("exitcode").value_or(1),
                     message == nullptr ? std::string() : pmi::unescape(*message).value_or(*message));
}

void PmiServer::enter_barrier(int rank) {
  Rank& self = at(rank);
  if (self.waiting) return listener_.on_failure(rank, "entered the PMI barrier twice");
  self.waiting = true;
  Round& round = rounds_[static_cast<size_t>(self.round)];
  if (static_cast<size_t>(++round.waiting) < ranks_.size()) return check_barrier();
  round.waiting = 0;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    ranks_[i].waiting = false;
    reply(static_cast<int>(i), Message("barrier_out").add("rc", 0));
  }
}

void PmiServer::check_barrier() {
  int waiting = -1, missing = -1, ahead = -1;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].waiting && (waiting < 0 || ranks_[i].round < at(waiting).round))
      waiting = static_cast<int>(i);
    if (ranks_[i].exited && !ranks_[i].waiting) missing = static_cast<int>(i);
    if (ahead < 0 || ranks_[i].round > at(ahead).round) ahead = static_cast<int>(i);
  }
  if (waiting < 0) return;
  if (at(ahead).round > at(waiting).round)
    return listener_.on_failure(
        waiting, "waits in its MPI program number " + std::to_string(at(waiting).round + 1) + " for rank " +
                     std::to_string(ahead) + ", which has left that program, and runs its number " +
                     std::to_string(at(ahead).round + 1));
  if (missing < 0) return;
  const bool not_initialized = at(missing).stage == Stage::not_initialized;
  listener_.on_failure(waiting, "waits for rank " + std::to_string(missing) + ", which has exited " +
                                    (not_initialized ? "without calling MPI_Init" : "already") +
                                    " (either all programs of a job call MPI, or none)");
}

void PmiServer::send(int rank, Path path, const Message& message) {
  const std::string line = message.line();
  const ssize_t n = local_socket::retry_on_eintr([&] {
    return ::send(at(rank).connections[path].fd, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  });
  // A rank has at most one request outstanding, so the socket buffer holds any reply. EPIPE and ECONNRESET
  // mean that the rank has exited.
  if (n < 0 && errno == EAGAIN)
    listener_.on_failure(rank, "does not read the replies to its PMI commands");
  else if (n < 0 && errno != EPIPE && errno != ECONNRESET)
    listener_.on_failure(
        rank, std::string("cannot be reached over PMI: send failed (") + std::strerror(errno) + ")");
}

}  // namespace weft::mpiexec
