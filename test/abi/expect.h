/* SPDX-License-Identifier: BSD-3-Clause */
/* Expectations of the MPI programs in this folder: prints failures; finish() returns the exit status. */
#ifndef WEFT_TEST_ABI_EXPECT_H
#define WEFT_TEST_ABI_EXPECT_H
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <weft.h>

static int failures;

static inline void expect(int good, const char* what, int line) {
  if (good) return;
  ++failures;
  printf("line %d: %s\n", line, what);
}
#define EXPECT(condition) expect((condition), #condition, __LINE__)

static inline int class_of(int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  return error_class;
}

/* Expects an error class and a message that begins with the name of the call and contains `text`. */
static inline void expect_error(int code, int class_wanted, const char* text, const char* call, int line) {
  char message[1000], name[100];
  int length = 0, error_class = class_of(code);
  MPIX_Last_error_message(message, sizeof message, &length);
  snprintf(name, sizeof name, "%.*s: ", (int)strcspn(call, "("), call);
  if (error_class == class_wanted && strncmp(message, name, strlen(name)) == 0 &&
      strstr(message, text) != NULL)
    return;
  ++failures;
  printf("line %d: %s: class %d, wanted %d; message \"%s\", wanted \"%s\"\n", line, call, error_class,
         class_wanted, code == MPI_SUCCESS ? "(success)" : message, text);
}
#define EXPECT_ERROR(call, error_class, text) expect_error(call, error_class, text, #call, __LINE__)

static inline int finish(void) {
  printf(failures == 0 ? "good\n" : "%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}

#endif
