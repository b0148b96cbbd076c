// SPDX-License-Identifier: BSD-3-Clause
#include "launch/pmix/client.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>
#include <vector>

#include "base/config.hpp"
#include "launch/hosts.hpp"
#include "launch/key.hpp"
#include "launch/names.hpp"
#include "launch/pmix/library.hpp"
#include "launch/pmix/rank_name.hpp"
#include "launch/pmix/spawn.hpp"

namespace weft::launch::pmix {

namespace {

config::Size get_timeout{
    "launch.get_timeout_s",
    60,
    1,
    3600,
    "Timeout in seconds for a value of another process under PMIx.",
    "start-up of a large job fails with a timeout, or a broken launcher is to be noticed sooner"};

constexpr uint32_t kMaxRanks = 1u << 30;

/// Frees a value returned by PMIx, as PMIX_VALUE_RELEASE does.
struct FreeValue {
  void operator()(Value* value) const {
    if (value->type == Type::string) std::free(value->data.string);
    if (value->type == Type::bytes) std::free(value->data.bytes.bytes);
    std::free(value);
  }
};
using OwnedValue = std::unique_ptr<Value, FreeValue>;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

Info timeout_info(int seconds) {
  Info info{};
  std::strcpy(info.key, "pmix.timeout");
  info.value.type = Type::integer;
  info.value.data.integer = seconds;
  return info;
}

std::optional<uint32_t> number_in(const Value& value) {
  switch (value.type) {
    case Type::uint16:
      return value.data.uint16;
    case Type::uint32:
    case Type::rank:
      return value.data.uint32;
    case Type::integer:
      return static_cast<uint32_t>(value.data.integer);
    default:
      return std::nullopt;
  }
}

time_t seconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

class Client final : public Exchange {
 public:
  explicit Client(Library library) : library_(std::move(library)), call_(library_.call) {}

  const Job& job() const override { return job_; }
  Status put(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, int owner) override;
  Status share() override;
  Status fence() override;
  void abort(int code, std::string_view message) override;
  Result<Spawned> spawn(const SpawnRequest& request) override;
  std::optional<std::string> parent_value() override { return parent_; }
  Status publish(std::string_view name, std::string_view port) override;
  Status unpublish(std::string_view name) override;
  Result<std::string> lookup(std::string_view name) override;
  int universe_size() override;
  Status finalize() override;

  Status open_job(const Lookup& lookup);

 private:
  Status commit();
  [[nodiscard]] Result<std::vector<int>> local_pids(const std::string& space) const;
  [[nodiscard]] Result<std::string> published_by_pmix(const std::string& key) const;
  [[nodiscard]] Error failure(const std::string& what, int status) const {
    return Error(Errc::other, "PMIx: " + what + " failed (" + call_.PMIx_Error_string(status) + ", library " +
                                  library_.path + " " + library_.version + ")");
  }
  [[nodiscard]] Proc process(uint32_t rank) const {
    Proc proc = self_;
    proc.rank = rank;
    return proc;
  }
  /// Returns a numeric attribute of the job (kRankWildcard) or of a process.
  [[nodiscard]] std::optional<uint32_t> number(const char* key, uint32_t rank) const;
  /// Sets host_of_rank from the launcher's node list; leaves it empty if the list is incomplete.
  void read_hosts();
  Status find_local_ranks();

  Library library_;
  const Functions& call_;
  RankName name_;
  Proc self_{};
  Job job_;
  std::optional<std::string> parent_;  // of the process that has spawned this job
  std::set<std::string, std::less<>> put_keys_;
  bool committed_ = true, open_ = false;
  // PRRTE 3 sometimes never answers a request for a process that has not committed yet.
  bool needs_fence_before_get_ = false;
};

std::optional<uint32_t> Client::number(const char* key, uint32_t rank) const {
  const Proc proc = process(rank);
  Value* raw = nullptr;
  if (call_.PMIx_Get(&proc, key, nullptr, 0, &raw) != kSuccess || raw == nullptr) return std::nullopt;
  return number_in(*OwnedValue(raw));
}

Status Client::put(std::string_view key, std::string_view value) {
  WEFT_TRY(check_key(key));
  if (!put_keys_.emplace(key).second) return Error(Errc::arg, "key '" + std::string(key) + "' was put twice");
  // PMIx treats an empty byte object as missing: prefix the value with a marker.
  std::string marked = "=" + std::string(value);
  Value packed{};
  packed.type = Type::bytes;
  packed.data.bytes = {marked.data(), marked.size()};
  if (int status = call_.PMIx_Put(kGlobal, std::string(key).c_str(), &packed); status != kSuccess)
    return failure("putting '" + std::string(key) + "'", status);
  committed_ = false;
  return {};
}

Status Client::share() {
  if (needs_fence_before_get_) return fence();
  return commit();
}

Status Client::commit() {
  if (committed_) return {};
  if (int status = call_.PMIx_Commit(); status != kSuccess) return failure("committing values", status);
  committed_ = true;
  return {};
}

Status Client::fence() {
  WEFT_TRY(commit());
  // No data collection: only a barrier.
  if (int status = call_.PMIx_Fence(nullptr, 0, nullptr, 0); status != kSuccess)
    return failure("a fence", status);
  return {};
}

Result<std::string> Client::get(std::string_view key, int owner) {
  if (!open_) return Error(Errc::other, "get of '" + std::string(key) + "' after finalize");
  const Proc proc = process(static_cast<uint32_t>(owner));
  const auto timeout_s = static_cast<time_t>(get_timeout);
  const time_t deadline = seconds_now() + timeout_s;
  int status = kSuccess;
  // If the owner has committed other values but not this one yet, PMIx returns not-found at once: retry.
  for (useconds_t pause = 500;; pause = std::min<useconds_t>(pause * 2, 50'000)) {
    const Info info = timeout_info(static_cast<int>(std::max<time_t>(deadline - seconds_now(), 1)));
    Value* raw = nullptr;
    status = call_.PMIx_Get(&proc, std::string(key).c_str(), &info, 1, &raw);
    if (status == kSuccess && raw != nullptr) {
      const OwnedValue value(raw);
      if (value->type != Type::bytes || value->data.bytes.size == 0 || value->data.bytes.bytes[0] != '=')
        return Error(Errc::other, "the value of '" + std::string(key) + "' was damaged by the launcher");
      return std::string(value->data.bytes.bytes + 1, value->data.bytes.size - 1);
    }
    if ((status != kNotFound && status != kTimeout && status != kError) || seconds_now() >= deadline) break;
    ::usleep(pause);
  }
  return Error(status == kNotFound || status == kTimeout || status == kError ? Errc::arg : Errc::other,
               "process " + std::to_string(owner) + " has not put the key '" + std::string(key) + "' (" +
                   call_.PMIx_Error_string(status) + ", waited for " + std::to_string(timeout_s) + " s)");
}

void Client::abort(int code, std::string_view message) {
  if (open_) call_.PMIx_Abort(code, std::string(message.substr(0, 4096)).c_str(), nullptr, 0);
}

Result<Spawned> Client::spawn(const SpawnRequest& request) {
  if (job_.launcher == "slurm") return Exchange::spawn(request);
  if (!open_) return Error(Errc::spawn, "spawn after MPI_Finalize");
  auto made = SpawnApps::create(request);
  if (!made) return std::move(made).error();
  char space[kNameBytes] = "";
  const int status = call_.PMIx_Spawn(made->job().data(), made->job().size(), made->apps().data(),
                                      made->apps().size(), space);
  if (status == kNotSupported) return Exchange::spawn(request);
  size_t processes = 0;
  for (const SpawnProgram& program : request.programs) processes += static_cast<size_t>(program.processes);
  Spawned spawned{std::vector<bool>(processes, status == kSuccess), {}, {}};
  if (status != kSuccess) {
    spawned.problem = "the launcher could not start '" + request.programs.front().command + "' (" +
                      call_.PMIx_Error_string(status) + "): see its own messages";
    return spawned;
  }
  auto pids = local_pids(space);
  if (!pids) return std::move(pids).error();
  spawned.pids = std::move(*pids);
  return spawned;
}

/// The pids of another job's processes on this host; empty: unknown. Errc::spawn: the job has ended.
Result<std::vector<int>> Client::local_pids(const std::string& space) const {
  if (call_.PMIx_Query_info == nullptr) return std::vector<int>();
  std::string key = "pmix.qry.ptable";
  char* keys[] = {key.data(), nullptr};
  Info of = string_info("pmix.nspace", space);
  Query query{keys, &of, 1};
  Info* raw = nullptr;
  size_t count = 0;
  const int status = call_.PMIx_Query_info(&query, 1, &raw, &count);
  if (status == kNotFound)
    return Error(
        Errc::spawn,
        "the spawned processes have ended before their job has called MPI_Init: are they MPI programs?");
  if (status != kSuccess || raw == nullptr) return std::vector<int>();
  const std::unique_ptr<Info, Free> results(raw);
  char host[HOST_NAME_MAX + 1] = "";
  ::gethostname(host, sizeof host - 1);
  std::vector<int> pids;
  for (size_t i = 0; i < count; ++i) {
    if (raw[i].value.type != Type::array || raw[i].value.data.array == nullptr) continue;
    const std::unique_ptr<DataArray, Free> array(raw[i].value.data.array);
    const std::unique_ptr<void, Free> elements(array->elements);
    if (array->type != Type::process_info) continue;
    auto* const infos = static_cast<ProcessInfo*>(array->elements);
    for (size_t process = 0; process < array->size; ++process) {
      if (infos[process].host != nullptr && std::strcmp(infos[process].host, host) == 0)
        pids.push_back(infos[process].pid);
      std::free(infos[process].host);
      std::free(infos[process].executable);
    }
  }
  return pids;
}

/// Keys that begin with "pmix" are the launcher's own.
std::string service_key(std::string_view name) { return "weft.name." + std::string(name); }

/// Errc::name: nothing is published under the key.
Result<std::string> Client::published_by_pmix(const std::string& key) const {
  if (key.size() >= kKeyBytes)
    return Error(Errc::name, "PMIx publishes names of up to " +
                                 std::to_string(kKeyBytes - 1 - service_key("").size()) + " bytes");
  Published data{};
  std::strcpy(data.key, key.c_str());
  const int status = call_.PMIx_Lookup(&data, 1, nullptr, 0);
  if (status == kNotFound || (status == kSuccess && data.value.type != Type::string))
    return Error(Errc::name, "no job of this launcher publishes the name");
  if (status != kSuccess)
    return Error(Errc::service, std::string("the launcher's name service does not answer (") +
                                    call_.PMIx_Error_string(status) +
                                    "): pass the name of the port in a file");
  const std::unique_ptr<char, Free> port(data.value.data.string);
  return std::string(port.get());
}

/// PMIx would replace a published value.
Status Client::publish(std::string_view name, std::string_view port) {
  const std::string key = service_key(name);
  if (auto published = published_by_pmix(key); published || key.size() >= kKeyBytes)
    return Error(Errc::name, published ? "the name is published already" : published.error().message());
  else if (published.error().code() != Errc::name)
    return std::move(published).error();
  const std::string value(port);
  const Info info = string_info(key.c_str(), value);
  const int status = call_.PMIx_Publish(&info, 1);
  return status == kSuccess ? Status() : failure("publishing a name", status);
}

Status Client::unpublish(std::string_view name) {
  std::string key = service_key(name);
  if (auto published = published_by_pmix(key); !published) return std::move(published).error();
  char* keys[] = {key.data(), nullptr};
  const int status = call_.PMIx_Unpublish(keys, nullptr, 0);
  return status == kSuccess ? Status() : failure("withdrawing a published name", status);
}

/// Names of the launcher's jobs, then those of Weft's mpiexec on this host.
Result<std::string> Client::lookup(std::string_view name) {
  auto published = published_by_pmix(service_key(name));
  if (published) return published;
  auto on_host = lookup_on_host(name);
  return on_host ? std::move(on_host) : std::move(published);
}

int Client::universe_size() {
  const auto slots = number("pmix.univ.size", kRankWildcard);
  return std::max(slots ? static_cast<int>(std::min(*slots, kMaxRanks)) : 0, job_.size);
}

Status Client::finalize() {
  if (!open_) return Error(Errc::other, "finalize was called twice");
  open_ = false;
  const int status = call_.PMIx_Finalize(nullptr, 0);
  name_.release();
  if (status != kSuccess) return failure("leaving the job", status);
  return {};
}

/// Returns the launcher's name, derived from the namespace: "prterun-host-4711@1", "slurm.pmix.7.0".
std::string launcher_name(const std::string& space) {
  if (space.starts_with("slurm.")) return "slurm";
  if (space.starts_with("prte")) return "prrte";
  return "pmix";
}

Status Client::open_job(const Lookup& lookup) {
  WEFT_TRY(name_.take(lookup("PMIX_NAMESPACE"), lookup("PMIX_RANK")));
  if (int status = call_.PMIx_Init(&self_, nullptr, 0); status != kSuccess)
    return failure(
        std::string("reaching the launcher's daemon (PMIX_NAMESPACE=") + lookup("PMIX_NAMESPACE") + ")",
        status);
  open_ = true;
  const auto size = number("pmix.job.size", kRankWildcard);
  if (!size || *size < 1 || *size > kMaxRanks || self_.rank >= *size)
    return Error(Errc::other, "PMIx: the launcher did not provide the size of the job");
  job_.rank = static_cast<int>(self_.rank);
  job_.size = static_cast<int>(*size);
  job_.id = self_.space;
  job_.launcher = launcher_name(job_.id);
  needs_fence_before_get_ = job_.launcher == "prrte";
  const char* server = lookup("PMIX_VERSION");
  job_.launcher_version = "PMIx " + (server != nullptr ? std::string(server) : library_.version) +
                          ", library " + library_.version;
  if (const char* parent = lookup(kParentVariable)) parent_ = parent;
  if (auto program = number("pmix.appnum", self_.rank)) job_.program = static_cast<int>(*program);
  return find_local_ranks();
}

void Client::read_hosts() {
  char* raw_nodes = nullptr;
  if (call_.PMIx_Resolve_nodes(self_.space, &raw_nodes) != kSuccess || raw_nodes == nullptr) return;
  const std::unique_ptr<char, Free> nodes(raw_nodes);
  std::vector<int> hosts(static_cast<size_t>(job_.size), -1);
  std::istringstream list(nodes.get());
  int host = 0;
  for (std::string node; std::getline(list, node, ','); ++host) {
    Proc* raw_procs = nullptr;
    size_t count = 0;
    if (call_.PMIx_Resolve_peers(node.c_str(), self_.space, &raw_procs, &count) != kSuccess) return;
    const std::unique_ptr<Proc, Free> procs(raw_procs);
    for (size_t i = 0; i < count; ++i)
      if (raw_procs[i].rank < hosts.size()) hosts[raw_procs[i].rank] = host;
  }
  if (std::find(hosts.begin(), hosts.end(), -1) == hosts.end()) job_.host_of_rank = std::move(hosts);
}

Status Client::find_local_ranks() {
  read_hosts();
  if (job_.host_of_rank.empty()) return gather_hosts(*this, job_);
  set_local_rank(job_);
  return {};
}

}  // namespace

bool is_available(const Lookup& lookup) {
  return lookup("PMIX_NAMESPACE") != nullptr && lookup("PMIX_RANK") != nullptr;
}

Result<std::unique_ptr<Exchange>> connect(const Lookup& lookup) {
  auto library = open_library();
  if (!library) return std::move(library).error();
  auto client = std::make_unique<Client>(*std::move(library));
  WEFT_TRY(client->open_job(lookup));
  return std::unique_ptr<Exchange>(std::move(client));
}

}  // namespace weft::launch::pmix
