// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/placement.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>

#include "launch/environment.hpp"
#include "mpiexec/topology.hpp"

namespace weft::mpiexec {

Error bad_value(const std::string& name, const std::string& value, const std::string& valid) {
  return Error(Errc::arg, "bad value '" + value + "' for " + name + " (valid: " + valid + ")");
}

namespace {

constexpr const char* kPerObject =
    "ppr:N:node, ppr:N:package, ppr:N:numa, ppr:N:l3cache, ppr:N:core, ppr:N:gpu";

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
    else if (word == "hwtcpus")
      options.hardware_threads = true;
    else if (word != "nooversubscribe" && word != "if-supported" && word != "no-overload")
      return bad_value(name, word,
                       "PE=N, OVERSUBSCRIBE, NOOVERSUBSCRIBE, HWTCPUS, overload-allowed, if-supported");
  }
  return {};
}

}  // namespace

Status set_bind(Options& options, const std::string& name, const std::string& value) {
  const auto words = split_policy(value);
  options.hardware_threads |= words[0] == "hwthread";
  if (words[0].empty() && words.size() > 1) return apply_modifiers(options, name, words, 1);
  WEFT_TRY(set_word<BindTo>(name, words[0],
                            {{"core", BindTo::core},
                             {"hwthread", BindTo::core},
                             {"package", BindTo::package},
                             {"socket", BindTo::package},
                             {"numa", BindTo::numa},
                             {"l3cache", BindTo::l3cache},
                             {"board", BindTo::none},
                             {"none", BindTo::none}},
                            options.bind_to));
  return apply_modifiers(options, name, words, 1);
}

Status set_rank_order(Options& options, const std::string& name, const std::string& value) {
  return set_word<RankBy>(name, split_policy(value)[0],
                          {{"slot", RankBy::mapping},
                           {"node", RankBy::mapping},
                           {"fill", RankBy::fill},
                           {"core", RankBy::fill},
                           {"hwthread", RankBy::fill},
                           {"package", RankBy::package},
                           {"socket", RankBy::package},
                           {"numa", RankBy::numa},
                           {"l3cache", RankBy::l3cache}},
                          options.rank_by);
}

Status set_cpus(Options& options, const std::string& name, const std::string& value) {
  const auto cpus = parse_cpu_list(value);
  if (!cpus || cpus->empty()) return bad_value(name, value, "numbers of CPUs, such as 0-3,8");
  options.cpus = *cpus;
  return {};
}

Status set_input_rank(Options& options, const std::string& name, const std::string& value) {
  if (value == "none") {
    options.input_rank = -1;
    return {};
  }
  const auto rank = launch::parse_int(value, 0, kMaxRanks - 1);
  if (!rank) return bad_value(name, value, "a rank, or none; for all ranks, distribute it with MPI_Bcast");
  options.input_rank = *rank;
  return {};
}

Status set_output(Options& options, const std::string& name, const std::string& value) {
  std::stringstream words(value);
  for (std::string word; std::getline(words, word, ',');) {
    std::string key = word.substr(0, word.find('='));
    std::transform(key.begin(), key.end(), key.begin(), [](unsigned char c) { return std::tolower(c); });
    if (key.ends_with(":raw")) key.erase(key.size() - 4);  // PRRTE: not in whole lines
    const auto abbreviates = [&](std::string_view full) { return key.size() > 4 && full.starts_with(key); };
    if (key == "dir" || key == "directory")
      WEFT_TRY(set_output_folder(options, name, word.substr(std::min(word.find('='), word.size() - 1) + 1)));
    else if (key == "tag")
      options.labels = Labels::tag;
    else if (key == "rank")
      options.labels = Labels::rank;
    else if (key == "fullname" || abbreviates("tag-fullname"))
      options.labels = Labels::full_tag;
    else if (key == "timestamp")
      options.timestamp_output = true;
    else if (key == "merge" || abbreviates("merge-stderr-to-stdout"))
      options.merge_output = true;
    else if (abbreviates("tag-detailed"))
      return bad_value(name, word, "tag, tag-fullname, rank: labels have no process ids");
    else
      return bad_value(
          name, word,
          "tag, tag-fullname, rank, timestamp, merge, dir=FOLDER; --outfile-pattern names files freely");
  }
  return {};
}

Status set_output_folder(Options& options, const std::string& name, const std::string& value) {
  const bool only = value.ends_with(":nocopy");
  const std::string folder = only ? value.substr(0, value.size() - 7) : value;
  if (folder.empty()) return bad_value(name, value, "FOLDER or FOLDER:nocopy");
  options.output_file = folder + "/%j/rank.%0r/stdout";
  options.error_file = folder + "/%j/rank.%0r/stderr";
  options.copy_output = !only;
  return {};
}

Status set_per_host(Options& options, const std::string& name, const std::string& value) {
  const auto ranks = launch::parse_int(value, 1, kMaxRanks);
  if (!ranks) return bad_value(name, value, "a number from 1 to " + std::to_string(kMaxRanks));
  if (options.per_host > 0 && options.per_host != *ranks)
    options.warnings.push_back(name + " " + value + " replaces " + std::to_string(options.per_host) +
                               " processes per host, of an earlier option");
  options.per_host = *ranks;
  return {};
}

Status set_map(Options& options, const std::string& name, const std::string& value) {
  if (value.starts_with("rankfile:file=")) {
    options.rankfile = value.substr(value.find('=') + 1);
    return {};
  }
  auto words = split_policy(value);
  if (words[0].starts_with("pe-list=")) {
    WEFT_TRY(set_cpus(options, name, words[0].substr(8)));
    words[0] = "slot";
  }
  const bool per_object = words[0] == "ppr";
  if (per_object) {
    const auto ranks = words.size() < 3 ? std::nullopt : launch::parse_int(words[1], 1, kMaxRanks);
    if (!ranks) return bad_value(name, value, kPerObject);
    words.erase(words.begin(), words.begin() + 2);
    if (words[0] == "node" || words[0] == "host") {
      options.per_host = *ranks;
      return apply_modifiers(options, name, words, 1);
    }
    options.per_object = *ranks;
  }
  options.hardware_threads |= words[0] == "hwthread";
  if (words[0].empty() && words.size() > 1) words[0] = "slot";  // ":OVERSUBSCRIBE"
  WEFT_TRY(set_word<MapBy>(name, words[0],
                           {{"slot", MapBy::slot},
                            {"core", MapBy::core},
                            {"hwthread", MapBy::core},
                            {"gpu", MapBy::gpu},
                            {"package", MapBy::package},
                            {"socket", MapBy::package},
                            {"numa", MapBy::numa},
                            {"l3cache", MapBy::l3cache},
                            {"node", MapBy::node}},
                           options.map_by));
  if (per_object && (options.map_by == MapBy::slot || options.map_by == MapBy::node))
    return bad_value(name, value, kPerObject);
  return apply_modifiers(options, name, words, 1);
}

}  // namespace weft::mpiexec
