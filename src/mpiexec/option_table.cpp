// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/option_table.hpp"

#include <charconv>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "launch/environment.hpp"
#include "mpiexec/hosts.hpp"
#include "mpiexec/labels.hpp"
#include "mpiexec/output_file.hpp"
#include "mpiexec/placement.hpp"

namespace weft::mpiexec {

namespace {

/// Adds NAME=VALUE, or NAME or a list of names with the values of the environment.
Status add_variables(State& state, std::vector<std::pair<std::string, std::string>>& to,
                     const std::string& name, const std::string& value) {
  const size_t equals = value.find('=');
  if (value.starts_with("-") || value.find_first_of(" \t\n") < equals ||
      (equals != value.npos && value.find(',') < equals))
    return bad_value(name, value, "NAME or NAME=VALUE, without blanks and commas in the name");
  if (equals != std::string::npos) {
    if (equals == 0) return bad_value(name, value, "NAME or NAME=VALUE");
    to.emplace_back(value.substr(0, equals), value.substr(equals + 1));
    return {};
  }
  if (value.empty()) return bad_value(name, value, "NAME or NAME=VALUE");
  std::stringstream stream(value);
  for (std::string variable; std::getline(stream, variable, ',');) {
    if (const char* current = std::getenv(variable.c_str()))
      to.emplace_back(variable, current);
    else
      state.options.warnings.push_back("-x " + variable +
                                       ": no such variable in the environment; left unset");
  }
  return {};
}

Status set_errhandler(State& state, const std::string& name, const std::string& value) {
  for (const char* valid : {"mpi_errors_are_fatal", "mpi_errors_abort", "mpi_errors_return"})
    if (value == valid) {
      state.program.variables.emplace_back("WEFT_ERRORS_INITIAL", value);
      return {};
    }
  return bad_value(name, value, "mpi_errors_are_fatal, mpi_errors_abort, mpi_errors_return");
}

Status set_timeout(State& state, const std::string& name, const std::string& value) {
  double seconds = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (error != std::errc() || end != value.data() + value.size() || !(seconds > 0 && seconds <= 1e8))
    return bad_value(name, value, "seconds, more than 0 and at most 100000000");
  state.options.timeout = seconds;
  return {};
}

Status set_mps(State& state, const std::string& name, const std::string& value) {
  if (value != "on" && value != "off")
    return bad_value(name, value, "off, on; the tool mps of Intel MPI is started as the program");
  state.options.mps = value == "on";
  return {};
}

Status set_watch(State& state, const std::string& name, const std::string& value) {
  Options& to = state.options;
  std::istringstream text(value);
  char comma = ',';
  bool valid = static_cast<bool>(text >> to.watch);
  if (valid && !text.eof()) valid = text >> comma >> to.watch_interval && comma == ',';
  if (valid && !text.eof()) valid = text >> comma >> to.watch_count && comma == ',';
  if (!valid || !text.eof() || to.watch < 1 || to.watch_count < 0 ||
      !(to.watch_interval > 0 && to.watch_interval <= 3600))
    return bad_value(name, value, "PID[,SECONDS[,COUNT]]");
  return {};
}

Status set_xterm(State& state, const std::string& name, const std::string& value) {
  auto& ranks = state.options.xterm.emplace();
  std::istringstream list(value == "all" ? "" : value);
  for (std::string word; std::getline(list, word, ',');) {
    const auto rank = launch::parse_int(word, 0, kMaxRanks - 1);
    if (!rank) return bad_value(name, value, "ranks, such as 0,2, or all");
    ranks.push_back(*rank);
  }
  return {};
}

Status set_waits(State& state, const std::string& name, const std::string& value) {
  const auto process = value == "all" ? std::optional<int>(0) : launch::parse_int(value, 1, INT_MAX);
  if (!process) return bad_value(name, value, "the id of a process, or all");
  state.options.waits = *process;
  return {};
}

Status set_launcher(State& state, const std::string& name, const std::string& value) {
  if (value == "fork" || value == "srun") {  // words of Hydra: on this host only; Slurm
    state.options.launcher = value == "fork" ? Launcher::weft : Launcher::slurm;
    return {};
  }
  for (const char* remote :
       {"ssh", "rsh", "ll", "lsf", "sge", "pbs", "pbsdsh", "pdsh", "blaunch", "qrsh", "manual", "persist"})
    if (value == remote) {
      state.notes.push_back(name + " " + value + " has no effect: processes of one host need no daemons; " +
                            "--host and --hostfile start them on others, by --launcher prrte or hydra");
      return {};
    }
  return set_word<Launcher>(name, value,
                            {{"auto", Launcher::automatic},
                             {"weft", Launcher::weft},
                             {"slurm", Launcher::slurm},
                             {"prrte", Launcher::prrte},
                             {"hydra", Launcher::hydra}},
                            state.options.launcher);
}

Status set_labels(State& state, const std::string& name, const std::string& value) {
  return set_word<Labels>(name, value,
                          {{"tag", Labels::tag},
                           {"tag-fullname", Labels::full_tag},
                           {"rank", Labels::rank},
                           {"hydra", Labels::hydra},
                           {"gforker", Labels::gforker},
                           {"pals", Labels::pals},
                           {"slurm", Labels::slurm},
                           {"time", Labels::time},
                           {"none", Labels::none}},
                          state.options.labels);
}

/// Returns an apply function that changes the options of the job.
auto of_options(Status (*apply)(Options&, const std::string&, const std::string&)) {
  return [apply](State& state, const std::string& name, const std::string& value) {
    return apply(state.options, name, value);
  };
}

/// Returns an apply function that sets one boolean member.
auto flag(bool Options::*member) {
  return [member](State& state, const std::string&, const std::string&) -> Status {
    state.options.*member = true;
    return {};
  };
}

/// Returns an apply function that stores the value.
auto text(std::string Options::*member) {
  return [member](State& state, const std::string& name, const std::string& value) -> Status {
    if (value.empty()) return bad_value(name, value, "a path");
    state.options.*member = value;
    return {};
  };
}

auto pattern(std::string Options::*member) {
  return [member](State& state, const std::string& name, const std::string& value) -> Status {
    if (value.empty() || !valid_output_pattern(value))
      return bad_value(name, value, "a path in which %r is the rank, %h the host, %j the job");
    state.options.*member = value;
    return {};
  };
}

}  // namespace

Status set_ranks(State& state, const std::string& name, const std::string& value) {
  auto ranks = launch::parse_int(value, 1, kMaxRanks);
  if (!ranks) return bad_value(name, value, "a number from 1 to " + std::to_string(kMaxRanks));
  if (!state.program.counted_by.empty())
    return Error(Errc::arg, "the number of processes is given twice (" + state.program.counted_by + ", " +
                                name + " " + value + "): leave one out" +
                                (name == "-c" || state.program.counted_by.starts_with("-c ")
                                     ? "; the CPUs of each process, -c of srun, are --map-by slot:PE=N"
                                     : "; another program begins after ':'"));
  state.program.counted_by = name + " " + value;
  state.program.ranks = *ranks;
  state.counted = true;
  return {};
}

const std::vector<Row>& option_table() {
  static const std::vector<Row> rows = {
      {{"n", "np", "c", "ntasks"}, "N", "start N processes of the program (default 1)", set_ranks},
      {{"per-host"}, "N", "start N processes on each host", of_options(set_per_host)},
      {{"x"},
       "NAME[=VALUE]",
       "set an environment variable for the program",
       [](State& state, const std::string& name, const std::string& value) {
         return add_variables(state, state.program.variables, name, value);
       }},
      {{"x-all"},
       "NAME[=VALUE]",
       "set an environment variable for all programs",
       [](State& state, const std::string& name, const std::string& value) {
         return add_variables(state, state.variables, name, value);
       }},
      {{"memory-alloc-kinds"},
       "LIST",
       "request these memory allocation kinds, e.g. system,mpi,cuda:device",
       [](State& state, const std::string&, const std::string& value) -> Status {
         state.program.variables.emplace_back("WEFT_MEMORY_ALLOC_KINDS", value);
         return {};
       }},
      {{"initial-errhandler"},
       "HANDLER",
       "mpi_errors_are_fatal (default), mpi_errors_abort, mpi_errors_return",
       set_errhandler},
      {{"wdir", "wd"},
       "DIR",
       "start the program in this directory",
       [](State& state, const std::string& name, const std::string& value) -> Status {
         if (value.empty()) return bad_value(name, value, "a folder");
         state.program.directory = value;
         return {};
       }},
      {{"python"},
       nullptr,
       "the program is a Python program, of which an exception ends the job (as mpi4py.run)",
       [](State& state, const std::string&, const std::string&) -> Status {
         state.program.python = true;
         return {};
       }},
      {{"bind-to"},
       "core|hwthread|l3cache|numa|package|none",
       "core: one core per process; package, numa, l3cache: all cores of one; none: do not bind.\n"
       "Default: an equal share of the cores per process; none if there are more processes than cores",
       of_options(set_bind)},
      {{"map-by"},
       "slot|core|hwthread|l3cache|numa|package|gpu|node[:PE=N]",
       "slot (default); core: consecutive cores, one per process; package, numa, l3cache: one after the\n"
       "other; ppr:N:package: N processes on each; :PE=N: N cores per process; node: hosts in turns;\n"
       "gpu: the cores next to GPU number (local rank modulo number of GPUs)",
       of_options(set_map)},
      {{"rank-by"},
       "slot|fill|package|numa|l3cache",
       "order of the ranks in the mapping: slot (default): as placed; fill: beside each other; others: in "
       "turns",
       of_options(set_rank_order)},
      {{"cpu-list", "cpu-set"},
       "LIST",
       "use only these CPUs, numbered as by taskset: 0-3,8",
       of_options(set_cpus)},
      {{"use-hwthread-cpus", "hwthread-cpus"},
       nullptr,
       "each hardware thread counts as a core",
       flag(&Options::hardware_threads)},
      {{"rankfile", "rf"},
       "FILE",
       "cores of each process, in lines such as: rank 0=localhost slot=0:1-3",
       text(&Options::rankfile)},
      {{"gpu-bind"},
       "single|closest|per_task:N|map_gpu:LIST|rotate|none",
       "GPUs that each process sees (default none: all), in Slurm's words. single: one, shared evenly by "
       "more\n"
       "processes; single:N: one for N processes; rotate: all, its own first",
       of_options(set_gpu_bind)},
      {{"gpus-per-task"},
       "N",
       "N GPUs of its own for each process: --gpu-bind per_task:N",
       of_options(set_gpus_per_task)},
      {{"report-bindings"},
       nullptr,
       "print which cores and GPUs each process may use",
       flag(&Options::report_bindings)},
      {{"do-not-launch"},
       nullptr,
       "print which cores and GPUs each process would get, and start nothing",
       flag(&Options::do_not_launch)},
      {{"oversubscribe"},
       nullptr,
       "allow more processes than cores with --bind-to core",
       flag(&Options::oversubscribe)},
      {{"tag-output"},
       nullptr,
       "begin each line of output with [1,rank]<stdout>: (1: the job, 2 the first spawned one)",
       [](State& state, const std::string& name, const std::string&) {
         return set_labels(state, name, "tag");
       }},
      {{"labels"},
       "tag|tag-fullname|rank|hydra|gforker|pals|slurm|time|none",
       "labels of lines of output in the form of another launcher; hydra: [rank], slurm: rank:, time: the "
       "time",
       set_labels},
      {{"prepend-pattern"},
       "TEXT",
       "begin each line of output with this text; %r is the rank, %h the host, %g the process group, %t the "
       "time",
       of_options(set_label_pattern)},
      {{"timestamp-output"},
       nullptr,
       "begin each line of output with [time]<stdout>: ",
       flag(&Options::timestamp_output)},
      {{"merge-stderr-to-stdout"},
       nullptr,
       "send the processes' standard error to standard output",
       flag(&Options::merge_output)},
      {{"output"},
       "tag|tag-fullname|rank|timestamp|merge|dir=FOLDER",
       "the same as --tag-output, ...; rank: [rank]<stdout>: ; dir: files FOLDER/1/rank.N/stdout and stderr; "
       "comma-separated",
       of_options(set_output)},
      {{"output-filename"},
       "FOLDER[:nocopy]",
       "also write output to FOLDER/1/rank.N/stdout and stderr; nocopy: only there",
       of_options(set_output_folder)},
      {{"outfile-pattern"},
       "FILE",
       "standard output of the processes to files; %r is the rank, %h the host, %j the job (1)",
       pattern(&Options::output_file)},
      {{"errfile-pattern"}, "FILE", "the same for standard error", pattern(&Options::error_file)},
      {{"stdin", "s"},
       "RANK|none",
       "process that reads the standard input (default 0)",
       of_options(set_input_rank)},
      {{"continue-on-failure", "enable-recovery", "disable-auto-cleanup"},
       nullptr,
       "a process that fails does not end the job: the others get errors and may go on",
       flag(&Options::continue_on_failure)},
      {{"mps"},
       "off|on",
       "on: processes that share a GPU use it at once (MPS), by a daemon of this job or that of the site",
       set_mps},
      {{"no-notes"},
       nullptr,
       "no line for each option of another MPI that has no effect",
       flag(&Options::no_notes)},
      {{"timeout"}, "SECONDS", "end the job after this time, with exit code 124", set_timeout},
      {{"stats"},
       nullptr,
       "print a summary of the calls, bytes and waits of all processes at MPI_Finalize",
       [](State& state, const std::string&, const std::string&) -> Status {
         state.variables.emplace_back("WEFT_STATS", "on");
         return {};
       }},
      {{"gdb"}, nullptr, "run each process under gdb, which prints where it crashes", flag(&Options::gdb)},
      {{"xterm"},
       "RANKS|all",
       "run these processes (0,2) in windows of their own, with --gdb in gdb",
       set_xterm},
      {{"waits"},
       "PID|all",
       "start nothing, print what each process of a running job waits for (as weft hang)",
       set_waits},
      {{"watch"},
       "PID[,SECONDS[,COUNT]]",
       "start nothing, print JSON lines of what a running job does (as weft top)",
       set_watch},
      {{"run-info"},
       "PROGRAM",
       "start nothing, print for which MPI the program was built (as weft run-info)",
       [](State& state, const std::string&, const std::string& value) -> Status {
         state.options.run_info = value;
         return {};
       }},
      {{"json"}, nullptr, "with --waits: print JSON", flag(&Options::json)},
      {{"host", "H", "hosts"},
       "LIST",
       "start on these hosts: node0,node1:4. Other hosts than this one need a launcher, see --launcher",
       [](State& state, const std::string& name, const std::string& value) {
         return add_host_list(state.options.hosts, name, value);
       }},
      {{"hostfile", "machinefile", "f"},
       "FILE",
       "file with one host per line: node1, node1:4 or node1 slots=4",
       [](State& state, const std::string& name, const std::string& value) {
         return add_host_file(state.options.hosts, name, value);
       }},
      {{"configfile", "app"},  // read before the other options, by insert_file()
       "FILE",
       "a program in each line of the file, with its options and arguments",
       [](State&, const std::string&, const std::string&) { return Status(); }},
      {{"launcher"},
       "auto|weft|slurm|prrte|hydra",
       "launcher of the processes. auto: Weft's own on this host; for other hosts srun in a Slurm\n"
       "allocation, else that of weft hosts --setup, else prterun, else mpiexec.hydra",
       set_launcher},
      {{"version", "V"}, nullptr, "print the version", flag(&Options::version)},
      {{"help", "h"}, nullptr, "print this text", flag(&Options::help)},
  };
  return rows;
}

}  // namespace weft::mpiexec
