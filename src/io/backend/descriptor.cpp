// SPDX-License-Identifier: BSD-3-Clause
#include "io/backend/descriptor.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/assert.hpp"
#include "io/backend/error.hpp"
#include "io/backend/file_system.hpp"

namespace weft::io {
namespace {

constexpr mode_t kMode = 0666;  // less the umask

/// Removes the first `done` bytes of the parts.
void advance(iovec*& parts, int& count, size_t done) {
  while (count > 0 && done >= parts->iov_len) {
    done -= parts->iov_len;
    ++parts;
    --count;
  }
  if (count == 0) return;
  parts->iov_base = static_cast<std::byte*>(parts->iov_base) + done;
  parts->iov_len -= done;
}

std::string at(const char* verb, int64_t offset) {
  return std::string(verb) + " at byte " + std::to_string(offset) + " of";
}

}  // namespace

Descriptor::~Descriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int Descriptor::open(const std::string& path, int flags) {
  WEFT_ASSERT(fd_ < 0);
  path_ = path;
  do fd_ = ::open(path.c_str(), flags | O_CLOEXEC, kMode);
  while (fd_ < 0 && errno == EINTR);
  return fd_ < 0 ? errno : 0;
}

Status Descriptor::close() {
  const int fd = fd_;
  fd_ = -1;
  // After EINTR the descriptor is closed.
  if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) return system_error("close", path_, errno);
  return {};
}

Result<int64_t> Descriptor::read(iovec* parts, int count, int64_t offset) const {
  int64_t total = 0;
  advance(parts, count, 0);
  // A call without iovecs takes 60 ns less: 7 percent of a call for 4 KiB.
  while (count > 0) {
    const ssize_t n = count == 1 ? ::pread(fd_, parts->iov_base, parts->iov_len, offset + total)
                                 : ::preadv2(fd_, parts, count, offset + total, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(at("read", offset + total), path_, errno);
    if (n == 0) break;  // the end of the file
    total += n;
    advance(parts, count, static_cast<size_t>(n));
  }
  return total;
}

Status Descriptor::write(iovec* parts, int count, int64_t offset) const {
  advance(parts, count, 0);
  while (count > 0) {
    const ssize_t n = count == 1 ? ::pwrite(fd_, parts->iov_base, parts->iov_len, offset)
                                 : ::pwritev2(fd_, parts, count, offset, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return system_error(at("write", offset), path_, n < 0 ? errno : ENOSPC);
    offset += n;
    advance(parts, count, static_cast<size_t>(n));
  }
  return {};
}

Result<int64_t> Descriptor::size() const {
  struct stat status;
  if (::fstat(fd_, &status) != 0) return system_error("query the size of", path_, errno);
  return static_cast<int64_t>(status.st_size);
}

Status Descriptor::resize(int64_t bytes) const {
  int failed;
  do failed = ::ftruncate(fd_, bytes);
  while (failed != 0 && errno == EINTR);
  return failed == 0 ? Status() : system_error("set the size of", path_, errno);
}

Status Descriptor::allocate(int64_t bytes) const {
  int number;
  do number = ::posix_fallocate(fd_, 0, bytes);
  while (number == EINTR);
  return number == 0 ? Status() : system_error("allocate storage for", path_, number);
}

Status Descriptor::sync() const {
  int failed;
  do failed = ::fsync(fd_);
  while (failed != 0 && errno == EINTR);
  // Pipes and devices without storage have nothing to synchronise.
  return failed == 0 || errno == EINVAL ? Status() : system_error("synchronise", path_, errno);
}

bool Descriptor::is_folder() const {
  struct stat status;
  return ::fstat(fd_, &status) == 0 && S_ISDIR(status.st_mode);
}

bool Descriptor::mappable() const {
  struct stat status;
  return ::fstat(fd_, &status) == 0 && S_ISREG(status.st_mode) &&
         (::fcntl(fd_, F_GETFL) & O_ACCMODE) == O_RDWR && on_local_file_system(*this);
}

bool Descriptor::filled(const Range& range) const {
  constexpr int64_t kBlockBytes = 512;  // of st_blocks
  struct stat status;
  return ::fstat(fd_, &status) == 0 && range.end <= status.st_size &&
         status.st_blocks * kBlockBytes >= status.st_size;
}

bool Descriptor::provide(const Range& range) const {
  int failed;
  do failed = ::fallocate(fd_, 0, range.first, range.bytes());
  while (failed != 0 && errno == EINTR);
  return failed == 0;
}

Status Descriptor::lock(const Range& range, bool exclusive) const {
  if (range.empty()) return {};
  struct flock lock {};
  lock.l_type = exclusive ? F_WRLCK : F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = range.first;
  lock.l_len = range.bytes();
  while (::fcntl(fd_, F_OFD_SETLKW, &lock) != 0)
    if (errno != EINTR) return system_error("lock bytes of", path_, errno);
  return {};
}

void Descriptor::unlock(const Range& range) const {
  if (range.empty()) return;
  struct flock lock {};
  lock.l_type = F_UNLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = range.first;
  lock.l_len = range.bytes();
  (void)::fcntl(fd_, F_OFD_SETLK, &lock);
}

}  // namespace weft::io
