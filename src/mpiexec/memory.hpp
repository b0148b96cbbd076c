// SPDX-License-Identifier: BSD-3-Clause
// Memory: shared memory that other processes hold open, read through /proc/PID/fd. Needs no permission beyond
// that of the processes' user.
#pragma once
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace weft::mpiexec {

struct Memory {
  int fd = -1;
  std::pair<dev_t, ino_t> identity{};
  off_t size = 0;
  Memory() = default;
  Memory(Memory&& other) noexcept
      : fd(std::exchange(other.fd, -1)), identity(other.identity), size(other.size) {}
  Memory& operator=(Memory&& other) noexcept {
    std::swap(fd, other.fd);
    std::swap(identity, other.identity);
    std::swap(size, other.size);
    return *this;
  }
  ~Memory() {
    if (fd >= 0) ::close(fd);
  }
  /// Returns false if the memory has no `bytes` at `offset`.
  [[nodiscard]] bool read_bytes(void* to, size_t bytes, uint64_t offset) const {
    return ::pread(fd, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }
  template <class T>
  [[nodiscard]] bool read(T& object, uint64_t offset) const {
    return read_bytes(static_cast<void*>(&object), sizeof object, offset);
  }
};

/// Text from another process: control characters would act on the terminal.
template <size_t N>
[[nodiscard]] std::string text_of(const char (&field)[N]) {
  std::string text(field, strnlen(field, N));
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  return text;
}

/// Opens the memfds of these names that the process holds open, in the order of their descriptors, up to the
/// first one for which `is_last` returns true: a rank of a large job has a descriptor for each other rank.
[[nodiscard]] std::vector<Memory> open_memories(
    pid_t pid, std::initializer_list<const char*> names,
    const std::function<bool(const Memory&)>& is_last = [](const Memory&) { return false; });

}  // namespace weft::mpiexec
