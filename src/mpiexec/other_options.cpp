// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/other_options.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <utility>

#include "launch/environment.hpp"
#include "mpiexec/other_option_rules.hpp"

namespace weft::mpiexec {

namespace {

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
  for (const Rule& rule : other_rules())
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

}  // namespace

int values_of_other_option(const std::string& name) {
  for (const Rule& rule : other_rules())
    if (has_name(rule, name)) return rule.values == kJoined ? 0 : rule.values;
  return -1;
}

bool is_joined_option(const std::string& name) {
  const Rule* rule = find_rule(name, {});
  return rule != nullptr && rule->values == kJoined;
}

bool sets_variable(const std::string& name) { return name == "env" || name == "genv"; }

namespace {

/// Translates an option whose value is one word, without commas that separate several.
Result<Translation> translate_value(const std::string& name, const Words& values) {
  const Rule* rule = nullptr;
  Words of_rule = values;
  if (values.size() == 2) {  // NAME VALUE of an MCA parameter
    rule = find_rule("mca " + values[0], {values[1]});
    if (rule != nullptr && has_name({"mca gmca prtemca pmixmca gpmixmca", 2, nullptr, "", ""}, name))
      of_rule.erase(of_rule.begin());
    else
      rule = nullptr;
  }
  if (rule == nullptr) rule = find_rule(name, values);
  std::string said = name;
  for (const std::string& value : values) said += (value.empty() ? "" : " ") + value;
  if (rule == nullptr) return Error(Errc::arg, "-" + said + ": this value is not known");
  if (rule->own == nullptr)
    return Error(Errc::unsupported, "option '-" + said + "' of another MPI is not supported: " + rule->text);
  Translation result{options_of(rule->own, of_rule), {}};
  if (*rule->own == '\0') result.notes.push_back("-" + said + " has no effect: " + rule->text);
  return result;
}

/// --runtime-options of PRRTE: NAME or NAME=VALUE.
Result<Translation> translate_runtime_option(const std::string& name, std::string value) {
  std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::tolower(c); });
  if (value.starts_with("timeout=")) return Translation{{"--timeout", value.substr(8)}, {}};
  for (const char* on : {"=true", "=1"})
    if (value.ends_with(on)) value.erase(value.rfind('='));
  return translate_value(name, {value});
}

}  // namespace

Result<Translation> translate_other_option(const std::string& name, const Words& values) {
  const bool runtime = name == "runtime-options";
  if (!runtime && name != "cpu-bind" && name != "export" && name != "display")
    return translate_value(name, values);
  Translation all;
  std::stringstream list(values.front());
  // Slurm passes on only the variables in the list, if it has neither word.
  if (name == "export" && ("," + values.front() + ",").find(",ALL,") == std::string::npos)
    all.notes.push_back("-export " + values.front() +
                        " has no effect on the others: all variables of the environment are passed on");
  for (std::string value; std::getline(list, value, ',');) {
    auto one = runtime ? translate_runtime_option(name, value) : translate_value(name, {value});
    if (!one) return one;
    all.own.insert(all.own.end(), one->own.begin(), one->own.end());
    all.notes.insert(all.notes.end(), one->notes.begin(), one->notes.end());
  }
  return all;
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
  for (const Variable& variable : other_variables())
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
  for (const Rule& rule : other_rules()) {
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
  for (const Variable& variable : other_variables()) {
    const std::string value = variable.value != nullptr ? variable.value : "%1";
    text += "| `" + std::string(variable.name) + "=" + value + "` | is | `" + variable.own + "` |\n";
  }
  return text;
}

}  // namespace weft::mpiexec
