// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/options.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/edit_distance.hpp"
#include "launch/environment.hpp"
#include "mpiexec/config_file.hpp"
#include "mpiexec/option_table.hpp"
#include "mpiexec/other_options.hpp"

namespace weft::mpiexec {

namespace {

const Row* find_row(const std::string& name) {
  for (const Row& row : option_table())
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) return &row;
  return nullptr;
}

std::string with_dashes(const std::string& name) { return (name.size() <= 2 ? "-" : "--") + name; }

Error unknown_option(const std::string& argument, const std::string& name) {
  std::string nearest;
  size_t best = 3;
  for (const Row& row : option_table())
    for (const std::string& known : row.names)
      if (size_t d = edit_distance(name, known); d < best && d < known.size()) {
        best = d;
        nearest = known;
      }
  return Error(Errc::arg, "unknown option '" + argument + "'" +
                              (nearest.empty() ? "" : ". Did you mean " + with_dashes(nearest) + "?") +
                              " (mpiexec --help lists the options; options of the program follow its name)");
}

/// Returns the name of an option, without dashes and value.
std::string name_of(const std::string& argument) {
  const std::string body = argument.substr(argument.starts_with("--") ? 2 : 1);
  return body.substr(0, body.find('='));
}

/// Returns true for -n2, which is -n 2.
bool is_joined_count(const std::string& argument) {
  return argument.size() > 2 && argument.starts_with("-n") &&
         argument.find_first_not_of("0123456789", 2) == argument.npos;
}

bool is_option(const std::string& word) {
  if (word.size() < 2 || word[0] != '-') return false;
  const std::string name = name_of(word);
  return find_row(name) != nullptr || values_of_other_option(name) >= 0 || names_file(word) ||
         is_joined_count(word);
}

/// Returns the word after an option, and advances i past it. A word that is an option itself, or ":", is no
/// value: it would be swallowed. `usage`: how the option is written, `joined`: how with such a value (empty:
/// never).
Result<std::string> next_value(const std::vector<std::string>& arguments, size_t& i, const std::string& name,
                               const std::string& usage, const std::string& joined) {
  const std::string problem = name + " needs a value: " + usage;
  if (i == arguments.size()) return Error(Errc::arg, problem);
  const std::string& word = arguments[i];
  if (word == kNextProgram) return Error(Errc::arg, problem + " (the next word is ':')");
  if (is_option(word))
    return Error(Errc::arg, problem + " (the next word, '" + word + "', is an option" +
                                (joined.empty() ? "" : "; as a value: " + joined + word) + ")");
  return arguments[i++];
}

Status read_option(State& state, const std::vector<std::string>& arguments, size_t& i);

/// Reads the values of an option of another MPI. `values` has the value after "=", if there is one.
Status read_other_values(const std::vector<std::string>& arguments, size_t& i, const std::string& option,
                         std::vector<std::string>& values) {
  const std::string name = with_dashes(option);
  if (is_joined_option(option)) {
    values.resize(1);
    return {};
  }
  const auto wanted = static_cast<size_t>(values_of_other_option(option));
  const bool variable = sets_variable(option);
  const std::string usage = variable      ? name + " NAME VALUE or " + name + " NAME=VALUE"
                            : wanted == 2 ? name + " NAME VALUE"
                                          : name + " VALUE";
  while (values.size() < wanted && (values.empty() || !values[0].empty())) {
    if (values.size() == 1) {
      const size_t equals = values[0].find('=');
      if (equals != std::string::npos && variable) {
        values.push_back(values[0].substr(equals + 1));
        values[0].erase(equals);
        break;
      }
      if (equals != std::string::npos)
        return Error(Errc::arg,
                     name + " " + values[0] + ": " + name + " takes 2 values, NAME VALUE, without '='");
    }
    const std::string joined = wanted == 1                      ? name + "="
                               : variable && values.size() == 1 ? name + " " + values[0] + "="
                                                                : "";
    auto value = next_value(arguments, i, name, usage, joined);
    if (!value) return std::move(value).error();
    values.push_back(std::move(*value));
  }
  if (!values.empty() && values[0].empty()) return Error(Errc::arg, name + " needs a value: " + usage);
  if (values.size() == wanted) return {};
  return Error(Errc::arg, name + " takes " +
                              (wanted == 0   ? "no value"
                               : wanted == 1 ? "1 value"
                                             : "2 values"));
}

/// Applies an option of another MPI by the options of Weft for it; `i` is the first word after it.
Status read_other_option(State& state, const std::vector<std::string>& arguments, size_t& i,
                         const std::string& name, const std::string* value) {
  std::vector<std::string> values;
  if (value != nullptr) values.push_back(*value);
  WEFT_TRY(read_other_values(arguments, i, name, values));
  auto translated = translate_other_option(name, values);
  if (!translated) return std::move(translated).error();
  state.notes.insert(state.notes.end(), translated->notes.begin(), translated->notes.end());
  for (size_t own = 0; own < translated->own.size();) WEFT_TRY(read_option(state, translated->own, own));
  return {};
}

/// Applies the option at arguments[i] and advances i past it.
Status read_option(State& state, const std::vector<std::string>& arguments, size_t& i) {
  const std::string& argument = arguments[i++];
  const std::string name = name_of(argument);
  const size_t equals = argument.find('=');
  const std::string value = equals == argument.npos ? "" : argument.substr(equals + 1);
  const Row* row = find_row(name);
  if (row == nullptr && values_of_other_option(name) >= 0)
    return read_other_option(state, arguments, i, name, equals == argument.npos ? nullptr : &value);
  if (row == nullptr)
    return is_joined_count(argument) ? set_ranks(state, "-n", argument.substr(2))
                                     : unknown_option(argument, name);
  const std::string shown = with_dashes(name);
  if (row->value == nullptr) {
    if (equals != argument.npos) return Error(Errc::arg, shown + " takes no value");
    return row->apply(state, shown, "");
  }
  if (equals != argument.npos) return row->apply(state, shown, value);
  const bool has_name = std::string_view(row->value).starts_with("NAME");
  auto next = next_value(arguments, i, shown, shown + " " + row->value, has_name ? "" : shown + "=");
  return next ? row->apply(state, shown, *next) : std::move(next).error();
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
  std::vector<std::string> arguments = split_programs(given);
  size_t file_end = 0;  // the words before it are those of a file
  for (size_t i = 0; i < arguments.size();) {
    const std::string& argument = arguments[i];
    const bool of_python = state.program.python && (argument == "-m" || argument == "-c");
    if (argument.size() > 1 && argument[0] == '-' && argument != "--" && !of_python) {
      if (names_file(argument)) {
        if (i < file_end) return Error(Errc::arg, "a file of options has " + argument + " itself");
        auto words = insert_file(arguments, i, state.options.warnings);
        if (!words) return std::move(words).error();
        file_end = i + *words;
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
    while (i < arguments.size() && arguments[i] != kNextProgram) state.program.argv.push_back(arguments[i++]);
    WEFT_TRY(close_program(state));
    if (i < arguments.size()) {
      ++i;
      state.open = true;
    }
  }
  if (state.open) WEFT_TRY(close_program(state));
  WEFT_TRY(apply_per_host(state));
  if (state.options.input_rank >= state.options.ranks())
    return Error(Errc::arg, "--stdin " + std::to_string(state.options.input_rank) + ": the job has only " +
                                std::to_string(state.options.ranks()) + " processes");
  for (Program& program : state.options.programs)
    program.variables.insert(program.variables.begin(), state.variables.begin(), state.variables.end());
  WEFT_TRY(check_gpu_variables(state.options));
  if (!state.options.no_notes)
    state.options.warnings.insert(state.options.warnings.end(), state.notes.begin(), state.notes.end());
  if (state.options.mps && state.options.continue_on_failure)
    return Error(
        Errc::arg,
        "--mps on contradicts --continue-on-failure: a fault of one process on a GPU ends all processes "
        "that share it through MPS");
  if (state.options.continue_on_failure)
    for (Program& program : state.options.programs)
      program.variables.emplace_back("WEFT_LAUNCH_CONTINUE_ON_FAILURE", "on");
  return std::move(state.options);
}

std::string help_text() {
  std::string text =
      "usage: mpiexec [options] program [arguments] [: [options] program [arguments]]...\n"
      "Starts the processes of an MPI program on this host, or on a cluster through its launcher.\n\n";
  for (const Row& row : option_table()) {
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
      "124: --timeout expired; with --waits 1: a rank waits; 126 or 127: the program could not be started.\n"
      "\nOptions of other MPIs and of srun are translated, or refused with a remedy:\n"
      "mpiexec --help-other-options lists them.\n";
  return text;
}

}  // namespace weft::mpiexec
