// SPDX-License-Identifier: BSD-3-Clause
#include "mpiexec/output_file.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "mpiexec/hosts.hpp"

namespace weft::mpiexec {

bool valid_output_pattern(const std::string& pattern) {
  for (size_t at = pattern.find('%'); at != pattern.npos; at = pattern.find('%', at + 1)) {
    if (pattern.compare(at, 3, "%0r") == 0) continue;
    if (++at == pattern.size() || std::strchr("rjh%", pattern[at]) == nullptr) return false;
  }
  return true;
}

std::string output_file_name(const std::string& pattern, int rank, int ranks, int job) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      name += pattern[i];
      continue;
    }
    const char field = pattern[++i];
    std::string text = field == 'j' ? std::to_string(job) : field == 'h' ? host_name() : std::to_string(rank);
    if (field == '%') text = "%";
    if (field == '0') {
      ++i;
      const size_t width = std::to_string(ranks - 1).size();
      text.insert(0, width > text.size() ? width - text.size() : 0, '0');
    }
    name += text;
  }
  return name;
}

Result<int> create_output_file(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code failed;
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0)
    return Error(Errc::file, "cannot create '" + path + "' for the output of the ranks (" +
                                 std::strerror(failed ? failed.value() : errno) + ")");
  return fd;
}

}  // namespace weft::mpiexec
