// SPDX-License-Identifier: BSD-3-Clause
// Takes Python's lock. In C: libgcc is part of the module, so that no frame of C++ can end an exception of
// another library's copy, such as that of pthread_exit().
#include "python/take_lock.h"

#include <pthread.h>
#include <unistd.h>

void PyEval_RestoreThread(struct PyThreadState*);

static void wait_for_end_of_process(void* unused) {
  (void)unused;
  for (;;) pause();
}

void weft_python_take_lock(struct PyThreadState* state) {
  pthread_cleanup_push(wait_for_end_of_process, NULL);
  PyEval_RestoreThread(state);
  pthread_cleanup_pop(0);
}
