// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "base/secure.hpp"
#include "launch/environment.hpp"
#include "launch/fake_hosts.hpp"
#include "launch/launch.hpp"
#include "launch/pmi/client.hpp"
#include "launch/pmi/connection.hpp"
#include "launch/pmix/client.hpp"
#include "launch/singleton/singleton.hpp"
#include "launch/store/store.hpp"

namespace weft::launch {

namespace {

config::Choice continues{
    "launch.continue_on_failure",
    0,
    {"off", "on"},
    "Whether the launcher lets a job go on after one of its processes has failed (mpiexec "
    "--continue-on-failure sets it; with other launchers set it yourself). off: operations that wait for the "
    "failed process return errors only after 2 s, in which the launcher usually ends the job."};

config::Choice singleton_processes{
    "launch.singleton",
    0,
    {"off", "second", "on"},
    "Which of the processes that a launcher has started, or that its processes have started, run alone, as "
    "rank 0 of 1. off: none. second: a process whose rank another process has at that time. on: all.",
    "a script runs several MPI programs at once below one rank (second), or a program alone inside of a job "
    "(on)"};

std::atomic<bool> program_continues{false};

/// In secure execution: the environment must not choose the descriptor, the socket or the PMIx plug-ins that
/// a program with more privileges uses. Running alone would be a wrong job, so it is an error.
Status refuse_untrusted_job(const Lookup& lookup) {
  if (!pmi::is_available(lookup) && !pmix::is_available(lookup)) return check_launcher_reachable(lookup);
  return Error(Errc::other,
               "this program cannot join the launcher's job (it has more privileges than its user, by "
               "set-user-ID, set-group-ID or file capabilities, so the launcher's variables are not "
               "trusted): remove these privileges, or start it without a launcher");
}

Result<std::unique_ptr<Exchange>> find_launcher() {
  if (store::is_available()) return store::connect();
  Lookup lookup = [](const char* name) -> const char* { return std::getenv(name); };
  if (secure::execution()) {
    WEFT_TRY(refuse_untrusted_job(lookup));
    return singleton::create();
  }
  if (singleton_processes.is("on")) return singleton::create();
  const bool pmi = pmi::is_available(lookup);
  if (pmi || pmix::is_available(lookup)) {
    auto exchange = pmi ? pmi::connect(lookup) : pmix::connect(lookup);
    if (exchange || exchange.error().code() != Errc::again) return exchange;
    if (singleton_processes.is("second")) return singleton::create();
    return Error(Errc::other, exchange.error().message());
  }
  WEFT_TRY(check_launcher_reachable(lookup));
  WEFT_TRY(pmi::check_variables_kept(lookup));
  return singleton::create();
}

Error no_name_service(const Job& job) {
  return Error(Errc::service,
               "the launcher (" + job.launcher +
                   ") has no name service: start the job with Weft's mpiexec, or pass the name "
                   "of the port in a file");
}

}  // namespace

Result<Spawned> Exchange::spawn(const SpawnRequest&) {
  return Error(Errc::spawn, "the launcher (" + job().launcher +
                                ") starts no further processes: start the job with mpiexec --launcher weft, "
                                "prterun or Hydra");
}
Status Exchange::publish(std::string_view, std::string_view) { return no_name_service(job()); }
Status Exchange::unpublish(std::string_view) { return no_name_service(job()); }
Result<std::string> Exchange::lookup(std::string_view) { return no_name_service(job()); }

Result<std::unique_ptr<Exchange>> connect() {
  auto exchange = find_launcher();
  if (!exchange) return exchange;
  return split_hosts(std::move(*exchange));
}

bool continues_on_failure() {
  return continues.is("on") || store::is_available() || program_continues.load(std::memory_order_relaxed);
}

void continue_on_failure() { program_continues.store(true, std::memory_order_relaxed); }

void scrub_environment() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    std::string_view name = text.substr(0, text.find('='));
    if (implies_job(name)) names.emplace_back(name);
  }
  for (const std::string& name : names) ::unsetenv(name.c_str());
}

}  // namespace weft::launch
