// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/options.hpp"

#include <algorithm>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <sstream>

#include "launch/environment.hpp"
#include "mpiexec/hosts.hpp"
#include "mpiexec/other_options.hpp"
#include "mpiexec/placement.hpp"

namespace weft::mpiexec {

namespace {

/// State of the parser, modified by the rows of the table.
struct State {
  Options options;
  Program program;                                             ///< program being parsed
  bool open = true;                                            ///< a program is still expected
  bool counted = false;                                        ///< some program has a number of processes
  std::vector<std::pair<std::string, std::string>> variables;  ///< of all programs
  std::vector<std::string> notes;                              ///< options of other MPIs without effect
};

/// One option. `value` is its placeholder in the help, nullptr for a switch. `names` have no dashes; the
/// command line accepts one or two.
struct Row {
  std::vector<std::string> names;
  const char* value;
  const char* help;
  std::function<Status(State&, const std::string& name, const std::string& value)> apply;
};

Status set_ranks(State& state, const std::string& name, const std::string& value) {
  auto ranks = launch::parse_int(value, 1, kMaxRanks);
  if (!ranks) return bad_value(name, value, "a number from 1 to " + std::to_string(kMaxRanks));
  state.program.ranks = *ranks;
  state.counted = true;
  return {};
}

/// Adds NAME=VALUE, or NAME or a list of names with the values of the environment.
Status add_variables(State& state, std::vector<std::pair<std::string, std::string>>& to,
                     const std::string& name, const std::string& value) {
  const size_t equals = value.find('=');
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
  return set_word<Launcher>(name, value,
                            {{"auto", Launcher::automatic},
                             {"weft", Launcher::weft},
                             {"slurm", Launcher::slurm},
                             {"prrte", Launcher::prrte},
                             {"hydra", Launcher::hydra}},
                            state.options.launcher);
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

const std::vector<Row>& table() {
  static const std::vector<Row> rows = {
      {{"n", "np", "c"}, "N", "start N processes of the program (default 1)", set_ranks},
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
       [](State& state, const std::string&, const std::string& value) -> Status {
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
       "core|package|numa|none",
       "core: one core per process; package, numa: all cores of one; none: do not bind.\n"
       "Default: an equal share of the cores per process; none if there are more processes than cores",
       of_options(set_bind)},
      {{"map-by"},
       "slot|core|package|numa|gpu[:PE=N]",
       "slot (default); core: consecutive cores, one per process; package, numa: one after the other;\n"
       "ppr:N:package: N processes on each; :PE=N: N cores per process;\n"
       "gpu: the cores next to GPU number (local rank modulo number of GPUs)",
       of_options(set_map)},
      {{"report-bindings"},
       nullptr,
       "print which cores each process may use",
       flag(&Options::report_bindings)},
      {{"oversubscribe"},
       nullptr,
       "allow more processes than cores with --bind-to core",
       flag(&Options::oversubscribe)},
      {{"tag-output"},
       nullptr,
       "begin each line of output with [rank]<stdout>: ",
       flag(&Options::tag_output)},
      {{"continue-on-failure", "enable-recovery", "disable-auto-cleanup"},
       nullptr,
       "a process that fails does not end the job: the others get errors and may go on",
       flag(&Options::continue_on_failure)},
      {{"no-notes"},
       nullptr,
       "no line for each option of another MPI that has no effect",
       flag(&Options::no_notes)},
      {{"timeout"}, "SECONDS", "end the job after this time, with exit code 124", set_timeout},
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
       "start on these hosts: node0,node1:4. Hosts other than this one need Slurm, prterun or Hydra",
       [](State& state, const std::string& name, const std::string& value) {
         return add_host_list(state.options.hosts, name, value);
       }},
      {{"hostfile", "machinefile", "f"},
       "FILE",
       "file with one host per line: node1, node1:4 or node1 slots=4",
       [](State& state, const std::string& name, const std::string& value) {
         return add_host_file(state.options.hosts, name, value);
       }},
      {{"launcher"},
       "auto|weft|slurm|prrte|hydra",
       "launcher of the processes. auto: Weft's own on this host; for other hosts srun in a Slurm\n"
       "allocation, else prterun, else mpiexec.hydra",
       set_launcher},
      {{"version", "V"}, nullptr, "print the version", flag(&Options::version)},
      {{"help", "h"}, nullptr, "print this text", flag(&Options::help)},
  };
  return rows;
}

const Row* find_row(const std::string& name) {
  for (const Row& row : table())
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) return &row;
  return nullptr;
}

std::string with_dashes(const std::string& name) { return (name.size() <= 2 ? "-" : "--") + name; }

/// Returns the Levenshtein distance of two words.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

Error unknown_option(const std::string& argument, const std::string& name) {
  std::string nearest;
  size_t best = 3;
  for (const Row& row : table())
    for (const std::string& known : row.names)
      if (size_t d = distance(name, known); d < best && d < known.size()) {
        best = d;
        nearest = known;
      }
  return Error(Errc::arg, "unknown option '" + argument + "'" +
                              (nearest.empty() ? "" : ". Did you mean " + with_dashes(nearest) + "?") +
                              " (mpiexec --help lists the options; options of the program follow its name)");
}

Status read_option(State& state, const std::vector<std::string>& arguments, size_t& i);

/// Applies an option of another MPI by the options of Weft for it; `i` is the first word after it.
Status read_other_option(State& state, const std::vector<std::string>& arguments, size_t& i,
                         const std::string& name, const std::string* value) {
  std::vector<std::string> values;
  if (value != nullptr) values.push_back(*value);
  const auto wanted = static_cast<size_t>(values_of_other_option(name));
  while (values.size() < wanted && i < arguments.size()) values.push_back(arguments[i++]);
  if (values.size() != wanted)
    return Error(Errc::arg, with_dashes(name) + " takes " + std::to_string(wanted) +
                                (wanted == 1 ? " value" : " values"));
  auto translated = translate_other_option(name, values);
  if (!translated) return std::move(translated).error();
  if (!translated->note.empty()) state.notes.push_back(translated->note);
  for (size_t own = 0; own < translated->own.size();) WEFT_TRY(read_option(state, translated->own, own));
  return {};
}

/// Applies the option at arguments[i] and advances i past it.
Status read_option(State& state, const std::vector<std::string>& arguments, size_t& i) {
  const std::string& argument = arguments[i++];
  const std::string body = argument.substr(argument.starts_with("--") ? 2 : 1);
  const size_t equals = body.find('=');
  const std::string name = body.substr(0, equals);
  const Row* row = find_row(name);
  if (row == nullptr && values_of_other_option(name) >= 0) {
    const std::string value = equals == body.npos ? "" : body.substr(equals + 1);
    return read_other_option(state, arguments, i, name, equals == body.npos ? nullptr : &value);
  }
  if (row == nullptr) {  // -n2 is -n 2
    const bool count = argument[1] == 'n' && body.find_first_not_of("0123456789", 1) == body.npos;
    return count ? set_ranks(state, "-n", body.substr(1)) : unknown_option(argument, name);
  }
  if (row->value == nullptr) {
    if (equals != std::string::npos) return Error(Errc::arg, with_dashes(name) + " takes no value");
    return row->apply(state, with_dashes(name), "");
  }
  if (equals != std::string::npos) return row->apply(state, with_dashes(name), body.substr(equals + 1));
  if (i == arguments.size())
    return Error(Errc::arg, with_dashes(name) + " needs a value: " + with_dashes(name) + " " + row->value);
  return row->apply(state, with_dashes(name), arguments[i++]);
}

/// Completes the current program of the command line.
Status close_program(State& state) {
  if (state.program.argv.empty())
    return Error(Errc::arg, std::string("no program given") +
                                (state.options.programs.empty() ? "" : " after ':'") +
                                " (mpiexec -n 4 ./program; mpiexec --help lists the options)");
  state.options.programs.push_back(std::move(state.program));
  state.program = Program();
  state.open = false;
  if (state.options.ranks() > kMaxRanks)
    return Error(Errc::arg, "more than " + std::to_string(kMaxRanks) + " processes in all");
  return {};
}

/// Gives each host its processes, and the only program their number if it has none.
Status apply_per_host(State& state) {
  Options& options = state.options;
  if (options.per_host == 0) return {};
  const bool slurm = options.launcher == Launcher::slurm && options.hosts.empty();  // the hosts are Slurm's
  const long hosts = options.hosts.empty() ? fake_hosts() : static_cast<long>(options.hosts.size());
  const long slots = hosts * options.per_host;
  if (!state.counted && options.programs.size() == 1 && !slurm)
    options.programs[0].ranks = static_cast<int>(std::min<long>(slots, kMaxRanks));
  for (Host& host : options.hosts) host.slots = options.per_host;
  if (options.ranks() > slots && !slurm && !options.oversubscribe)
    return Error(Errc::arg, std::to_string(options.ranks()) + " processes, but " +
                                std::to_string(options.per_host) + " per host on " + std::to_string(hosts) +
                                (hosts == 1 ? " host" : " hosts") + " (name more hosts: --host a,b)");
  return {};
}

}  // namespace

int Options::ranks() const {
  long total = 0;
  for (const Program& program : programs) total += program.ranks;
  return static_cast<int>(std::min<long>(total, kMaxRanks + 1L));
}

int fake_hosts() {
  const char* hosts = std::getenv("WEFT_FAKE_HOSTS");
  return hosts == nullptr ? 1 : launch::parse_int(hosts, 1, kMaxRanks).value_or(1);
}

Result<Options> parse_options(const std::vector<std::string>& given) {
  State state;
  std::vector<std::string> arguments = given;
  for (size_t i = 0; i < arguments.size();) {
    const std::string& argument = arguments[i];
    const bool of_python = state.program.python && (argument == "-m" || argument == "-c");
    if (argument.size() > 1 && argument[0] == '-' && argument != "--" && !of_python) {
      if (names_file(argument)) {
        WEFT_TRY(insert_file(arguments, i));
        continue;
      }
      WEFT_TRY(read_option(state, arguments, i));
      if (state.options.help || state.options.version || !state.options.run_info.empty())
        return std::move(state.options);
      if ((state.options.waits >= 0 || state.options.watch > 0) && i == arguments.size())
        return std::move(state.options);
      continue;
    }
    if (argument == "--") ++i;
    while (i < arguments.size() && arguments[i] != ":") state.program.argv.push_back(arguments[i++]);
    WEFT_TRY(close_program(state));
    if (i < arguments.size()) {
      ++i;
      state.open = true;
    }
  }
  if (state.open) WEFT_TRY(close_program(state));
  WEFT_TRY(apply_per_host(state));
  for (Program& program : state.options.programs)
    program.variables.insert(program.variables.begin(), state.variables.begin(), state.variables.end());
  if (!state.options.no_notes)
    state.options.warnings.insert(state.options.warnings.end(), state.notes.begin(), state.notes.end());
  if (state.options.continue_on_failure)
    for (Program& program : state.options.programs)
      program.variables.emplace_back("WEFT_LAUNCH_CONTINUE_ON_FAILURE", "on");
  return std::move(state.options);
}

std::string help_text() {
  std::string text =
      "usage: mpiexec [options] program [arguments] [: [options] program [arguments]]...\n"
      "Starts the processes of an MPI program on this host, or on a cluster through its launcher.\n\n";
  for (const Row& row : table()) {
    std::string left = "  ";
    for (const std::string& name : row.names) left += (left.size() > 2 ? ", " : "") + with_dashes(name);
    if (row.value != nullptr) left += std::string(" ") + row.value;
    std::string help = row.help;
    for (size_t at = help.find('\n'); at != std::string::npos; at = help.find('\n', at + 1))
      help.insert(at + 1, std::string(30, ' '));
    if (left.size() > 28)
      text += left + "\n" + std::string(30, ' ');
    else
      text += left + std::string(30 - left.size(), ' ');
    text += help + "\n";
  }
  text +=
      "\nExit code: of the first process that fails; 128 + N if signal N killed it; 2: bad command line;\n"
      "124: --timeout expired; with --waits 1: a rank waits; 126 or 127: the program could not be started. "
      "See docs/launch.md.\n";
  return text;
}

}  // namespace weft::mpiexec
