// SPDX-License-Identifier: BSD-3-Clause
// A process of a job that uses only weft::launch, run by mpiexec.py and hydra.py. Its first argument selects
// the scenario; exit code and output report the result.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "base/config.hpp"
#include "launch/launch.hpp"

using namespace weft;

namespace {

[[noreturn]] void fail(const char* what, const Error& error) {
  std::fprintf(stderr, "%s: %s\n", what, error.message().c_str());
  std::exit(3);
}

void require(const char* what, const Status& status) {
  if (!status) fail(what, status.error());
}

/// A value with all byte values, different for each rank and round, longer than a PMI-1 value.
std::string long_value(int rank, int round) {
  std::string value(3000, '\0');
  for (size_t i = 0; i < value.size(); ++i)
    value[i] = static_cast<char>(i + static_cast<size_t>(rank + 7 * round));
  return value;
}

void expect_value(launch::Exchange& exchange, const std::string& key, int owner,
                  const std::string& expected) {
  auto value = exchange.get(key, owner);
  if (!value) fail("get", value.error());
  if (*value == expected) return;
  std::fprintf(stderr, "the value of %s is wrong\n", key.c_str());
  std::exit(3);
}

int exchange_all(launch::Exchange& exchange) {
  const launch::Job& job = exchange.job();
  for (int round = 0; round < 3; ++round) {
    const std::string suffix = "." + std::to_string(round) + ".";
    require("put", exchange.put("long" + suffix + std::to_string(job.rank), long_value(job.rank, round)));
    require("put", exchange.put("empty" + suffix + std::to_string(job.rank), ""));
    require("fence", exchange.fence());
    for (int rank = 0; rank < job.size; ++rank) {
      expect_value(exchange, "long" + suffix + std::to_string(rank), rank, long_value(rank, round));
      expect_value(exchange, "empty" + suffix + std::to_string(rank), rank, "");
    }
  }
  if (exchange.get("missing", 0).ok()) return 3;
  if (exchange.put("bad key", "value").ok()) return 3;
  std::printf("rank %d/%d local %d/%d hosts %zu by %s id %s\n", job.rank, job.size, job.local_rank,
              job.local_size, job.host_of_rank.size(), job.launcher.c_str(), job.id.c_str());
  require("finalize", exchange.finalize());
  return 0;
}

/// Values are available after share(), even if their owner arrives late.
int get_from_late_owners(launch::Exchange& exchange) {
  const launch::Job& job = exchange.job();
  if (job.rank % 2 == 1) ::usleep(200'000);
  require("put", exchange.put("late." + std::to_string(job.rank), long_value(job.rank, 0)));
  require("share", exchange.share());
  for (int rank = job.size - 1; rank >= 0; --rank)
    expect_value(exchange, "late." + std::to_string(rank), rank, long_value(rank, 0));
  std::puts("all received");
  require("finalize", exchange.finalize());
  return 0;
}

int time_fences(launch::Exchange& exchange, int count) {
  require("fence", exchange.fence());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) require("fence", exchange.fence());
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
  if (exchange.job().rank == 0) std::printf("%.1f microseconds per fence\n", time.count() / count);
  require("finalize", exchange.finalize());
  return 0;
}

/// Stays in the job until the file, which it creates, is removed.
int hold(launch::Exchange& exchange, const std::string& file) {
  std::printf("process %d holds the rank\n", static_cast<int>(::getpid()));
  std::fflush(stdout);
  std::fclose(std::fopen(file.c_str(), "w"));
  while (::access(file.c_str(), F_OK) == 0) ::usleep(2000);
  require("finalize", exchange.finalize());
  return 0;
}

/// A child process of a fork() without exec is no second process of the rank.
int fork_and_connect(launch::Exchange& exchange) {
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) {
    auto second = launch::connect();
    const bool named = !second && second.error().message().find(" (pid " + std::to_string(parent) + ") ") !=
                                      std::string::npos;
    if (!named) std::puts(second ? "the child is a rank, too" : second.error().message().c_str());
    std::fflush(stdout);
    ::_exit(named ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  require("finalize", exchange.finalize());
  return status == 0 ? 0 : 5;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "exchange";
  const std::string argument = argc > 2 ? argv[2] : "";
  require("settings", config::load());
  auto connected = launch::connect();
  if (!connected) fail("connect", connected.error());
  launch::Exchange& exchange = **connected;
  const bool misbehaves = exchange.job().rank == exchange.job().size - 1;
  if (mode == "exchange") return exchange_all(exchange);
  if (mode == "late_values") return get_from_late_owners(exchange);
  if (mode == "hold") return hold(exchange, argument);
  if (mode == "fork") return fork_and_connect(exchange);
  if (mode == "fences") return time_fences(exchange, std::atoi(argument.c_str()));
  if (mode == "command") {  // environment of a process started by an initialized rank
    launch::scrub_environment();
    const int status = std::system(argument.c_str());
    require("finalize", exchange.finalize());
    return status == 0 ? 0 : 4;
  }
  if (mode == "abort" && misbehaves) {
    exchange.abort(std::atoi(argument.c_str()), "first line\nand a % sign");
    ::_exit(9);
  }
  if (mode == "quit" && misbehaves) return 0;
  if (mode == "twice") {
    if (misbehaves) require("put", exchange.put("key", "1"));
    return misbehaves && exchange.put("key", "2").ok() ? 5 : (require("finalize", exchange.finalize()), 0);
  }
  if (mode == "late") {  // a failure after finalize
    require("finalize", exchange.finalize());
    if (misbehaves) return std::atoi(argument.c_str());
    ::usleep(300'000);
    std::puts("others go on");
    return 0;
  }
  if (mode == "die") {
    require("fence", exchange.fence());
    if (misbehaves) ::raise(SIGKILL);
    std::thread([] {
      ::sleep(5);
      std::puts("still here");
      std::fflush(stdout);
      ::_exit(7);
    }).detach();
  }
  if (mode != "abort" && mode != "quit" && mode != "die") return 6;
  require("fence", exchange.fence());  // the last rank never arrives
  require("finalize", exchange.finalize());
  return 0;
}
