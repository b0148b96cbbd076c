// SPDX-License-Identifier: BSD-3-Clause
// Preload library: faults of system calls on files. TEST_SHORT: largest number of bytes that a pread, pwrite,
// preadv2 or pwritev2 moves. TEST_INTERRUPT: every Nth of these calls fails with EINTR. TEST_FULL: file
// offset in bytes from which writes and allocations fail with ENOSPC; TEST_QUOTA: with EDQUOT. TEST_BAD: file
// offset from which reads fail with EIO. TEST_UNMAPPED=allocate|populate: files cannot be mapped, for want of
// fallocate or of pages.
// TEST_NFS: all files are on NFS; test_locks(): how often the process has waited for a lock of a file.
// TEST_LUSTRE: all files are on Lustre; the layout of a new file is kept in an extended attribute.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#define EXPORT __attribute__((visibility("default")))

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

EXPORT ssize_t preadv2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  return call((Vectored*)dlsym(RTLD_NEXT, "preadv2"), parts, fd, count, offset, flags, "TEST_BAD", EIO);
}

EXPORT ssize_t pwritev2(int fd, const struct iovec* parts, int count, off_t offset, int flags) {
  const int quota = getenv("TEST_QUOTA") != NULL;
  return call((Vectored*)dlsym(RTLD_NEXT, "pwritev2"), parts, fd, count, offset, flags,
              quota ? "TEST_QUOTA" : "TEST_FULL", quota ? EDQUOT : ENOSPC);
}

static int unmapped(const char* how) {
  const char* text = getenv("TEST_UNMAPPED");
  return text != NULL && strcmp(text, how) == 0;
}

EXPORT int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  const long quota = setting("TEST_QUOTA"), end = quota != 0 ? quota : setting("TEST_FULL");
  if (unmapped("allocate") || (end != 0 && offset + bytes > end)) {
    errno = quota != 0 ? EDQUOT : end != 0 ? ENOSPC : EOPNOTSUPP;
    return -1;
  }
  return ((int (*)(int, int, off_t, off_t))dlsym(RTLD_NEXT, "fallocate"))(fd, mode, offset, bytes);
}

EXPORT int madvise(void* address, size_t bytes, int advice) {
  if ((advice == 22 || advice == 23) && unmapped("populate")) {  // MADV_POPULATE_READ, MADV_POPULATE_WRITE
    errno = EFAULT;
    return -1;
  }
  return ((int (*)(void*, size_t, int))dlsym(RTLD_NEXT, "madvise"))(address, bytes, advice);
}
EXPORT ssize_t pread(int fd, void* to, size_t bytes, off_t offset) {
  const struct iovec part = {to, bytes};
  return preadv2(fd, &part, 1, offset, 0);
}

EXPORT ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  const struct iovec part = {(void*)(uintptr_t)from, bytes};
  return pwritev2(fd, &part, 1, offset, 0);
}

// NFS and Lustre.

static atomic_long locks;
EXPORT long test_locks(void) { return locks; }

static int control(const char* name, int fd, int request, void* argument) {
  if (request == F_OFD_SETLKW) ++locks;
  return ((int (*)(int, int, ...))dlsym(RTLD_NEXT, name))(fd, request, argument);
}

#define CONTROL(name)                             \
  EXPORT int name(int fd, int request, ...) {     \
    va_list list;                                 \
    va_start(list, request);                      \
    void* argument = va_arg(list, void*);         \
    va_end(list);                                 \
    return control(#name, fd, request, argument); \
  }
CONTROL(fcntl)
CONTROL(fcntl64)

EXPORT int statfs(const char* path, struct statfs* system) {
  const int code = ((int (*)(const char*, struct statfs*))dlsym(RTLD_NEXT, "statfs"))(path, system);
  if (code == 0 && getenv("TEST_LUSTRE") != NULL) system->f_type = 0x0bd00bd0;
  return code;
}

EXPORT int fstatfs(int fd, struct statfs* system) {
  const int code = ((int (*)(int, struct statfs*))dlsym(RTLD_NEXT, "fstatfs"))(fd, system);
  if (code == 0 && getenv("TEST_LUSTRE") != NULL) system->f_type = 0x0bd00bd0;
  if (code == 0 && getenv("TEST_NFS") != NULL) system->f_type = 0x6969;
  return code;
}

struct layout {
  uint32_t format, pattern;
  uint64_t object[2];
  uint32_t stripe_bytes;
  uint16_t stripe_count, first_server;
};
static const char kAttribute[] = "user.test_layout";

EXPORT int ioctl(int fd, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  void* argument = va_arg(list, void*);
  va_end(list);
  if (getenv("TEST_LUSTRE") != NULL && request == _IOW('f', 154, long)) {  // sets the layout
    if ((fcntl(fd, F_GETFL) & O_ASYNC) == 0) return errno = EEXIST, -1;    // no O_LOV_DELAY_CREATE
    struct layout* layout = argument;
    if (layout->format != 0x0bd10bd0) return errno = EINVAL, -1;
    return fsetxattr(fd, kAttribute, layout, sizeof *layout, XATTR_CREATE);
  }
  if (getenv("TEST_LUSTRE") != NULL && request == _IOW('f', 155, long)) {
    struct layout layout = {0x0bd10bd0, 1, {0, 0}, 1 << 20, 1, 0};
    if (fgetxattr(fd, kAttribute, &layout, sizeof layout) < 0) {
      fsetxattr(fd, kAttribute, &layout, sizeof layout, XATTR_CREATE);
    }
    memcpy(argument, &layout, sizeof layout);
    return 0;
  }
  return ((int (*)(int, unsigned long, void*))dlsym(RTLD_NEXT, "ioctl"))(fd, request, argument);
}
