// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/memory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace weft::mpiexec {
namespace {

/// Descriptors that are looked at by number first: a rank opens its memories early, and listing the
/// descriptors of all ranks of a large job takes a second.
constexpr int kFirstDescriptors = 64;

/// The memory at a descriptor such as "/proc/7/fd/3", if it has one of the names.
std::optional<Memory> open_memory(const std::string& path, std::initializer_list<const char*> names) {
  char target[64];
  const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
  if (length <= 0) return std::nullopt;
  const std::string_view link(target, static_cast<size_t>(length));
  const auto matches = [&](const char* name) { return link == std::string("/memfd:") + name + " (deleted)"; };
  if (std::none_of(names.begin(), names.end(), matches)) return std::nullopt;
  Memory memory;
  struct stat status {};
  memory.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (memory.fd < 0 || ::fstat(memory.fd, &status) != 0) return std::nullopt;
  memory.identity = {status.st_dev, status.st_ino};
  memory.size = status.st_size;
  return memory;
}

}  // namespace

std::vector<Memory> open_memories(pid_t pid, std::initializer_list<const char*> names,
                                  const std::function<bool(const Memory&)>& is_last) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd/";
  std::vector<Memory> found;
  for (int i = 0; i < kFirstDescriptors; ++i) {
    auto memory = open_memory(folder + std::to_string(i), names);
    if (!memory) continue;
    found.push_back(std::move(*memory));
    if (is_last(found.back())) return found;
  }
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
    if (std::string_view(entry->d_name).size() < 3 && std::atoi(entry->d_name) < kFirstDescriptors) continue;
    auto memory = open_memory(folder + entry->d_name, names);
    if (!memory) continue;
    found.push_back(std::move(*memory));
    if (is_last(found.back())) break;
  }
  return found;
}

}  // namespace weft::mpiexec
