// SPDX-License-Identifier: BSD-3-Clause
// mpiexec: starts the processes of an MPI program on this host, or has a launcher of the cluster do so. See
// README.md for its parts.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "mpiexec/binding.hpp"
#include "mpiexec/handover.hpp"
#include "mpiexec/input.hpp"
#include "mpiexec/job.hpp"
#include "mpiexec/options.hpp"
#include "mpiexec/output.hpp"
#include "mpiexec/plan.hpp"
#include "mpiexec/report.hpp"
#include "mpiexec/sentinel.hpp"
#include "mpiexec/spawn.hpp"

#ifndef WEFT_VERSION
#define WEFT_VERSION "unknown"
#endif

namespace weft::mpiexec {
namespace {

constexpr int kUsageExitCode = 2, kStartExitCode = 1;

std::string unique_job_id() {
  unsigned long long number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number)
    number = static_cast<unsigned long long>(::time(nullptr));
  char text[64];
  snprintf(text, sizeof text, "weft-%d-%016llx", static_cast<int>(::getpid()), number);
  return text;
}

std::vector<Output::Source> output_sources(const std::vector<Channels>& channels) {
  std::vector<Output::Source> sources;
  for (size_t i = 0; i < channels.size(); ++i) {
    sources.push_back({channels[i].output, static_cast<int>(i), false});
    sources.push_back({channels[i].error, static_cast<int>(i), true});
  }
  return sources;
}

int refuse(const Error& error, int exit_code) {
  say(error.message());
  return exit_code;
}

/// Prints an answer of mpiexec itself; returns the exit code.
int print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  say(std::string("cannot write standard output (") + std::strerror(errno) + ")");
  return kStartExitCode;
}

int start(const Options& options, char** argv, char** environment) {
  auto bindings =
      plan_bindings(options, read_topology("/sys", allowed_cpus()), std::getenv("CUDA_VISIBLE_DEVICES"));
  if (!bindings) return refuse(bindings.error(), kUsageExitCode);
  if (options.report_bindings)
    for (size_t rank = 0; rank < bindings->size(); ++rank)
      say("rank " + std::to_string(rank) + ": " + (*bindings)[rank].description);
  const std::string job_id = unique_job_id();
  const auto plans = plan_ranks(options, *bindings, job_id, library_directory(), environment);

  secure_descriptors();
  const Inherited inherited = Inherited::take_over();
  auto channels = open_channels(options.ranks());
  if (!channels) return refuse(channels.error(), kStartExitCode);
  TerminalInput input;
  if (const Status opened = input.open(); !opened.ok()) return refuse(opened.error(), kStartExitCode);
  input.connect(channels->front());
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // should the sentinel be killed, its children become ours
  auto sentinel = start_sentinel(plans, *channels, inherited, argv);
  if (!sentinel) return refuse(sentinel.error(), kStartExitCode);
  Output output(output_sources(*channels), options.tag_output, input.active());
  Job job(plans, *channels, job_id, *sentinel, input, output, options.timeout);
  Status ready = output.start();
  if (ready.ok()) ready = job.open();
  return ready.ok() ? job.run() : job.give_up(ready.error());
}

/// Whoever has an allocation of several hosts rarely wants one of them.
void warn_of_idle_hosts(const Options& options) {
  const char* hosts = std::getenv("SLURM_JOB_NUM_NODES");
  if (hosts == nullptr || std::atoi(hosts) < 2 || std::getenv("SLURM_STEP_ID") != nullptr) return;
  if (options.launcher == Launcher::automatic && options.hosts.empty())
    say(std::string("this Slurm job has ") + hosts +
        " hosts, and all processes start on this one (--launcher slurm, or srun --mpi=pmix, uses all; "
        "--launcher weft "
        "is silent)");
}

int run(int argc, char** argv, char** environment) {
  auto options = parse_options({argv + 1, argv + argc});
  if (!options) return refuse(options.error(), kUsageExitCode);
  if (options->help) return print(help_text());
  if (options->version) return print("mpiexec (Weft) " WEFT_VERSION "\n");
  for (const std::string& warning : options->warnings) say(warning);
  if (wants_handover(*options))
    return refuse(hand_over(*options, library_directory(), environment), kUsageExitCode);
  warn_of_idle_hosts(*options);
  return start(*options, argv, environment);
}

}  // namespace
}  // namespace weft::mpiexec

int main(int argc, char** argv) { return weft::mpiexec::run(argc, argv, environ); }
