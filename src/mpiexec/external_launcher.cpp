// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/external_launcher.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>

#include "mpiexec/gpu_exec.hpp"
#include "mpiexec/guard.hpp"
#include "mpiexec/hosts.hpp"
#include "mpiexec/plan.hpp"

namespace weft::mpiexec {

namespace {

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

std::string join(const Words& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

/// Returns "node0:2,node1:2"; without --hosts, all ranks are on this host.
Result<std::string> host_list(const Options& options) {
  const std::vector<Host> here = {{host_name(), 0}};
  auto shares =
      distribute_ranks(options.hosts.empty() ? here : options.hosts, options.ranks(), options.oversubscribe);
  if (!shares) return std::move(shares).error();
  Words entries;
  for (const Host& share : *shares) entries.push_back(share.name + ":" + std::to_string(share.slots));
  return join(entries, ",");
}

/// Prefixes the program with env(1): the launchers set variables per job, -x sets them per program.
Words with_env_command(const Program& program) {
  if (program.variables.empty()) return program.argv;
  Words words = {"env"};
  for (const auto& [name, value] : program.variables) words.push_back(name + "=" + value);
  append(words, program.argv);
  return words;
}

/// The mpiexec that other hosts have under the same path.
std::string mpiexec_of(const std::string& library_directory) {
  return library_directory.empty() ? "mpiexec" : library_directory + "/../bin/mpiexec";
}

/// Makes mpiexec assign the GPUs of each host there, by --gpu-exec before the program.
void assign_gpus_on_hosts(Options& options, const std::string& library_directory) {
  const GpuBinding binding = gpu_binding(options);
  if (!binding.assigns()) return;
  for (Program& program : options.programs)
    program.argv.insert(program.argv.begin(), {mpiexec_of(library_directory), kGpuExec,
                                               (options.report_bindings ? "verbose," : "") + binding.text});
}

/// The words of a program under a launcher that leaves processes behind: a guard of its host ends them.
Words guarded(const Program& program, const Options& options, const std::string& library_directory) {
  Words words = {mpiexec_of(library_directory), kGuard,
                 options.continue_on_failure ? kGuardContinues : kGuardEnds};
  append(words, with_env_command(program));
  return words;
}

/// --gpu-bind and --gpus-per-task of srun, which assigns the GPUs that it has allocated.
Result<Words> srun_gpus(const Options& options) {
  Words words;
  if (options.gpus_per_task > 0) words.push_back("--gpus-per-task=" + std::to_string(options.gpus_per_task));
  const GpuBinding& binding = options.gpu_bind;
  if (binding.kind == GpuBind::unset) return words;
  if (binding.kind == GpuBind::rotate)
    return Error(Errc::unsupported,
                 "--gpu-bind rotate is not supported with srun, which hides the other GPUs: "
                 "use --gpu-bind single");
  std::string text = binding.kind == GpuBind::single && binding.count == 0 ? "single:1" : binding.text;
  if (text.starts_with("list:")) {  // of PALS
    text = "mask_gpu:";
    for (const auto& gpus : binding.lists) {
      uint64_t mask = 0;
      for (const int gpu : gpus) mask |= uint64_t{1} << gpu;
      char number[32];
      snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(mask));
      text += (text.ends_with(':') ? "" : ",") + std::string(number);
    }
  }
  words.push_back("--gpu-bind=" + std::string(options.report_bindings ? "verbose," : "") + text);
  return words;
}

Error unsupported_option(const char* launcher, const std::string& what) {
  return Error(Errc::unsupported, what + " is not supported with " + launcher +
                                      ". Leave it out, or start the job with " + launcher +
                                      " and its own options.");
}

/// Returns true if a word needs no quoting, which Slurm's --multi-prog file lacks.
bool is_plain_word(const std::string& word) {
  return !word.empty() && word.find_first_of(" \t\n\"'\\%#") == word.npos;
}

/// Adds a text for the launcher and returns the path of the file under which the launcher reads it.
std::string add_text(LauncherCommand& to, const std::string& text) {
  to.texts.push_back(text);
  return "/proc/self/fd/" + std::to_string(kFirstTextFd + static_cast<int>(to.texts.size()) - 1);
}

/// "package", "numa" or "l3cache" in the words of prterun; nullptr for other bindings.
const char* name_of_binding(BindTo bind_to) {
  return bind_to == BindTo::package   ? "package"
         : bind_to == BindTo::numa    ? "numa"
         : bind_to == BindTo::l3cache ? "l3cache"
                                      : nullptr;
}

/// Refuses the options of the list that are set.
Status refuse(const char* launcher, std::initializer_list<std::pair<bool, const char*>> options) {
  for (const auto& [set, name] : options)
    if (set) return unsupported_option(launcher, name);
  return {};
}

/// Refuses the set options that only Weft's own launcher and prterun have.
Status refuse_placement_and_output(const char* launcher, const Options& options) {
  return refuse(launcher, {{options.rank_by != RankBy::mapping, "--rank-by"},
                           {options.hardware_threads, "--use-hwthread-cpus"},
                           {!options.cpus.empty(), "--cpu-list"},
                           {!options.rankfile.empty(), "--rankfile"},
                           {options.merge_output, "--merge-stderr-to-stdout"},
                           {options.timestamp_output, "--timestamp-output"},
                           {!options.output_file.empty() || !options.error_file.empty(), "output to files"}});
}

/// --map-by of prterun.
std::string prterun_mapping(const Options& options) {
  std::string text = options.map_by == MapBy::core      ? "core"
                     : options.map_by == MapBy::package ? "package"
                     : options.map_by == MapBy::numa    ? "numa"
                     : options.map_by == MapBy::l3cache ? "l3cache"
                     : options.map_by == MapBy::node    ? "node"
                                                        : "slot";
  if (!options.rankfile.empty()) return "rankfile:file=" + options.rankfile + ":OVERSUBSCRIBE";
  if (options.per_object > 0) text = "ppr:" + std::to_string(options.per_object) + ":" + text;
  if (options.cores_per_rank > 0) text += ":PE=" + std::to_string(options.cores_per_rank);
  if (options.hardware_threads) text += ":HWTCPUS";
  return text + ":OVERSUBSCRIBE";
}

/// --output of prterun; empty: the default.
std::string prterun_output(const Options& options) {
  Words words;
  if (options.labels == Labels::rank) words.emplace_back("rank");
  if (options.labels == Labels::full_tag) words.emplace_back("tag-fullname");
  if (words.empty() && options.labels != Labels::none) words.emplace_back("tag");
  if (options.timestamp_output) words.emplace_back("timestamp");
  if (options.merge_output) words.emplace_back("merge-stderr-to-stdout");
  return join(words, ",");
}

const char* prterun_ranking(RankBy order) {
  constexpr const char* kNames[] = {"slot", "fill", "package", "numa", "l3cache"};
  return kNames[static_cast<int>(order)];
}

/// Standard input as `--input` of srun and `--stdin` of prterun.
std::string input_word(const Options& options) {
  return options.input_rank < 0 ? "none" : std::to_string(options.input_rank);
}

Result<LauncherCommand> plan_srun(const Options& options, const Launchers& launchers) {
  if (launchers.slurm_mpi.empty())
    return Error(
        Errc::unsupported,
        "this Slurm has neither the MPI plugin pmix nor pmi2, or cannot load them (srun --mpi=list; srun "
        "--mpi=pmix --test-only true). Install libpmix2 and, for Debian's Slurm, libpmix-dev, or use "
        "--launcher prrte or hydra.");
  WEFT_TRY(
      refuse("srun", {{options.map_by != MapBy::slot && options.map_by != MapBy::node, "--map-by"},
                      {name_of_binding(options.bind_to) != nullptr, "--bind-to package, numa or l3cache"}}));
  WEFT_TRY(refuse_placement_and_output("srun", options));
  WEFT_TRY(refuse(
      "srun", {{options.labels == Labels::pattern || options.labels == Labels::time, "-prepend-pattern"}}));
  LauncherCommand to{"srun (Slurm job " + launchers.job + ")", {launchers.srun}, {}, {}};
  append(to.argv,
         {"--mpi=" + launchers.slurm_mpi, "--ntasks=" + std::to_string(options.ranks()), "--overcommit",
          options.continue_on_failure ? "--kill-on-bad-exit=0" : "--kill-on-bad-exit=1",
          "--input=" + input_word(options)});
  if (options.map_by == MapBy::node && options.hosts.empty()) to.argv.push_back("--distribution=cyclic");
  if (!options.hosts.empty()) {  // without hosts, Slurm distributes the ranks over the allocation
    auto rank_hosts = place_ranks(options.hosts, options.ranks(), options.oversubscribe);
    if (!rank_hosts) return std::move(rank_hosts).error();
    to.variables = {{"SLURM_HOSTFILE", add_text(to, join(*rank_hosts, "\n") + "\n")}};
    to.argv.push_back("--distribution=arbitrary");
  } else if (options.per_host > 0) {
    to.argv.push_back("--ntasks-per-node=" + std::to_string(options.per_host));
  }
  if (options.cores_per_rank > 0)
    to.argv.push_back("--cpus-per-task=" + std::to_string(options.cores_per_rank));
  if (options.bind_to == BindTo::core) to.argv.push_back("--cpu-bind=verbose,cores");
  if (options.bind_to == BindTo::none) to.argv.push_back("--cpu-bind=none");
  if (options.bind_to == BindTo::share && options.report_bindings) to.argv.push_back("--cpu-bind=verbose");
  auto gpus = srun_gpus(options);
  if (!gpus) return std::move(gpus).error();
  append(to.argv, *gpus);
  if (options.labels != Labels::none) to.argv.push_back("--label");
  const std::string& directory = options.programs.front().directory;
  for (const Program& program : options.programs)
    if (program.directory != directory) return unsupported_option("srun", "a different -wdir per program");
  if (!directory.empty()) to.argv.push_back("--chdir=" + directory);
  if (options.programs.size() == 1) {
    append(to.argv, with_env_command(options.programs.front()));
    return to;
  }
  std::string list;
  int first = 0;
  for (const Program& program : options.programs) {
    const Words words = with_env_command(program);
    if (!std::all_of(words.begin(), words.end(), is_plain_word))
      return unsupported_option("srun", "a job of several programs with blanks, quotes or % in a command");
    list += std::to_string(first) + "-" + std::to_string(first + program.ranks - 1) + " " + join(words, " ") +
            "\n";
    first += program.ranks;
  }
  append(to.argv, {"--multi-prog", add_text(to, list)});
  return to;
}

/// /opt/prrte/bin/prterun -> /opt/prrte; empty in /usr/bin and /bin, where the daemons need no --prefix.
std::string prefix_of(const std::string& program) {
  const std::string folder = program.substr(0, program.rfind('/'));
  return folder == "/usr/bin" || folder == "/bin" ? "" : folder.substr(0, folder.rfind('/'));
}

Result<LauncherCommand> plan_prterun(const Options& options, const Launchers& launchers,
                                     const std::string& library_directory, const Words& forwarded) {
  auto hosts = host_list(options);
  if (!hosts) return std::move(hosts).error();
  if (options.map_by == MapBy::gpu) return unsupported_option("prterun", "--map-by gpu");
  WEFT_TRY(refuse("prterun",
                  {{options.continue_on_failure, "--continue-on-failure"},
                   {options.labels == Labels::pattern || options.labels == Labels::time, "-prepend-pattern"},
                   {!options.cpus.empty(), "--cpu-list"},
                   {!options.output_file.empty() || !options.error_file.empty(), "output to files"}}));
  LauncherCommand to{"prterun", {launchers.prterun}, {}, {}};
  if (const std::string prefix = prefix_of(launchers.prterun); !prefix.empty())
    append(to.argv, {"--prefix", prefix});
  if (gpu_binding(options).assigns()) append(to.argv, {"--personality", "ompi"});  // sets the local rank
  append(to.argv, {"--host", *hosts});
  append(to.argv, {"--map-by", prterun_mapping(options)});
  // prterun's default binds each rank to one core; it has no equivalent of Weft's default (equal shares).
  const char* const object = name_of_binding(options.bind_to);
  append(to.argv, {"--bind-to", object != nullptr                 ? std::string(object) + ":overload-allowed"
                                : options.bind_to == BindTo::core ? "core:overload-allowed"
                                                                  : "none"});
  if (options.report_bindings) append(to.argv, {"--display", "bind"});
  if (options.rank_by != RankBy::mapping) append(to.argv, {"--rank-by", prterun_ranking(options.rank_by)});
  if (options.input_rank != 0) append(to.argv, {"--stdin", input_word(options)});
  if (const std::string output = prterun_output(options); !output.empty())
    append(to.argv, {"--output", output});
  for (const Program& program : options.programs) {
    if (&program != &options.programs.front()) to.argv.push_back(":");
    append(to.argv, {"-n", std::to_string(program.ranks)});
    for (const std::string& name : forwarded) append(to.argv, {"-x", name});
    if (!program.directory.empty()) append(to.argv, {"--wdir", program.directory});
    append(to.argv, guarded(program, options, library_directory));
  }
  return to;
}

/// True if the launcher of `weft hosts --setup` reaches all hosts of the job.
bool uses_ssh_launcher(const Options& options, const Launchers& launchers) {
  return !launchers.ssh.hydra.empty() && missing_hosts(launchers.ssh, options.hosts).empty();
}

Result<LauncherCommand> plan_hydra(const Options& options, const Launchers& launchers,
                                   const std::string& library_directory) {
  auto hosts = host_list(options);
  if (!hosts) return std::move(hosts).error();
  if (options.map_by != MapBy::slot && options.map_by != MapBy::core)
    return unsupported_option("mpiexec.hydra", "--map-by gpu, package or numa");
  WEFT_TRY(refuse("mpiexec.hydra",
                  {{options.cores_per_rank > 0 || options.per_object > 0 || name_of_binding(options.bind_to),
                    "--bind-to package or numa, PE=N or ppr"},
                   {options.report_bindings, "--report-bindings"},
                   {options.input_rank != 0, "--stdin"}}));
  WEFT_TRY(refuse_placement_and_output("mpiexec.hydra", options));
  LauncherCommand to{"mpiexec.hydra", {launchers.hydra, "-hosts", *hosts}, {}, {}};
  if (uses_ssh_launcher(options, launchers)) {
    to.launcher = "mpiexec.hydra of weft hosts";
    to.argv.front() = launchers.ssh.hydra;
    append(to.argv, {"-launcher", "ssh"});  // also in an allocation whose batch system Hydra knows
  }
  if (options.bind_to == BindTo::core || options.map_by == MapBy::core) append(to.argv, {"-bind-to", "core"});
  if (options.labels == Labels::pattern) append(to.argv, {"-prepend-pattern", options.label_pattern});
  if (options.labels != Labels::none && options.labels != Labels::pattern) to.argv.push_back("-prepend-rank");
  if (options.continue_on_failure) to.argv.push_back("-disable-auto-cleanup");
  for (const Program& program : options.programs) {
    if (&program != &options.programs.front()) to.argv.push_back(":");
    append(to.argv, {"-n", std::to_string(program.ranks)});
    if (!program.directory.empty()) append(to.argv, {"-wdir", program.directory});
    append(to.argv, guarded(program, options, library_directory));
  }
  return to;
}

Error no_launcher_error(const Options& options, const Launchers& launchers) {
  Words names;
  for (const Host& host : options.hosts) names.push_back(host.name);
  const Words missing = missing_hosts(launchers.ssh, options.hosts);
  const std::string setup = "weft hosts --setup " + join(missing, ",");
  if (!launchers.ssh.hydra.empty())
    return Error(Errc::unsupported, "the launcher over ssh is not set up on " + join(missing, ", ") +
                                        " (weft hosts lists the hosts that have it): run " + setup);
  return Error(
      Errc::unsupported,
      "the hosts " + join(names, ", ") + " need a launcher (this host is " + host_name() +
          "), but none was found: no Slurm allocation (salloc, sbatch), no launcher of weft hosts, no "
          "prterun, no mpiexec.hydra. Run " +
          setup + ", which installs a launcher over ssh.");
}

Error not_found_error(const std::string& name) {
  return Error(Errc::unsupported, "--launcher " + name + ": not found on PATH" +
                                      (name == "slurm" ? ", or no Slurm allocation (salloc, sbatch)" : ""));
}

bool uses_srun(const Options& options, const Launchers& launchers) {
  return options.launcher == Launcher::automatic ? !launchers.srun.empty()
                                                 : options.launcher == Launcher::slurm;
}

Result<LauncherCommand> plan_for(const Options& options, const Launchers& launchers,
                                 const std::string& library_directory, const Words& forwarded) {
  const bool any = options.launcher == Launcher::automatic;
  if (uses_srun(options, launchers))
    return launchers.srun.empty() ? Result<LauncherCommand>(not_found_error("slurm"))
                                  : plan_srun(options, launchers);
  const bool ssh = uses_ssh_launcher(options, launchers);
  if (any && ssh) return plan_hydra(options, launchers, library_directory);
  if (any ? !launchers.prterun.empty() : options.launcher == Launcher::prrte)
    return launchers.prterun.empty() ? Result<LauncherCommand>(not_found_error("prrte"))
                                     : plan_prterun(options, launchers, library_directory, forwarded);
  if (any ? !launchers.hydra.empty() : options.launcher == Launcher::hydra)
    return launchers.hydra.empty() && !ssh ? Result<LauncherCommand>(not_found_error("hydra"))
                                           : plan_hydra(options, launchers, library_directory);
  return no_launcher_error(options, launchers);
}

}  // namespace

bool needs_external_launcher(const Options& options) {
  if (options.launcher != Launcher::automatic) return options.launcher != Launcher::weft;
  if (fake_hosts() > 1 && static_cast<int>(options.hosts.size()) <= fake_hosts()) return false;
  return !std::all_of(options.hosts.begin(), options.hosts.end(),
                      [](const Host& host) { return is_this_host(host.name); });
}

Result<LauncherCommand> plan_external_launcher(const Options& given, const Launchers& launchers,
                                               const std::string& library_directory,
                                               const std::vector<std::string>& forwarded) {
  if (given.mps)
    return Error(
        Errc::unsupported,
        "--mps on starts a daemon on this host only, and other launchers start the processes of their "
        "hosts themselves: have nvidia-cuda-mps-control -d run on each host before the job (Slurm: "
        "--gres=mps, or a prologue)");
  Options options = given;
  for (Program& program : options.programs) prepend_library_path(program, library_directory);
  if (!uses_srun(options, launchers)) assign_gpus_on_hosts(options, library_directory);
  auto planned = plan_for(options, launchers, library_directory, forwarded);
  if (!planned || options.timeout <= 0) return planned;
  Words timed = {"timeout", "--kill-after=5",
                 std::to_string(options.timeout)};  // coreutils; exit code 124 as in mpiexec
  append(timed, planned->argv);
  planned->argv = std::move(timed);
  return planned;
}

}  // namespace weft::mpiexec
