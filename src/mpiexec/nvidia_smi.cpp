// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/nvidia_smi.hpp"

#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "mpiexec/tool.hpp"

namespace weft::mpiexec {

namespace {

/// Without persistence mode the tool loads the driver of each GPU first.
constexpr double kSmiTimeoutSeconds = 60;
constexpr std::string_view kUuidPrefix = "GPU-";

/// Splits at commas and drops blanks around the words.
std::vector<std::string> split_words(const std::string& line) {
  std::vector<std::string> words;
  std::istringstream stream(line);
  for (std::string word; std::getline(stream, word, ',');) {
    const size_t first = word.find_first_not_of(" \t\r"), last = word.find_last_not_of(" \t\r");
    words.push_back(first == std::string::npos ? "" : word.substr(first, last - first + 1));
  }
  return words;
}

Result<std::string> run_smi(const std::string& path, const char* query) {
  Tool tool{{path, query, "--format=csv,noheader"}, {}, "", kSmiTimeoutSeconds};
  for (char** entry = environ; *entry != nullptr; ++entry) tool.environment.emplace_back(*entry);
  const ToolResult result = run_tool(tool);
  if (result.success()) return result.output;
  const std::string line = last_line(result.output);
  return Error(Errc::other, path + (result.kind == ToolResult::expired ? " does not answer" : " fails") +
                                (line.empty() ? "" : ": " + line));
}

}  // namespace

Result<std::vector<GpuState>> parse_gpu_states(const std::string& gpus, const std::string& processes) {
  std::vector<GpuState> states;
  std::istringstream gpu_lines(gpus), process_lines(processes);
  for (std::string line; std::getline(gpu_lines, line);) {
    const std::vector<std::string> words = split_words(line);
    if (words.size() < 4 || !words[1].starts_with(kUuidPrefix)) continue;
    states.push_back({words[0], words[1], words[2], words[3] == "Enabled"});
  }
  if (states.empty()) {
    const std::string line = last_line(gpus);
    return Error(Errc::other, "nvidia-smi reports no GPU" + (line.empty() ? "" : ": " + line));
  }
  for (std::string line; std::getline(process_lines, line);) {
    const std::vector<std::string> words = split_words(line);
    if (words.size() < 3) continue;
    for (GpuState& state : states)
      if (state.uuid == words[0]) state.user = words[2] + " (pid " + words[1] + ")";
  }
  return states;
}

Result<std::vector<GpuState>> query_gpu_states(const std::string& path) {
  auto gpus = run_smi(path, kGpuQuery);
  if (!gpus) return std::move(gpus).error();
  auto processes = run_smi(path, kProcessQuery);
  if (!processes) return std::move(processes).error();
  return parse_gpu_states(*gpus, *processes);
}

bool has_only_uuids(const std::string& visible) {
  const std::vector<std::string> words = split_words(visible);
  return !words.empty() && std::all_of(words.begin(), words.end(),
                                       [](const std::string& word) { return word.starts_with(kUuidPrefix); });
}

std::vector<GpuState> states_of_visible(std::vector<GpuState> all, const std::string& visible) {
  if (!has_only_uuids(visible)) return all;
  const std::vector<std::string> words = split_words(visible);
  std::erase_if(all, [&](const GpuState& gpu) {
    return std::none_of(words.begin(), words.end(),
                        [&](const std::string& word) { return gpu.uuid.starts_with(word); });
  });
  return all;
}

}  // namespace weft::mpiexec
