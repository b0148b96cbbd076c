// SPDX-License-Identifier: BSD-3-Clause
// While MPI runs, processes of this user may read this process (Yama's ptrace_scope 1); after MPI_Finalize
// the permission ends. The program interposes prctl.
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long last_tracer = 12345;

__attribute__((visibility("default"))) int prctl(int option, ...) {
  unsigned long arguments[4];
  va_list more;
  va_start(more, option);
  for (int i = 0; i < 4; ++i) arguments[i] = va_arg(more, unsigned long);
  va_end(more);
  if (option == PR_SET_PTRACER) last_tracer = arguments[0];
  return (int)syscall(SYS_prctl, option, arguments[0], arguments[1], arguments[2], arguments[3]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int granted = last_tracer == PR_SET_PTRACER_ANY;
  MPI_Finalize();
  if (granted && last_tracer == 0) return 0;
  printf("granted: %d, last: %lu\n", granted, last_tracer);
  return 1;
}
