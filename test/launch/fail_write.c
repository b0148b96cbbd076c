// SPDX-License-Identifier: BSD-3-Clause
// LD_PRELOAD library: FAIL_WRITE=<errno> makes mpiexec's writes to standard output fail, FAIL_CLOSE=<errno>
// its closing of a copy of standard output, as file systems do that store late.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int error_for(const char* variable, int fd) {
  const char* text = getenv(variable);
  struct stat one, two;
  if (text == NULL || strcmp(program_invocation_short_name, "mpiexec") != 0) return 0;
  if (fstat(fd, &one) != 0 || fstat(STDOUT_FILENO, &two) != 0) return 0;
  return one.st_ino == two.st_ino && one.st_dev == two.st_dev ? atoi(text) : 0;
}

ssize_t write(int fd, const void* bytes, size_t size) {
  static ssize_t (*next)(int, const void*, size_t);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "write");
  const int error = error_for("FAIL_WRITE", fd);
  if (error == 0) return next(fd, bytes, size);
  errno = error;
  return -1;
}

int close(int fd) {
  static int (*next)(int);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "close");
  const int error = error_for("FAIL_CLOSE", fd), status = next(fd);
  if (error == 0) return status;
  errno = error;
  return -1;
}
