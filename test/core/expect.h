// SPDX-License-Identifier: BSD-3-Clause
// Checks for C test programs: a failure is printed and counted, and the program continues.
#ifndef WEFT_TEST_CORE_EXPECT_H
#define WEFT_TEST_CORE_EXPECT_H
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int failures;

static void fail(const char* file, int line, const char* what, long got, long wanted) {
  ++failures;
  fprintf(stderr, "%s:%d: %s is %ld, not %ld\n", file, line, what, got, wanted);
}

#define EXPECT_EQ(got, wanted)                                          \
  do {                                                                  \
    const long got_ = (long)(got), wanted_ = (long)(wanted);            \
    if (got_ != wanted_) fail(__FILE__, __LINE__, #got, got_, wanted_); \
  } while (0)
#define EXPECT_TEXT(got, wanted) EXPECT_EQ(strcmp(got, wanted), 0)
#define CALL(call) EXPECT_EQ(call, MPI_SUCCESS)
/// Expects an error of this class from a call (error handler: MPI_ERRORS_RETURN).
#define EXPECT_ERROR(wanted, call)                                           \
  do {                                                                       \
    int class_ = -1;                                                         \
    const int code_ = (call);                                                \
    MPI_Error_class(code_, &class_);                                         \
    if (class_ != (wanted)) fail(__FILE__, __LINE__, #call, class_, wanted); \
  } while (0)

#endif
