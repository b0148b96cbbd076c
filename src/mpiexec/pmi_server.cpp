// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/pmi_server.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "launch/pmi/mapping.hpp"

namespace weft::mpiexec {

namespace pmi = launch::pmi;

PmiServer::PmiServer(std::vector<int> fds, std::vector<int> programs, std::string job_id, Listener& listener,
                     int universe_size, launch::Values values)
    : programs_(std::move(programs)),
      job_id_(std::move(job_id)),
      listener_(listener),
      universe_size_(universe_size),
      values_(std::move(values)) {
  for (int fd : fds) ranks_.push_back(Rank{fd});
}

bool PmiServer::read(int rank) {
  Rank& self = at(rank);
  while (true) {
    char bytes[16384];
    const ssize_t n = ::recv(self.fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n < 0 && errno != ECONNRESET)  // the rank may wait for a reply
      listener_.on_failure(
          rank, std::string("cannot be reached over PMI: recv failed (") + std::strerror(errno) + ")");
    if (n <= 0) return false;
    self.lines.append({bytes, static_cast<size_t>(n)});
    while (auto line = self.lines.next()) read_line(rank, *line);
    if (self.lines.overfull()) {
      listener_.on_failure(rank, "sent an oversized line over PMI");
      return false;
    }
  }
}

void PmiServer::read_line(int rank, const std::string& line) {
  Rank& self = at(rank);
  if (self.in_spawn && line.starts_with("endcmd")) {
    self.in_spawn = false;
    if (auto request = self.spawn.end_block())
      listener_.on_spawn(rank, std::move(*request), self.spawn.take_stored());
    return;
  }
  if (self.in_spawn ? self.spawn.add(line) : false) return;
  auto request = Message::parse(line);
  if (request && !self.in_spawn) return serve(rank, *request);
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

void PmiServer::serve(int rank, const Message& request) {
  const std::string& command = request.command();
  Rank& self = at(rank);
  if (command == "init") return reply(rank, init(rank));
  if (self.stage != Stage::initialized)
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
    return reply(rank, Message("finalize_ack").add("rc", 0));
  }
  if (command == "spawn") {
    self.in_spawn = true;
    return;
  }
  listener_.on_failure(rank, "sent the unknown PMI command '" + command + "'");
}

PmiServer::Message PmiServer::program_of(int rank) const {
  size_t program = 0;
  for (int end = programs_[0]; rank >= end; end += programs_[program]) ++program;
  return Message("appnum").add("appnum", static_cast<int>(program)).add("maxprocs", programs_[program]);
}

PmiServer::Message PmiServer::init(int rank) {
  Rank& self = at(rank);
  ++self.round;
  self.stage = Stage::initialized;
  if (static_cast<size_t>(self.round) == rounds_.size()) {
    rounds_.emplace_back();
    rounds_.back().values[pmi::kMappingKey] = pmi::one_host_mapping(static_cast<int>(ranks_.size()));
    for (const auto& [key, value] : values_) rounds_.back().values[key] = value;
  }
  return Message("response_to_init").add("pmi_version", 1).add("pmi_subversion", 1).add("rc", 0);
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
  const auto& values = rounds_[static_cast<size_t>(at(rank).round)].values;
  auto entry = key == nullptr ? values.end() : values.find(*key);
  if (entry == values.end()) return answer.add("rc", -1).add("msg", "key_not_found").add("value", "unknown");
  return answer.add("rc", 0).add("msg", "success").add("value", entry->second);
}

PmiServer::Message PmiServer::name_service(const Message& request) {
  const std::string& command = request.command();
  const std::string* service = request.find("service");
  const std::string* port = request.find("port");
  // Some clients read "info", others "rc": the reply has both.
  const auto answer = [](const char* name, bool ok, const char* problem) {
    return Message(name)
        .add("info", ok ? "ok" : problem)
        .add("rc", ok ? 0 : -1)
        .add("msg", ok ? "success" : problem);
  };
  const auto text = [](const std::string* escaped) {
    return escaped == nullptr ? std::string() : pmi::unescape(*escaped).value_or(*escaped);
  };
  const std::string name = text(service);
  NameServer& names = listener_.names();
  if (command == "publish_name")
    return answer("publish_result", port != nullptr && names.publish(name, text(port)).ok(),
                  "already_published");
  if (command == "unpublish_name") return answer("unpublish_result", names.unpublish(name), "not_published");
  const std::string* const found = names.find(name);
  return answer("lookup_result", found != nullptr, "not_published")
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
  int waiting = -1, missing = -1;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].waiting) waiting = static_cast<int>(i);
    if (ranks_[i].exited && !ranks_[i].waiting) missing = static_cast<int>(i);
  }
  if (waiting < 0 || missing < 0) return;
  const bool not_initialized = at(missing).stage == Stage::not_initialized;
  listener_.on_failure(waiting, "waits for rank " + std::to_string(missing) + ", which has exited " +
                                    (not_initialized ? "without calling MPI_Init" : "already") +
                                    " (either all programs of a job call MPI, or none)");
}

void PmiServer::reply(int rank, const Message& message) {
  const std::string line = message.line();
  ssize_t n;
  while ((n = ::send(at(rank).fd, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL)) < 0 &&
         errno == EINTR) {
  }
  // A rank has at most one request outstanding, so the socket buffer holds any reply. EPIPE and ECONNRESET
  // mean that the rank has exited.
  if (n < 0 && errno == EAGAIN)
    listener_.on_failure(rank, "does not read the replies to its PMI commands");
  else if (n < 0 && errno != EPIPE && errno != ECONNRESET)
    listener_.on_failure(
        rank, std::string("cannot be reached over PMI: send failed (") + std::strerror(errno) + ")");
}

}  // namespace weft::mpiexec
