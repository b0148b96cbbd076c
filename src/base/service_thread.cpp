// SPDX-License-Identifier: BSD-3-Clause
#include "base/service_thread.hpp"

#include <signal.h>

#include <initializer_list>

namespace weft {

int start_service_thread(pthread_t& thread, const char* name, void* (*function)(void*), void* argument) {
  sigset_t blocked, before;  // signals of the program are handled by its own threads, but for faults
  ::sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigdelset(&blocked, fault);
  ::pthread_sigmask(SIG_SETMASK, &blocked, &before);
  const int failed = ::pthread_create(&thread, nullptr, function, argument);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed == 0) ::pthread_setname_np(thread, name);
  return failed;
}

}  // namespace weft
