// SPDX-License-Identifier: BSD-3-Clause
// Checks of the tests of the tool interface.
#pragma once
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)
#define OK(call) EXPECT((call) == MPI_SUCCESS)
#define FAILS(call, error)                                                                             \
  do {                                                                                                 \
    const int code_ = (call);                                                                          \
    if (code_ != (error)) {                                                                            \
      fprintf(stderr, "%s:%d: %s returns %d, not %s (%d)\n", __FILE__, __LINE__, #call, code_, #error, \
              (int)(error));                                                                           \
      exit(1);                                                                                         \
    }                                                                                                  \
  } while (0)

static inline int cvar_index(const char* name) {
  int index = -1;
  OK(MPI_T_cvar_get_index(name, &index));
  return index;
}
static inline int pvar_index(const char* name, int class) {
  int index = -1;
  OK(MPI_T_pvar_get_index(name, class, &index));
  return index;
}
static inline int event_index(const char* name) {
  int index = -1;
  OK(MPI_T_event_get_index(name, &index));
  return index;
}
