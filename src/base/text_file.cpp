// SPDX-License-Identifier: BSD-3-Clause
#include "base/text_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

namespace weft {

Result<std::string> read_text_file(const std::string& path, Errc code) {
  const auto failed = [&](int number) {
    return Error(code, path + ": cannot be read (" + std::strerror(number) + ")");
  };
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed(errno);
  constexpr size_t kPart = size_t{64} << 10;
  std::string text;
  size_t size = 0;
  int number = 0;
  while (size <= kMaxTextFileBytes) {
    text.resize(size + kPart);
    const ssize_t n = ::read(fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) number = errno;
    if (n <= 0) break;
    size += static_cast<size_t>(n);
  }
  ::close(fd);
  if (number != 0) return failed(number);
  if (size > kMaxTextFileBytes)
    return Error(code, path + ": is larger than " + std::to_string(kMaxTextFileBytes) + " bytes");
  text.resize(size);
  return text;
}

std::string value_in_file(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name + ":")) continue;
    const size_t begin = line.find_first_not_of(" \t", name.size() + 1);
    return begin == line.npos ? "" : line.substr(begin, line.find_last_not_of(" \t") + 1 - begin);
  }
  return {};
}

}  // namespace weft
