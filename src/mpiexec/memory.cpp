// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/memory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

namespace weft::mpiexec {

std::vector<Memory> open_memories(pid_t pid, std::initializer_list<const char*> names) {
  const std::string folder = "/proc/" + std::to_string(pid) + "/fd/";
  std::vector<Memory> found;
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(folder.c_str()), ::closedir);
  while (const dirent* entry = directory ? ::readdir(directory.get()) : nullptr) {
    char target[64];
    const std::string path = folder + entry->d_name;
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length <= 0) continue;
    const std::string_view link(target, static_cast<size_t>(length));
    const auto matches = [&](const char* name) {
      return link == std::string("/memfd:") + name + " (deleted)";
    };
    if (std::none_of(names.begin(), names.end(), matches)) continue;
    Memory memory;
    struct stat status {};
    memory.fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (memory.fd < 0 || ::fstat(memory.fd, &status) != 0) continue;
    memory.identity = {status.st_dev, status.st_ino};
    memory.size = status.st_size;
    found.push_back(std::move(memory));
  }
  return found;
}

}  // namespace weft::mpiexec
