// SPDX-License-Identifier: BSD-3-Clause
// mpiexec: starts the processes of an MPI program on this host, or runs a cluster's launcher (srun, prterun,
// Hydra). README.md lists the components.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/version.hpp"
#include "launch/environment.hpp"
#include "mpiexec/binding.hpp"
#include "mpiexec/external_launcher.hpp"
#include "mpiexec/gpu_exec.hpp"
#include "mpiexec/guard.hpp"
#include "mpiexec/input.hpp"
#include "mpiexec/job.hpp"
#include "mpiexec/labels.hpp"
#include "mpiexec/mps.hpp"
#include "mpiexec/options.hpp"
#include "mpiexec/other_options.hpp"
#include "mpiexec/output.hpp"
#include "mpiexec/plan.hpp"
#include "mpiexec/report.hpp"
#include "mpiexec/run_info.hpp"
#include "mpiexec/spawn.hpp"
#include "mpiexec/states.hpp"
#include "mpiexec/supervisor.hpp"
#include "mpiexec/waits.hpp"
#include "mpiexec/watch.hpp"

namespace weft::mpiexec {
namespace {

constexpr std::pair<std::string_view, Result<int> (*)(const std::string&)> kTools[] = {
    {"--collect", collect}, {"--conclude", conclude}, {"--sample", sample}};
constexpr int kUsageExitCode = 2, kStartExitCode = 1, kRefusedExitCode = 126;

int print_error(const Error& error, int exit_code) {
  print_message(error.message());
  return exit_code;
}

/// Prints the text of --help or --version; returns the exit code.
int print(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  print_message(std::string("cannot write standard output (") + std::strerror(errno) + ")");
  return kStartExitCode;
}

int run_job(Job::First first, TerminalInput& input, const InheritedState& inherited,
            const SpawnDefaults& defaults, char** argv) {
  // Adopts the supervisor's children if the supervisor is killed.
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    return print_error(system_call_error("adopt orphaned processes", errno), kStartExitCode);
  PmiListener listener;
  if (const Status opened = listener.open(); !opened.ok()) return print_error(opened.error(), kStartExitCode);
  auto supervisor = start_supervisor(first.plans, first.channels, listener, inherited, argv);
  if (!supervisor) return print_error(supervisor.error(), kStartExitCode);
  const Options& options = defaults.options;
  Output output(output_sources(first.channels),
                {label_pattern(options), first.id, options.merge_output, options.output_file,
                 options.error_file, options.copy_output});
  Job job(std::move(first), *supervisor, listener, input, output, defaults);
  Status ready = output.start();
  if (ready.ok()) ready = job.open();
  return ready.ok() ? job.run() : job.shut_down(ready.error());
}

/// Returns the CPUs of --cpu-list, else all that this process may use.
Result<std::vector<int>> cpus_for_ranks(const Options& options) {
  const std::vector<int> allowed = allowed_cpus();
  if (options.cpus.empty()) return allowed;
  for (const int cpu : options.cpus)
    if (std::find(allowed.begin(), allowed.end(), cpu) == allowed.end())
      return Error(Errc::arg, "--cpu-list: mpiexec may not use CPU " + std::to_string(cpu) + ", only " +
                                  format_cpu_list(allowed));
  return options.cpus;
}

int start_ranks(const Options& options, const std::vector<Binding>& bindings, char** argv,
                char** environment) {
  const std::string job_id = unique_job_id();
  const std::string libraries = library_directory();
  auto plans = plan_ranks(options, bindings, job_id, libraries, environment);

  for (const RankPlan& plan : plans)
    if (!plan.other_mpi.empty())
      return print_error(
          Error(Errc::arg, "'" + plan.argv[0] + "' is linked with another MPI (" + plan.other_mpi +
                               "), on which each rank would run alone: build it with Weft's mpicc, "
                               "or start it with the mpiexec of that MPI"),
          kRefusedExitCode);

  if (const Status added = add_debugger(plans, options); !added.ok())
    return print_error(added.error(), kUsageExitCode);
  const InheritedState inherited = InheritedState::save_and_replace();
  auto channels = open_channels(options.ranks(), options.input_rank);
  if (!channels) return print_error(channels.error(), kStartExitCode);
  TerminalInput input;
  if (options.input_rank >= 0) {
    if (const Status opened = input.open(); !opened.ok()) return print_error(opened.error(), kStartExitCode);
    input.connect((*channels)[static_cast<size_t>(options.input_rank)]);
  }
  return run_job({std::move(plans), std::move(*channels), job_id}, input, inherited,
                 {options, libraries, environment}, argv);
}

int start(const Options& given, char** argv, char** environment) {
  Options options = given;
  auto cpus = cpus_for_ranks(options);
  if (!cpus) return print_error(cpus.error(), kUsageExitCode);
  auto bindings = plan_bindings(options, read_topology({}, *cpus, needs_gpus(options)), gpu_variables());
  if (!bindings) return print_error(bindings.error(), kUsageExitCode);
  if (options.report_bindings || options.do_not_launch)
    for (size_t rank = 0; rank < bindings->size(); ++rank)
      print_message("rank " + std::to_string(rank) + ": " + (*bindings)[rank].description);
  if (options.do_not_launch) return 0;
  prepare_descriptors();
  Mps mps;
  if (const Status started = mps.start(options, argv); !started.ok())
    return print_error(started.error(), kStartExitCode);
  const int exit_code = start_ranks(options, *bindings, argv, environment);
  mps.stop();
  return exit_code;
}

/// mpiexec --serve FD: starts processes for the singleton at that descriptor (launch/singleton/server.hpp).
/// Its parent does not wait for it.
int serve(const std::string& descriptor, char** argv, char** environment) {
  const auto fd = launch::parse_int(descriptor, 0, INT_MAX);
  ucred singleton{};
  socklen_t size = sizeof singleton;
  if (!fd || ::getsockopt(*fd, SOL_SOCKET, SO_PEERCRED, &singleton, &size) != 0)
    return print_error(Error(Errc::arg, "--serve is used by programs that run without mpiexec"),
                       kUsageExitCode);
  const pid_t pid = ::fork();
  if (pid != 0) return pid < 0 ? kStartExitCode : 0;
  ::setsid();
  Channels channel;
  channel.pmi = ::fcntl(*fd, F_DUPFD_CLOEXEC, kStandardDescriptors);
  // The program's other files must not stay open.
  for (const auto& [first, last] :
       {std::pair(kStandardDescriptors, channel.pmi - 1), std::pair(channel.pmi + 1, INT_MAX)})
    if (first <= last) ::syscall(SYS_close_range, first, last, 0);
  prepare_descriptors();
  const InheritedState inherited = InheritedState::save_and_replace();
  TerminalInput input;  // not opened: the terminal belongs to the singleton
  const Options options;
  const std::string libraries = library_directory();
  return run_job({{}, {channel}, unique_job_id(), singleton.pid}, input, inherited,
                 {options, libraries, environment}, argv);
}

/// Warns if the Slurm allocation has several hosts but the job uses only this one.
void warn_about_unused_hosts(const Options& options) {
  const char* hosts = std::getenv("SLURM_JOB_NUM_NODES");
  if (hosts == nullptr || std::atoi(hosts) < 2 || std::getenv("SLURM_STEP_ID") != nullptr) return;
  if (options.launcher == Launcher::automatic && options.hosts.empty())
    print_message(
        std::string("this Slurm job has ") + hosts +
        " hosts, and all processes start on this one (--launcher slurm, or srun --mpi=pmix, uses all; "
        "--launcher weft "
        "is silent)");
}

int run(int argc, char** argv, char** environment) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool rsh =
      !arguments.empty() && arguments[0] == "--mpirun-rsh";  // of the script mpirun_rsh of wheels
  if (rsh) arguments.erase(arguments.begin());
  if (rsh || std::string_view(argv[0]).ends_with("mpirun_rsh")) {
    auto translated = arguments_of_mpirun_rsh(arguments);
    if (!translated) return print_error(translated.error(), kUsageExitCode);
    arguments = std::move(*translated);
  }
  if (arguments.size() == 2 && arguments[0] == "--serve") return serve(arguments[1], argv, environment);
  if (arguments.size() == 2)  // of `weft hang` and other tools
    for (const auto& [name, tool] : kTools) {
      if (arguments[0] != name) continue;
      const auto done = tool(arguments[1]);
      return done ? *done : print_error(done.error(), kUsageExitCode);
    }
  if (arguments.size() == 1 && arguments[0] == "--help-other-options") return print(other_options_text());
  if (!arguments.empty() && arguments[0] == kGpuExec)
    return print_error(exec_with_gpus({arguments.begin() + 1, arguments.end()}), kRefusedExitCode);
  if (!arguments.empty() && arguments[0] == kGuard)
    return guard({arguments.begin() + 1, arguments.end()}, argv, environment);
  const auto from_environment = options_from_environment(environment);
  arguments.insert(arguments.begin(), from_environment.begin(), from_environment.end());
  auto options = parse_options(arguments);
  if (!options) return print_error(options.error(), kUsageExitCode);
  if (options->help) return print(help_text());
  if (options->version) return print(std::string("mpiexec (Weft) ") + kBuildVersion + "\n");
  if (!options->run_info.empty()) {
    const char* path = std::getenv("PATH");
    const bool has_folder = options->run_info.find('/') != std::string::npos;
    auto info = run_info(
        has_folder ? options->run_info : find_on_path(options->run_info, path != nullptr ? path : ""),
        library_directory());
    if (!info) return print_error(info.error(), kUsageExitCode);
    const int status = print(info->text);
    return status != 0 || info->runs ? status : kRefusedExitCode;
  }
  if (options->waits >= 0) {
    const auto waits = print_waits(options->waits, options->json);
    return waits ? *waits : print_error(waits.error(), kUsageExitCode);
  }
  if (options->watch > 0) {
    const auto watched = watch(options->watch, options->watch_interval, options->watch_count);
    return watched ? *watched : print_error(watched.error(), kUsageExitCode);
  }
  if (Status usable = check_folder(library_directory()); !usable.ok())
    return print_error(usable.error(), kUsageExitCode);
  for (const std::string& warning : options->warnings) print_message(warning);
  for (Program& program : options->programs) prepend_python(program, library_directory());
  if (needs_external_launcher(*options) && (options->gdb || options->xterm))
    return print_error(
        Error(Errc::arg, "--gdb and --xterm start processes on this host only: attach to a rank there"),
        kUsageExitCode);
  if (needs_external_launcher(*options) && options->do_not_launch)
    return print_error(
        Error(Errc::arg,
              "--do-not-launch: processes of other hosts are placed by their launcher, such as "
              "mpirun --do-not-launch --display map of Open MPI"),
        kUsageExitCode);
  if (needs_external_launcher(*options))
    return print_error(exec_external_launcher(*options, library_directory(), environment), kUsageExitCode);
  warn_about_unused_hosts(*options);
  return start(*options, argv, environment);
}

}  // namespace
}  // namespace weft::mpiexec

int main(int argc, char** argv) { return weft::mpiexec::run(argc, argv, environ); }
