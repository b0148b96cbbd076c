// SPDX-License-Identifier: BSD-3-Clause
// Checks of the tests of files, and names of files in a folder that TEST_FOLDER selects (default: /tmp).
#pragma once
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../rma/check.h"

/// Files return errors by default.
#define OK(call)                                                              \
  do {                                                                        \
    const int ok_code = (call);                                               \
    if (ok_code != MPI_SUCCESS) {                                             \
      char ok_text[MPI_MAX_ERROR_STRING];                                     \
      int ok_length;                                                          \
      MPI_Error_string(ok_code, ok_text, &ok_length);                         \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, ok_text); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                           \
    }                                                                         \
  } while (0)

static inline int error_class(int code) {
  int found;
  MPI_Error_class(code, &found);
  return found;
}
#define FAILS(call, expected) CHECK(error_class(call) == (expected))

static char test_path[4096];

/// A name that is the same on all ranks and different in each run.
static inline const char* make_path(const char* name) {
  int rank;
  long pid = (long)getpid();
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Bcast(&pid, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  const char* folder = getenv("TEST_FOLDER");
  snprintf(test_path, sizeof test_path, "%s/weft_io_%s_%ld", folder != NULL ? folder : "/tmp", name, pid);
  return test_path;
}
