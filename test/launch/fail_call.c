// SPDX-License-Identifier: BSD-3-Clause
// LD_PRELOAD library: call number FAIL_AT of the function FAIL_CALL fails once with FAIL_ERRNO. Calls of
// mpiexec and of its children before exec are counted; with FAIL_PROGRAM those of rank 1, a process of that
// name. The file FAIL_MARK is created when the call fails.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char* wanted;  // null outside mpiexec
static atomic_int* calls;   // shared with the children

__attribute__((constructor)) static void begin(void) {
  const char *program = getenv("FAIL_PROGRAM"), *rank = getenv("PMI_RANK");
  if (strcmp(program_invocation_short_name, program != NULL ? program : "mpiexec") != 0) return;
  if (program != NULL && (rank == NULL || strcmp(rank, "1") != 0)) return;
  calls = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  wanted = getenv("FAIL_CALL");
}

static int fails(const char* name) {
  if (wanted == NULL || strcmp(name, wanted) != 0) return 0;
  if (atomic_fetch_add(calls, 1) + 1 != atoi(getenv("FAIL_AT"))) return 0;
  syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, getenv("FAIL_MARK"), O_CREAT | O_WRONLY, 0600));
  errno = atoi(getenv("FAIL_ERRNO"));
  return 1;
}

#define FAILING(result, name, parameters, arguments)            \
  result name parameters {                                      \
    static result(*next) parameters;                            \
    if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, #name); \
    return fails(#name) ? (result)-1 : next arguments;          \
  }

FAILING(int, epoll_create1, (int flags), (flags))
FAILING(int, epoll_ctl, (int epoll, int operation, int fd, struct epoll_event* event),
        (epoll, operation, fd, event))
FAILING(int, epoll_wait, (int epoll, struct epoll_event* events, int most, int time),
        (epoll, events, most, time))
FAILING(int, eventfd, (unsigned value, int flags), (value, flags))
FAILING(int, signalfd, (int fd, const sigset_t* mask, int flags), (fd, mask, flags))
FAILING(int, pipe2, (int ends[2], int flags), (ends, flags))
FAILING(int, socketpair, (int domain, int type, int protocol, int ends[2]), (domain, type, protocol, ends))
FAILING(pid_t, fork, (void), ())
FAILING(int, dup2, (int from, int to), (from, to))
FAILING(pid_t, setsid, (void), ())
FAILING(int, poll, (struct pollfd * events, nfds_t count, int time), (events, count, time))
FAILING(ssize_t, read, (int fd, void* bytes, size_t size), (fd, bytes, size))
FAILING(ssize_t, write, (int fd, const void* bytes, size_t size), (fd, bytes, size))
FAILING(ssize_t, recv, (int fd, void* bytes, size_t size, int flags), (fd, bytes, size, flags))
FAILING(ssize_t, send, (int fd, const void* bytes, size_t size, int flags), (fd, bytes, size, flags))
FAILING(pid_t, waitpid, (pid_t pid, int* status, int options), (pid, status, options))

FAILING(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
FAILING(int, bind, (int fd, const struct sockaddr* name, socklen_t size), (fd, name, size))
FAILING(int, listen, (int fd, int backlog), (fd, backlog))
FAILING(int, accept4, (int fd, struct sockaddr* name, socklen_t* size, int flags), (fd, name, size, flags))
FAILING(int, connect, (int fd, const struct sockaddr* name, socklen_t size), (fd, name, size))
FAILING(ssize_t, sendmsg, (int fd, const struct msghdr* message, int flags), (fd, message, flags))
FAILING(ssize_t, recvmsg, (int fd, struct msghdr* message, int flags), (fd, message, flags))
FAILING(int, memfd_create, (const char* name, unsigned flags), (name, flags))
FAILING(int, ftruncate, (int fd, off_t size), (fd, size))
FAILING(ssize_t, getrandom, (void* bytes, size_t size, unsigned flags), (bytes, size, flags))
FAILING(int, sched_getaffinity, (pid_t pid, size_t size, cpu_set_t* set), (pid, size, set))
FAILING(void*, mmap, (void* address, size_t size, int protection, int flags, int fd, off_t offset),
        (address, size, protection, flags, fd, offset))

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int mode = va_arg(more, int);
  va_end(more);
  return fails("open") ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

int prctl(int option, ...) {
  unsigned long arguments[4];
  va_list more;
  va_start(more, option);
  for (int i = 0; i < 4; ++i) arguments[i] = va_arg(more, unsigned long);
  va_end(more);
  return fails("prctl")
             ? -1
             : (int)syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  static int (*next)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "pthread_create");
  return fails("pthread_create") ? errno : next(thread, attributes, start, argument);
}
