// SPDX-License-Identifier: BSD-3-Clause
#include "launch/pmi/client.hpp"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <functional>
#include <set>
#include <tuple>

#include "launch/hosts.hpp"
#include "launch/key.hpp"
#include "launch/names.hpp"
#include "launch/pmi/address.hpp"
#include "launch/pmi/connection.hpp"
#include "launch/pmi/mapping.hpp"
#include "launch/pmi/spawn.hpp"
#include "launch/pmi/wire.hpp"

namespace weft::launch::pmi {

namespace {

constexpr int kMaxRanks = 1 << 30;
// Slurm reads 1023 bytes of a request and treats the rest as another request.
constexpr size_t kRequestMax = 1023;

std::string system_text(int error) { return std::strerror(error); }

class Client final : public Exchange {
 public:
  explicit Client(int fd) : fd_(fd) {}
  ~Client() override { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Job& job() const override { return job_; }
  Status put(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, int owner) override;
  Status fence() override;
  std::optional<int> dead_process() override;
  void abort(int code, std::string_view message) override;
  bool abort_is_reported() const override { return weft_mpiexec_ && fd_ >= 0; }
  Result<Spawned> spawn(const SpawnRequest& request) override;
  std::optional<std::string> parent_value() override;
  Status publish(std::string_view name, std::string_view port) override;
  Status unpublish(std::string_view name) override;
  Result<std::string> lookup(std::string_view name) override;
  int universe_size() override;
  Status finalize() override;

  /// A singleton at the server that mpiexec runs for it: no job and no key-value space.
  Status open_server();
  /// Rank and size come from the environment, or from mpiexec.
  Status set_rank(const Lookup& lookup, const Connection& connection);
  /// PMI_PORT: the server sends rank and size in reply to this process's id.
  Status set_rank_by_port(const std::string& id);
  /// Initialises the PMI connection and fills in the Job.
  Status open_job(const Lookup& lookup);

 private:
  Status send(const std::string& line);
  Result<Message> receive(std::string_view command);
  Result<Message> call(const Message& request, std::string_view reply);
  [[nodiscard]] const char* launcher_name(const Lookup& lookup) const;
  /// Sets host_of_rank, local_rank and local_size.
  Status find_local_ranks();
  [[nodiscard]] size_t max_value_part(const Message& request) const;
  Result<std::string> get_raw(const std::string& key);
  Status name_command(const Message& request, std::string_view reply, const char* problem);
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  int fd_;
  Job job_;
  bool weft_mpiexec_ = false;
  bool spawned_ = false;  ///< by another job
  size_t key_max_ = kKeyMax, value_max_ = kValueMax;
  std::set<std::string, std::less<>> put_keys_;
  LineBuffer lines_;
};

Status Client::send(const std::string& line) {
  size_t sent = 0;
  while (sent < line.size()) {
    ssize_t n = ::send(fd_, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0)
      return Error(Errc::other,
                   "cannot write to the launcher (" + system_text(errno) + "). Is it still running?");
    sent += static_cast<size_t>(n);
  }
  return {};
}

Result<Message> Client::receive(std::string_view command) {
  while (true) {
    if (auto line = lines_.next()) {
      auto message = Message::parse(*line);
      if (!message || message->command() != command)
        return Error(Errc::other, "unexpected answer '" + *line +
                                      "' from the launcher (expected cmd=" + std::string(command) +
                                      "). Weft uses PMI-1: does this launcher use another version?");
      return *std::move(message);
    }
    if (lines_.overfull()) return Error(Errc::other, "the launcher sent an endless line over PMI");
    char bytes[4096];
    ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error(Errc::other, "cannot read from the launcher (" + system_text(errno) + ")");
    if (n == 0)
      return Error(Errc::proc_aborted, "the launcher closed its connection (it or the job has ended)");
    lines_.append({bytes, static_cast<size_t>(n)});
  }
}

Result<Message> Client::call(const Message& request, std::string_view reply) {
  if (fd_ < 0) return Error(Errc::other, "PMI request '" + request.command() + "' after finalize");
  WEFT_TRY(send(request.line()));
  return receive(reply);
}

/// Returns the bytes available for a value in a put, without the part marker and the final NUL of C servers.
size_t Client::max_value_part(const Message& request) const {
  const size_t line = request.line().size() + std::strlen(" value=");
  return std::min(value_max_, kRequestMax - line) - 2;
}

Status Client::put(std::string_view key, std::string_view value) {
  WEFT_TRY(check_key(key));
  // Hydra accepts a duplicate key silently.
  if (!put_keys_.emplace(key).second) return Error(Errc::arg, "key '" + std::string(key) + "' was put twice");
  Message request("put");
  request.add("kvsname", job_.id);
  const std::string longest_key = std::string(key) + "+999";
  const size_t part = max_value_part(Message(request).add("key", longest_key));
  for (const auto& [name, text] : split_value(key, escape(value), part)) {
    auto reply = call(Message(request).add("key", name).add("value", text), "put_result");
    if (!reply) return std::move(reply).error();
    if (reply->find_int("rc").value_or(0) != 0) {
      const std::string* why = reply->find("msg");
      return Error(Errc::other, "the launcher refused to store '" + std::string(key) + "' (" +
                                    (why ? *why : "no reason given") + ")");
    }
  }
  return {};
}

Result<std::string> Client::get_raw(const std::string& key) {
  auto reply = call(Message("get").add("kvsname", job_.id).add("key", key), "get_result");
  if (!reply) return std::move(reply).error();
  const std::string* value = reply->find("value");
  // Hydra 5 replies found=FALSE with rc=0.
  const std::string* found = reply->find("found");
  if (reply->find_int("rc").value_or(0) != 0 || value == nullptr || (found && *found == "FALSE"))
    return Error(Errc::arg, "no process put the key '" + key + "'");
  return *value;
}

Result<std::string> Client::get(std::string_view key, int) {
  std::string text;
  for (size_t part = 0;; ++part) {
    auto chunk = get_raw(part == 0 ? std::string(key) : std::string(key) + "+" + std::to_string(part));
    if (!chunk) return std::move(chunk).error();
    if (chunk->empty() || (chunk->front() != kPartFollows && chunk->front() != kLastPart))
      return Error(Errc::other, "the value of '" + std::string(key) + "' was damaged by the launcher");
    text.append(*chunk, 1);
    if (chunk->front() == kLastPart) break;
  }
  auto bytes = unescape(text);
  if (!bytes)
    return Error(Errc::other, "the value of '" + std::string(key) + "' was damaged by the launcher");
  return *std::move(bytes);
}

Status Client::fence() {
  auto reply = call(Message("barrier_in"), "barrier_out");
  if (!reply) return std::move(reply).error();
  return {};
}

/// The first rank of the list.
std::optional<int> Client::dead_process() {
  if (fd_ < 0 || (!weft_mpiexec_ && job_.launcher != "hydra")) return std::nullopt;
  auto ranks = get_raw(kDeadProcessesKey);
  int rank = -1;
  if (!ranks || std::from_chars(ranks->data(), ranks->data() + ranks->size(), rank).ec != std::errc())
    return std::nullopt;
  return rank;
}

void Client::abort(int code, std::string_view message) {
  if (fd_ < 0) return;
  Message request("abort");
  request.add("exitcode", code);
  if (weft_mpiexec_) request.add("message", escape(message.substr(0, 4096)));
  Status sent = send(request.line());
  (void)sent;  // A launcher that is gone has already ended the job.
}

Result<Spawned> Client::spawn(const SpawnRequest& request) {
  if (job_.launcher == std::string_view("slurm"))
    return Error(Errc::spawn,
                 "srun starts no further processes: start the job with mpiexec --launcher weft (one host), "
                 "prterun or Hydra inside of the allocation");
  if (fd_ < 0) return Error(Errc::spawn, "spawn after MPI_Finalize");
  int64_t processes = 0;
  for (const SpawnProgram& program : request.programs) processes += program.processes;
  if (processes > INT_MAX)
    return Error(Errc::spawn, std::to_string(processes) + " processes: more than an MPI_COMM_WORLD can have");
  auto lines = spawn_lines(request, weft_mpiexec_);
  if (!lines) return std::move(lines).error();
  WEFT_TRY(send(*lines));
  auto reply = receive("spawn_result");
  if (!reply) return std::move(reply).error();
  return parse_spawn_reply(*reply, static_cast<int>(processes));
}

std::optional<std::string> Client::parent_value() {
  if (!spawned_) return std::nullopt;
  auto value = get(kParentKey, 0);
  return value ? std::optional(std::move(*value)) : std::nullopt;
}

/// Some launchers answer with "rc", others with "info".
Status Client::name_command(const Message& request, std::string_view reply, const char* problem) {
  auto answer = call(request, reply);
  if (!answer) return std::move(answer).error();
  const std::string* info = answer->find("info");
  if (answer->find_int("rc").value_or(0) == 0 && (info == nullptr || *info == "ok")) return {};
  const std::string* why = weft_mpiexec_ ? answer->find("msg") : nullptr;
  if (why != nullptr) return Error(Errc::name, unescape(*why).value_or(*why));
  return Error(Errc::name,
               std::string(problem) + ", or the launcher has no name service (Hydra: -nameserver)");
}

Status Client::publish(std::string_view name, std::string_view port) {
  return name_command(Message("publish_name").add("service", escape(name)).add("port", escape(port)),
                      "publish_result", "the name is published already");
}

Status Client::unpublish(std::string_view name) {
  return name_command(Message("unpublish_name").add("service", escape(name)), "unpublish_result",
                      "the name is not published by this job");
}

Result<std::string> Client::lookup(std::string_view name) {
  if (weft_mpiexec_) return lookup_on_host(name);
  auto answer = call(Message("lookup_name").add("service", escape(name)), "lookup_result");
  if (!answer) return std::move(answer).error();
  const std::string* port = answer->find("port");
  const auto text =
      port == nullptr || answer->find_int("rc").value_or(0) != 0 ? std::nullopt : unescape(*port);
  if (!text || text->empty())
    return Error(Errc::name,
                 "no job publishes the name, or the launcher has no name service (Hydra: -nameserver)");
  return *text;
}

int Client::universe_size() {
  auto reply = call(Message("get_universe_size"), "universe_size");
  return reply ? std::max(reply->find_int("size").value_or(job_.size), job_.size) : job_.size;
}

Status Client::finalize() {
  auto reply = call(Message("finalize"), "finalize_ack");
  if (!reply) return std::move(reply).error();
  close();
  return {};
}

Status Client::set_rank(const Lookup& lookup, const Connection& connection) {
  weft_mpiexec_ = connection.weft_mpiexec;
  if (connection.rank_of_size) {
    std::tie(job_.rank, job_.size) = *connection.rank_of_size;
    return {};
  }
  auto size = read_int(lookup, "PMI_SIZE", 1, kMaxRanks);
  if (!size) return std::move(size).error();
  auto rank = read_int(lookup, "PMI_RANK", 0, kMaxRanks);
  if (!rank) return std::move(rank).error();
  if (!*size || !*rank || **rank >= **size)
    return Error(Errc::other,
                 "PMI_FD is set, but PMI_RANK and PMI_SIZE are not a rank and a size. "
                 "Start the program with mpiexec, or unset PMI_FD.");
  job_.size = **size;
  job_.rank = **rank;
  return {};
}

Status Client::set_rank_by_port(const std::string& id) {
  auto ack = call(Message("initack").add("pmiid", id), "initack");
  if (!ack) return std::move(ack).error();
  for (const char* what : {"size", "rank", "debug"}) {
    auto message = receive("set");
    if (!message) return std::move(message).error();
    auto value = message->find_int(what);
    if (!value)
      return Error(Errc::other, std::string("the launcher did not send the ") + what + " over PMI_PORT");
    if (what[0] == 's') job_.size = *value;
    if (what[0] == 'r') job_.rank = *value;
  }
  if (job_.size < 1 || job_.rank < 0 || job_.rank >= job_.size)
    return Error(Errc::other, "the launcher sent an invalid rank or size over PMI_PORT");
  return {};
}

Status Client::open_server() {
  weft_mpiexec_ = true;
  job_.launcher = "weft mpiexec";
  auto reply = call(Message("init").add("pmi_version", 1).add("pmi_subversion", 1), "response_to_init");
  return reply ? Status() : std::move(reply).error();
}

Status Client::open_job(const Lookup& lookup) {
  spawned_ = lookup("PMI_SPAWNED") != nullptr && parse_int(lookup("PMI_SPAWNED"), 1, 1);
  auto reply = call(Message("init").add("pmi_version", 1).add("pmi_subversion", 1), "response_to_init");
  if (!reply) return std::move(reply).error();
  if (const std::string* why = reply->find("msg"); why != nullptr && *why == kRankInUse)
    return rank_in_use(reply->find_int("pid").value_or(0));
  if (reply->find_int("rc").value_or(0) != 0 || reply->find_int("pmi_version").value_or(1) != 1)
    return Error(Errc::unsupported, "the launcher does not support PMI version 1");
  auto limits = call(Message("get_maxes"), "maxes");
  if (!limits) return std::move(limits).error();
  key_max_ = static_cast<size_t>(limits->find_int("keylen_max").value_or(kKeyMax));
  value_max_ = static_cast<size_t>(std::min(limits->find_int("vallen_max").value_or(kValueMax), kValueMax));
  if (key_max_ < kKeyMax || value_max_ < 64)
    return Error(Errc::unsupported, "the launcher's PMI allows keys of " + std::to_string(key_max_) +
                                        " and values of " + std::to_string(value_max_) + " bytes, too few");
  auto name = call(Message("get_my_kvsname"), "my_kvsname");
  if (!name) return std::move(name).error();
  const std::string* id = name->find("kvsname");
  if (id == nullptr || id->empty()) return Error(Errc::other, "the launcher sent an empty job name");
  job_.id = *id;
  job_.launcher = launcher_name(lookup);
  job_.launcher_version = "PMI-1";
  auto program = call(Message("get_appnum"), "appnum");
  if (!program) return std::move(program).error();
  job_.program = program->find_int("appnum").value_or(-1);
  job_.program_size = program->find_int("maxprocs").value_or(0);  // only sent by Weft's mpiexec
  return find_local_ranks();
}

const char* Client::launcher_name(const Lookup& lookup) const {
  if (weft_mpiexec_) return "weft mpiexec";
  if (job_.id.starts_with("kvs_")) return "hydra";  // its own variable is set on the first host only
  return lookup("SLURM_STEP_ID") != nullptr ? "slurm" : "pmi-1";
}

Status Client::find_local_ranks() {
  if (auto mapping = get_raw(kMappingKey)) {
    if (auto hosts = parse_mapping(*mapping, job_.size)) job_.host_of_rank = *std::move(hosts);
  } else if (mapping.error().code() != Errc::arg) {
    return std::move(mapping).error();
  }
  if (job_.size == 1) job_.host_of_rank = {0};
  if (job_.host_of_rank.empty()) return gather_hosts(*this, job_);
  set_local_rank(job_);
  return {};
}

/// Returns a socket connected to "host:port".
Result<int> open_port(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos)
    return Error(Errc::other, "PMI_PORT=" + address + " is not of the form host:port");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const std::string host = address.substr(0, colon), port = address.substr(colon + 1);
  if (int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &list); error != 0)
    return Error(Errc::other, "PMI_PORT=" + address + " cannot be resolved (" + gai_strerror(error) + ")");
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  int error = 0;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    int fd = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (fd >= 0 && ::connect(fd, at->ai_addr, at->ai_addrlen) == 0) return fd;
    error = errno;
    if (fd >= 0) ::close(fd);
  }
  return Error(Errc::other, "PMI_PORT=" + address + " cannot be reached (" + system_text(error) + ")");
}

Result<std::unique_ptr<Exchange>> connect_by_fd(const Lookup& lookup) {
  auto connection = open_connection(lookup);
  if (!connection) return std::move(connection).error();
  auto client = std::make_unique<Client>(connection->fd);
  WEFT_TRY(client->set_rank(lookup, *connection));
  WEFT_TRY(client->open_job(lookup));
  return std::unique_ptr<Exchange>(std::move(client));
}

Result<std::unique_ptr<Exchange>> connect_by_port(const Lookup& lookup) {
  const char* id = lookup("PMI_ID");
  if (id == nullptr)
    return Error(Errc::other, "PMI_PORT is set, but PMI_ID is not. Start the program with mpiexec.");
  auto fd = open_port(lookup("PMI_PORT"));
  if (!fd) return std::move(fd).error();
  auto client = std::make_unique<Client>(*fd);
  WEFT_TRY(client->set_rank_by_port(id));
  WEFT_TRY(client->open_job(lookup));
  return std::unique_ptr<Exchange>(std::move(client));
}

}  // namespace

Result<std::unique_ptr<Exchange>> connect_to_server(int fd) {
  auto client = std::make_unique<Client>(fd);
  WEFT_TRY(client->open_server());
  return std::unique_ptr<Exchange>(std::move(client));
}

bool is_available(const Lookup& lookup) { return has_connection(lookup) || lookup("PMI_PORT") != nullptr; }

Result<std::unique_ptr<Exchange>> connect(const Lookup& lookup) {
  return has_connection(lookup) ? connect_by_fd(lookup) : connect_by_port(lookup);
}

}  // namespace weft::launch::pmi
