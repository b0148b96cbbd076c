// SPDX-License-Identifier: BSD-3-Clause
// A rank that ends by a signal in the way that the first argument names.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void crash_in_library(int damage);  // crash_library.cpp
static volatile int zero;

__attribute__((noinline)) static int recurse(int depth) {
  volatile char frame[4096];
  frame[0] = (char)depth;
  return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}

__attribute__((noinline)) static void crash_here(const char* how) {
  if (strcmp(how, "segv") == 0) *(volatile int*)16 = 1;
  if (strcmp(how, "fpe") == 0) raise(SIGFPE);
  if (strcmp(how, "bus") == 0) raise(SIGBUS);
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "stack") == 0) zero = recurse(0);
  if (strcmp(how, "together") == 0) *(volatile int*)16 = 1;
  if (strcmp(how, "library") == 0) crash_in_library(0);
  if (strcmp(how, "heap") == 0) crash_in_library(1);
  if (strcmp(how, "error") == 0) MPI_Send(NULL, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
  if (strcmp(how, "reduce") == 0) MPI_Reduce_local((void*)16, (void*)32, 4, MPI_INT, MPI_SUM);
}

static void own_handler(int number) {
  (void)!write(1, "own handler\n", 12);
  _exit(number);
}

int main(int argc, char** argv) {
  const char* const how = argv[argc - 1];
  if (argc > 2 && strcmp(argv[1], "before") == 0) signal(SIGSEGV, own_handler);
  MPI_Init(NULL, NULL);
  if (argc > 2 && strcmp(argv[1], "after") == 0) signal(SIGSEGV, own_handler);
  MPI_Barrier(MPI_COMM_WORLD);
  crash_here(how);
  return 0;
}
