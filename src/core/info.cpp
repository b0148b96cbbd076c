// SPDX-License-Identifier: BSD-3-Clause
// Info: the map, and the content of MPI_INFO_ENV.
#include "core/info.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <climits>
#include <fstream>
#include <string>

namespace weft::core {
namespace {

/// Returns the argument vector of this process; empty if /proc is not mounted.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

void describe_command(Info& info, const std::vector<std::string>& arguments) {
  if (arguments.empty()) return;
  info.set("command", arguments.front());
  std::string rest;
  for (size_t n = 1; n < arguments.size(); ++n) rest += (n > 1 ? " " : "") + arguments[n];
  info.set("argv", rest);
}

void describe_process(Info& info) {
  utsname system{};
  if (uname(&system) == 0) {
    info.set("host", system.nodename);
    info.set("arch", system.machine);
  }
  char folder[PATH_MAX];
  if (getcwd(folder, sizeof folder) != nullptr) info.set("wdir", folder);
}

}  // namespace

void Info::set(std::string_view key, std::string_view value) {
  for (auto& [known, text] : entries_)
    if (known == key) {
      text = value;
      return;
    }
  entries_.emplace_back(key, value);
}

std::optional<std::string_view> Info::get(std::string_view key) const {
  for (const auto& [known, text] : entries_)
    if (known == key) return text;
  return std::nullopt;
}

bool Info::erase(std::string_view key) {
  return std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; }) != 0;
}

Info* Info::create() { return slab().create(); }

Info* Info::duplicate(const Info& other) {
  Info* copy = create();
  if (copy != nullptr) copy->entries_ = other.entries_;
  return copy;
}

Info* Info::environment() {
  static Info* const info = [] {
    auto* made = new Info;
    describe_command(*made, command_line());
    describe_process(*made);
    return made;
  }();
  return info;
}

Info* Info::create_environment(const std::vector<std::string>& arguments) {
  Info* info = create();
  if (info == nullptr) return nullptr;
  describe_command(*info, arguments);
  describe_process(*info);
  return info;
}

Slab<Info>& Info::slab() {
  static Slab<Info> infos;
  return infos;
}

void Info::destroy() {
  if (this != environment()) slab().destroy(this);
}

}  // namespace weft::core
