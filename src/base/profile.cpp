// SPDX-License-Identifier: BSD-3-Clause
#include "base/profile.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string_view>

#include "base/text_file.hpp"

namespace weft::config {
namespace {

namespace fs = std::filesystem;
constexpr const char* kGpus = "/proc/driver/nvidia/gpus";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Value of the first `key: value` line of a file; empty if there is none.
std::string value_in(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (line.starts_with(key) && colon != std::string::npos)
      return std::string(trimmed(std::string_view(line).substr(colon + 1)));
  }
  return {};
}

std::string gpus() {
  if (::secure_getenv("WEFT_CUDA_DRIVER") != nullptr) return "custom driver";
  std::map<std::string, int> models;
  std::error_code ignored;
  for (const auto& gpu : fs::directory_iterator(kGpus, ignored))
    ++models[value_in(gpu.path() / "information", "Model")];
  std::string text;
  for (const auto& [model, count] : models)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " x " + (model.empty() ? "GPU" : model);
  return text.empty() ? "no GPU" : text;
}

Error bad_line(const std::string& path, int number, const std::string& line) {
  return Error(Errc::arg,
               path + ":" + std::to_string(number) + ": \"" + line +
                   "\" is neither [machine] nor setting = value: correct it, run `weft tune` again, or set "
                   "WEFT_PROFILE=off");
}

}  // namespace

std::string machine_name() {
  std::string processor = value_in("/proc/cpuinfo", "model name");
  if (processor.empty()) processor = "unknown processor";
  for (char& c : processor)
    if (c == '[' || c == ']') c = ' ';
  return gpus() + "; " + processor + "; " + std::to_string(::sysconf(_SC_NPROCESSORS_CONF)) + " cores";
}

std::string default_profile() {
  const char* home = ::secure_getenv("HOME");
  const char* folder = ::secure_getenv("XDG_CONFIG_HOME");
  if ((folder == nullptr || *folder == 0) && (home == nullptr || *home == 0)) return {};
  const fs::path base = folder != nullptr && *folder != 0 ? fs::path(folder) : fs::path(home) / ".config";
  std::string path = base / "weft" / "profile";
  return ::access(path.c_str(), F_OK) == 0 ? path : std::string();
}

Result<Values> read_profile(const std::string& path, const std::string& machine) {
  auto text_of_file = read_text_file(path, Errc::arg);
  if (!text_of_file)
    return Error(Errc::arg, "WEFT_PROFILE: " + text_of_file.error().message() +
                                ": name a file of `weft tune`, or set WEFT_PROFILE=off");
  std::istringstream file(*text_of_file);
  Values values;
  bool ours = false;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const std::string_view text = trimmed(line);
    if (text.empty() || text[0] == '#') continue;
    const auto equals = text.find('=');
    if (text.front() == '[' && text.back() == ']')
      ours = text.substr(1, text.size() - 2) == machine;
    else if (equals == std::string_view::npos || equals == 0)
      return bad_line(path, number, line);
    else if (ours)
      values.emplace_back(trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)));
  }
  return values;
}

}  // namespace weft::config
