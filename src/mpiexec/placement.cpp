// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/placement.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "launch/environment.hpp"

namespace weft::mpiexec {

Error bad_value(const std::string& name, const std::string& value, const std::string& valid) {
  return Error(Errc::arg, "bad value '" + value + "' for " + name + " (valid: " + valid + ")");
}

namespace {

/// Splits "ppr:2:numa:PE=4" at the colons; lower case.
std::vector<std::string> split_policy(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  std::vector<std::string> words;
  std::stringstream stream(text);
  for (std::string word; std::getline(stream, word, ':');) words.push_back(word);
  if (words.empty()) words.emplace_back();
  return words;
}

/// Applies the modifiers of a policy from words[first] on.
Status apply_modifiers(Options& options, const std::string& name, const std::vector<std::string>& words,
                       size_t first) {
  for (size_t i = first; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto number = launch::parse_int(word.starts_with("pe=") ? word.substr(3) : word, 1, kMaxRanks);
    if (number)
      options.cores_per_rank = *number;
    else if (word == "oversubscribe" || word == "overload-allowed")
      options.oversubscribe = true;
    else if (word == "display" || word == "report")
      options.report_bindings = true;
    else if (word != "nooversubscribe" && word != "if-supported" && word != "no-overload")
      return bad_value(name, word, "PE=N, OVERSUBSCRIBE, NOOVERSUBSCRIBE, overload-allowed, if-supported");
  }
  return {};
}

}  // namespace

Status set_bind(Options& options, const std::string& name, const std::string& value) {
  const auto words = split_policy(value);
  WEFT_TRY(apply_modifiers(options, name, words, 1));
  return set_word<BindTo>(name, words[0],
                          {{"core", BindTo::core},
                           {"package", BindTo::package},
                           {"socket", BindTo::package},
                           {"numa", BindTo::numa},
                           {"board", BindTo::none},
                           {"none", BindTo::none}},
                          options.bind_to);
}

Status set_per_host(Options& options, const std::string& name, const std::string& value) {
  const auto ranks = launch::parse_int(value, 1, kMaxRanks);
  if (!ranks) return bad_value(name, value, "a number from 1 to " + std::to_string(kMaxRanks));
  options.per_host = *ranks;
  return {};
}

Status set_map(Options& options, const std::string& name, const std::string& value) {
  auto words = split_policy(value);
  const bool per_object = words[0] == "ppr";
  if (per_object) {
    const auto ranks = words.size() < 3 ? std::nullopt : launch::parse_int(words[1], 1, kMaxRanks);
    if (!ranks) return bad_value(name, value, "ppr:N:node, ppr:N:package, ppr:N:numa, ppr:N:core");
    words.erase(words.begin(), words.begin() + 2);
    if (words[0] == "node" || words[0] == "host") {
      options.per_host = *ranks;
      return apply_modifiers(options, name, words, 1);
    }
    options.per_object = *ranks;
  }
  if (words[0].empty() && words.size() > 1) words[0] = "slot";  // ":OVERSUBSCRIBE"
  WEFT_TRY(apply_modifiers(options, name, words, 1));
  WEFT_TRY(set_word<MapBy>(name, words[0],
                           {{"slot", MapBy::slot},
                            {"core", MapBy::core},
                            {"gpu", MapBy::gpu},
                            {"package", MapBy::package},
                            {"socket", MapBy::package},
                            {"numa", MapBy::numa}},
                           options.map_by));
  if (per_object && (options.map_by == MapBy::slot || options.map_by == MapBy::gpu))
    return bad_value(name, value, "ppr:N:node, ppr:N:package, ppr:N:numa, ppr:N:core");
  return {};
}

}  // namespace weft::mpiexec
