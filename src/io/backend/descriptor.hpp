// SPDX-License-Identifier: BSD-3-Clause
// Descriptor: an open POSIX file. Reads and writes are complete: short counts and EINTR are repeated.
// Threading: any thread, without the instance lock. Errors name the path that the program passed.
#pragma once
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace weft::io {

/// Bytes [first, end) of a file.
struct Range {
  int64_t first = 0, end = 0;
  [[nodiscard]] bool empty() const { return first >= end; }
  [[nodiscard]] int64_t bytes() const { return empty() ? 0 : end - first; }
  [[nodiscard]] bool overlaps(const Range& other) const {
    return !empty() && !other.empty() && first < other.end && other.first < end;
  }
};

class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  /// `flags`: of open(2). Returns errno; 0: the file is open.
  [[nodiscard]] int open(const std::string& path, int flags);
  [[nodiscard]] Status close();

  /// Reads into `parts` from `offset` until they are full or the file ends; changes `parts`. Returns the
  /// bytes read.
  [[nodiscard]] Result<int64_t> read(iovec* parts, int count, int64_t offset) const;
  [[nodiscard]] Result<int64_t> read(void* to, int64_t bytes, int64_t offset) const {
    iovec part{to, static_cast<size_t>(bytes)};
    return read(&part, 1, offset);
  }
  /// Writes `parts` at `offset`; changes `parts`.
  [[nodiscard]] Status write(iovec* parts, int count, int64_t offset) const;
  [[nodiscard]] Status write(const void* from, int64_t bytes, int64_t offset) const {
    iovec part{const_cast<void*>(from), static_cast<size_t>(bytes)};
    return write(&part, 1, offset);
  }

  [[nodiscard]] Result<int64_t> size() const;
  [[nodiscard]] Status resize(int64_t bytes) const;
  /// Allocates storage for the first `bytes` bytes. Never makes the file smaller.
  [[nodiscard]] Status allocate(int64_t bytes) const;
  [[nodiscard]] Status sync() const;
  /// Whether it is a folder, which opens for reading as a file does.
  [[nodiscard]] bool is_folder() const;
  /// Whether mappings of the file and system calls on it see the same bytes at once in all processes that
  /// access it: a regular file of a local file system, open for reading and writing.
  [[nodiscard]] bool mappable() const;
  /// Whether the range is in a file without holes.
  [[nodiscard]] bool filled(const Range& range) const;
  /// Allocates storage for a range; the file has at least the range's end as its size then. Returns false if
  /// the file system cannot do that.
  [[nodiscard]] bool provide(const Range& range) const;

  /// Waits for a lock of a range against other open files (F_OFD_SETLKW). The kernel releases the locks of a
  /// process that dies.
  [[nodiscard]] Status lock(const Range& range, bool exclusive) const;
  void unlock(const Range& range) const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  std::string path_;
  int fd_ = -1;
};

}  // namespace weft::io
