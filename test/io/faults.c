// SPDX-License-Identifier: BSD-3-Clause
// Preload library: faults of preadv2 and pwritev2. TEST_SHORT: largest number of bytes that a call moves.
// TEST_INTERRUPT: every Nth call fails with EINTR. TEST_FULL: file offset in bytes from which writes fail
// with ENOSPC. TEST_BAD: file offset from which reads fail with EIO.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/uio.h>

typedef ssize_t Vectored(int, const struct iovec*, int, off_t, int);

static long setting(const char* name) {
  const char* text = getenv(name);
  return text != NULL ? atol(text) : 0;
}

static ssize_t call(Vectored* real, const struct iovec* parts, int fd, int count, off_t offset, int flags,
                    const char* limit, int number) {
  static atomic_long calls;
  const long interrupt = setting("TEST_INTERRUPT"), most = setting("TEST_SHORT"), end = setting(limit);
  if (interrupt != 0 && ++calls % interrupt == 0) {
    errno = EINTR;
    return -1;
  }
  if (end != 0 && offset >= end) {
    errno = number;
    return -1;
  }
  struct iovec first = parts[0];
  if (most == 0 && end == 0) return real(fd, parts, count, offset, flags);
  if (most != 0 && first.iov_len > (size_t)most) first.iov_len = (size_t)most;
  if (end != 0 && offset + (off_t)first.iov_len > end) first.iov_len = (size_t)(end - offset);
  return real(fd, &first, 1, offset, flags);
}

__attribute__((visibility("default"))) ssize_t preadv2(int fd, const struct iovec* parts, int count,
                                                       off_t offset, int flags) {
  return call((Vectored*)dlsym(RTLD_NEXT, "preadv2"), parts, fd, count, offset, flags, "TEST_BAD", EIO);
}

__attribute__((visibility("default"))) ssize_t pwritev2(int fd, const struct iovec* parts, int count,
                                                        off_t offset, int flags) {
  return call((Vectored*)dlsym(RTLD_NEXT, "pwritev2"), parts, fd, count, offset, flags, "TEST_FULL", ENOSPC);
}
