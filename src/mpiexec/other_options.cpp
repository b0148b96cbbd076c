// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/other_options.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include "launch/environment.hpp"

namespace weft::mpiexec {

namespace {

constexpr const char* kOneHost = "processes of one host need no daemons; other hosts have their own launcher";
constexpr const char* kAllPassed = "all variables of the environment are passed on";
constexpr const char* kChosen = "Weft chooses paths and algorithms itself (weft explain prints them)";
constexpr const char* kDebugger =
    "start the debugger as the program: mpiexec -n 2 xterm -e gdb --args ./program";
constexpr const char* kUnset = "start the program with env: mpiexec -n 2 env -u NAME ./program";

/// The first rule with the name and value applies. "mca NAME" is the rule of an MCA parameter.
constexpr Rule kRules[] = {
    // Number and place of processes.
    {"N npernode ppn perhost", 1, nullptr, "--per-host %1", ""},
    {"pernode", 0, nullptr, "--per-host 1", ""},
    {"npersocket", 1, nullptr, "--map-by ppr:%1:package", ""},
    {"bind-to-l3cache bind-to-cache", 0, nullptr, "--bind-to l3cache", ""},
    {"bind-to-hwthread", 0, nullptr, "--bind-to hwthread", ""},
    {"bind-to-core", 0, nullptr, "--bind-to core", ""},
    {"bind-to-socket", 0, nullptr, "--bind-to package", ""},
    {"bind-to-none nobind", 0, nullptr, "--bind-to none", ""},
    {"binding", 1, "none", "--bind-to none", ""},
    {"byslot", 0, nullptr, "--map-by slot", ""},
    {"bycore", 0, nullptr, "--map-by core", ""},
    {"bysocket", 0, nullptr, "--map-by package", ""},
    {"bynode rr", 0, nullptr, "--map-by node", ""},
    {"cpus-per-proc cpus-per-rank", 1, nullptr, "--map-by slot:PE=%1", ""},
    {"slot-list binding", 1, nullptr, nullptr, "use --cpu-list, --rankfile, --bind-to and --map-by"},
    {"nooversubscribe no-oversubscribe", 0, nullptr, "",
     "more processes than cores with --bind-to core are an error"},
    {"nolocal", 0, nullptr, nullptr, "leave this host out of --host"},
    {"display-map display-devel-map display-allocation", 0, nullptr, "--report-bindings", ""},
    {"display", 1, nullptr, "--report-bindings", ""},
    // Output and input.
    {"l prepend-rank", 0, nullptr, "--tag-output", ""},
    {"q quiet", 0, nullptr, "--no-notes", ""},
    {"v verbose print-all-exitcodes ordered-output", 0, nullptr, "", "mpiexec reports errors in full"},
    {"report-pid report-uri", 1, nullptr, "", kOneHost},
    // Environment.
    {"genv", 2, nullptr, "--x-all %1=%2", ""},
    {"env", 2, nullptr, "-x %1=%2", ""},
    {"genvall envall export-all", 0, nullptr, "", kAllPassed},
    {"genvlist envlist", 1, nullptr, "", kAllPassed},
    {"genvnone envnone", 0, nullptr, nullptr, kUnset},
    {"genvexcl envexcl", 1, nullptr, nullptr, kUnset},
    {"path", 1, nullptr, nullptr, "set the variable: -x PATH=..."},
    // Launch.
    {"allow-run-as-root", 0, nullptr, "", "any user may start jobs"},
    {"prefix", 1, nullptr, "", kOneHost},
    {"noprefix leave-session-attached hetero-nodes novm debug-daemons disable-hostname-propagation", 0,
     nullptr, "", kOneHost},
    {"launch-agent launcher-exec rmk bootstrap bootstrap-exec personality iface", 1, nullptr, "", kOneHost},
    {"usize", 1, nullptr, "", "the universe has as many processes as the host has processors"},
    {"preload-binary", 0, nullptr, "", "the program is read from the file system of each host"},
    {"tv debug ddt", 0, nullptr, nullptr, kDebugger},
    {"gtool gtoolfile", 1, nullptr, nullptr, kDebugger},
    {"with-ft", 1, "no", "", "a failed process ends the job by default"},
    {"with-ft", 1, "ulfm", "--continue-on-failure", ""},
    {"with-ft", 1, "mpi", "--continue-on-failure", ""},
    {"tune am", 1, nullptr, nullptr, "set Weft's variables (weft info --config)"},
    {"trace check_mpi ilp64", 0, nullptr, nullptr, "set WEFT_CHECK=on for checks; see the profiling page"},
    {"rdma RDMA psm PSM dapl ib IB", 0, nullptr, "", kChosen},
    // MCA parameters of Open MPI.
    {"mca pml", 1, "ucx", "--x-all WEFT_NET=ucx", ""},
    {"mca mtl", 1, "ofi", "--x-all WEFT_NET=ofi", ""},
    {"mca opal_cuda_support", 1, "0", "--x-all WEFT_CUDA=off", ""},
    {"mca btl_openib_if_include", 1, nullptr, "--x-all UCX_NET_DEVICES=%1", ""},
    {"mca rmaps_base_oversubscribe", 1, "1", "--oversubscribe", ""},
    {"mca rmaps_base_mapping_policy rmaps_default_mapping_policy", 1, nullptr, "--map-by %1", ""},
    {"mca hwloc_base_binding_policy hwloc_default_binding_policy", 1, nullptr, "--bind-to %1", ""},
    {"mca hwloc_base_report_bindings", 1, "1", "--report-bindings", ""},
    {"mca orte_tag_output", 1, "1", "--tag-output", ""},
    {"mca orte_timestamp_output", 1, "1", "--timestamp-output", ""},
    {"mca orte_output_filename", 1, nullptr, "--output-filename %1", ""},
    {"mca hwloc_base_cpu_list hwloc_base_cpu_set hwloc_default_cpu_list", 1, nullptr, "--cpu-list %1", ""},
    {"mca hwloc_base_use_hwthreads_as_cpus", 1, "1", "--use-hwthread-cpus", ""},
    {"mca rmaps_base_ranking_policy rmaps_default_ranking_policy", 1, nullptr, "--rank-by %1", ""},
    {"mca btl_base_verbose pml_base_verbose pml_ucx_verbose", 1, nullptr, "--x-all WEFT_LOG=info", ""},
    {"mca gmca prtemca pmixmca", 2, nullptr, "", kChosen},
};

/// A variable of another MPI, the value to which it applies (nullptr: numbers), and options of Weft.
struct Variable {
  const char *name, *value, *own;
};
constexpr Variable kVariables[] = {
    {"MV2_USE_CUDA", "0", "--x-all WEFT_CUDA=off"},
    {"MV2_SHOW_CPU_BINDING", "1", "--report-bindings"},
    {"MV2_CPU_BINDING_POLICY", "scatter", "--map-by package"},
    {"MV2_CPU_BINDING_POLICY", "bunch", "--map-by core"},
    {"MV2_CPU_BINDING_LEVEL", "core", "--bind-to core"},
    {"MV2_CPU_BINDING_LEVEL", "socket", "--bind-to package"},
    {"MV2_CPU_BINDING_LEVEL", "numanode", "--bind-to numa"},
    {"MV2_SUPPORT_FT", "1", "--continue-on-failure"},
    {"MPIR_CVAR_ENABLE_GPU", "0", "--x-all WEFT_CUDA=off"},
    {"MPICH_GPU_SUPPORT_ENABLED", "0", "--x-all WEFT_CUDA=off"},
    {"MV2_ENABLE_AFFINITY", "0", "--bind-to none"},
    {"I_MPI_PIN", "0", "--bind-to none"},
    {"I_MPI_PIN", "off", "--bind-to none"},
    {"I_MPI_PIN_DOMAIN", "core", "--bind-to core"},
    {"I_MPI_PIN_DOMAIN", "numa", "--bind-to numa"},
    {"I_MPI_PIN_DOMAIN", "socket", "--bind-to package"},
    {"I_MPI_PIN_DOMAIN", "cache3", "--bind-to l3cache"},
    {"I_MPI_PIN_DOMAIN", "node", "--bind-to none"},
    {"I_MPI_PIN_CELL", "unit", "--use-hwthread-cpus"},
    {"I_MPI_PIN_PROCESSOR_LIST", nullptr, "--cpu-list %1"},
    {"I_MPI_PERHOST", nullptr, "--per-host %1"},
    {"I_MPI_OFFLOAD", "0", "--x-all WEFT_CUDA=off"},
    {"MPIEXEC_TIMEOUT", nullptr, "--timeout %1"},
    {"I_MPI_FABRICS", "shm", "--x-all WEFT_NET=none"},
};

using Words = std::vector<std::string>;

Words split(const std::string& text) {
  std::stringstream stream(text);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

bool has_name(const Rule& rule, const std::string& name) {
  Words names = split(rule.names);
  if (names.size() > 1 && names[0] == "mca" && rule.values == 1) {  // the rule of a parameter
    for (size_t i = 1; i < names.size(); ++i)
      if (name == "mca " + names[i]) return true;
    return false;
  }
  for (const std::string& known : names)
    if (known == name) return true;
  return false;
}

const Rule* find_rule(const std::string& name, const Words& values) {
  for (const Rule& rule : kRules)
    if (has_name(rule, name) && (rule.when == nullptr || (!values.empty() && values.back() == rule.when)))
      return &rule;
  return nullptr;
}

/// The options of a rule. A setting of Weft in the environment takes precedence.
Words options_of(const char* own, const Words& values) {
  Words words = split(own);
  for (std::string& word : words)
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string mark = "%" + std::to_string(i + 1);
      if (const size_t at = word.find(mark); at != word.npos) word.replace(at, mark.size(), values[i]);
    }
  if (words.size() == 2 && words[0] == "--x-all" && words[1].starts_with("WEFT_") &&
      std::getenv(words[1].substr(0, words[1].find('=')).c_str()) != nullptr)
    words.clear();
  return words;
}

/// Words of a line, with quotes as in a shell.
Words split_quoted(const std::string& line) {
  Words words;
  std::string word;
  char quote = 0;
  bool open = false;
  for (const char c : line) {
    if (quote != 0 ? c == quote : c == '"' || c == '\'') {
      quote = quote != 0 ? '\0' : c;
      open = true;
    } else if (quote == 0 && (c == ' ' || c == '\t')) {
      if (open) words.push_back(std::exchange(word, ""));
      open = false;
    } else {
      word += c;
      open = true;
    }
  }
  if (open) words.push_back(word);
  return words;
}

}  // namespace

int values_of_other_option(const std::string& name) {
  for (const Rule& rule : kRules)
    if (has_name(rule, name)) return rule.values;
  return -1;
}

Result<Translation> translate_other_option(const std::string& name, const Words& values) {
  const Rule* rule = nullptr;
  Words of_rule = values;
  if (values.size() == 2) {  // NAME VALUE of an MCA parameter
    rule = find_rule("mca " + values[0], {values[1]});
    if (rule != nullptr && has_name({"mca gmca prtemca pmixmca", 2, nullptr, "", ""}, name))
      of_rule.erase(of_rule.begin());
    else
      rule = nullptr;
  }
  if (rule == nullptr) rule = find_rule(name, values);
  std::string said = name;
  for (const std::string& value : values) said += " " + value;
  if (rule == nullptr) return Error(Errc::arg, "-" + said + ": this value is not known");
  if (rule->own == nullptr)
    return Error(Errc::unsupported, "option '-" + said + "' of another MPI is not supported: " + rule->text);
  Translation result{options_of(rule->own, of_rule), ""};
  if (*rule->own == '\0') result.note = "-" + said + " has no effect: " + rule->text;
  return result;
}

namespace {

/// Options of Weft for a variable of another MPI; empty: none.
Words options_of_variable(const std::string& name, const std::string& value) {
  Words own;
  for (const std::string_view prefix : {"OMPI_MCA_", "PRTE_MCA_"})
    if (name.starts_with(prefix))
      if (const Rule* rule = find_rule("mca " + name.substr(prefix.size()), {value}))
        own = options_of(rule->own, {value});
  const bool numbers = value.find_first_not_of("0123456789,-") == value.npos && !value.empty();
  for (const Variable& variable : kVariables)
    if (name == variable.name && (variable.value != nullptr ? value == variable.value : numbers))
      own = options_of(variable.own, {value});
  return own;
}

}  // namespace

Words options_from_environment(char** environment) {
  Words options;
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    if (name.size() == text.size()) continue;
    const Words own = options_of_variable(name, text.substr(name.size() + 1));
    options.insert(options.end(), own.begin(), own.end());
  }
  return options;
}

bool names_file(const std::string& option) {
  const std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  return name == "configfile" || name == "app";
}

Status insert_file(Words& arguments, size_t i) {
  const std::string option = arguments[i];
  if (i + 1 == arguments.size()) return Error(Errc::arg, option + " needs a value: " + option + " FILE");
  std::ifstream file(arguments[i + 1]);
  if (!file) return Error(Errc::file, option + ": cannot read '" + arguments[i + 1] + "'");
  Words of_file;
  for (std::string line; std::getline(file, line);) {
    const Words words = split_quoted(line);
    if (words.empty() || words[0].starts_with("#")) continue;
    if (!of_file.empty() && words[0] != ":" && of_file.back() != ":") of_file.emplace_back(":");
    of_file.insert(of_file.end(), words.begin(), words.end());
  }
  for (const std::string& word : of_file)
    if (names_file(word)) return Error(Errc::arg, option + ": the file has " + word + " itself");
  const auto at = arguments.begin() + static_cast<std::ptrdiff_t>(i);
  arguments.insert(arguments.erase(at, at + 2), of_file.begin(), of_file.end());
  return {};
}

Result<Words> arguments_of_mpirun_rsh(const Words& arguments) {
  Words result, hosts;
  int ranks = 0;
  size_t i = 0;
  bool with_file = false;
  for (; i < arguments.size() && arguments[i].starts_with("-"); ++i) {
    const std::string name = arguments[i].substr(arguments[i].find_first_not_of('-'));
    if (name == "version" || name == "help") return Words{arguments[i]};
    if (name == "rsh" || name == "ssh" || name == "export" || name == "export-all") continue;
    result.push_back(arguments[i]);
    if (name != "np" && name != "n" && name != "hostfile") continue;
    if (i + 1 == arguments.size()) break;
    result.push_back(arguments[++i]);
    with_file |= name == "hostfile";
    if (name != "hostfile") ranks = launch::parse_int(arguments[i], 1, 65536).value_or(0);
  }
  if (!with_file) {
    for (int rank = 0; rank < ranks && i < arguments.size(); ++rank) hosts.push_back(arguments[i++]);
    std::string list;
    for (const std::string& host : hosts) list += (list.empty() ? "" : ",") + host;
    if (static_cast<int>(hosts.size()) < std::max(ranks, 1) || i == arguments.size())
      return Error(Errc::arg,
                   "mpirun_rsh needs -np N, N hosts and a program: mpirun_rsh -np 2 node0 node1 ./program");
    result.insert(result.end(), {"--host", list});
  }
  for (; i < arguments.size() && arguments[i].find('=') != std::string::npos; ++i) {
    result.insert(result.end(), {"--x-all", arguments[i]});
    const size_t equals = arguments[i].find('=');
    const Words own = options_of_variable(arguments[i].substr(0, equals), arguments[i].substr(equals + 1));
    result.insert(result.end(), own.begin(), own.end());
  }
  result.insert(result.end(), arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  return result;
}

std::string other_options_text() {
  std::string text;
  for (const Rule& rule : kRules) {
    const Words names = split(rule.names);
    const bool parameter = names[0] == "mca" && rule.values == 1;
    std::string line;
    for (size_t i = parameter ? 1 : 0; i < names.size(); ++i)
      line += (line.empty() ? "`" : ", `") + std::string(parameter ? "--mca " : "-") + names[i] + "`";
    if (rule.when != nullptr) line += std::string(" with `") + rule.when + "`";
    const char* treatment = rule.own == nullptr ? "refused" : *rule.own == '\0' ? "no effect" : "is";
    text += "| " + line + " | " + treatment + " | ";
    text += rule.own != nullptr && *rule.own != '\0' ? "`" + std::string(rule.own) + "`" : rule.text;
    text += " |\n";
  }
  for (const Variable& variable : kVariables) {
    const std::string value = variable.value != nullptr ? variable.value : "%1";
    text += "| `" + std::string(variable.name) + "=" + value + "` | is | `" + variable.own + "` |\n";
  }
  return text;
}

}  // namespace weft::mpiexec
