/* SPDX-License-Identifier: BSD-3-Clause */
/* Error classes, codes and strings: standard and user-defined. */
#include <malloc.h>

#include "expect.h"

static void expect_string(int code, const char* wanted, int line) {
  char text[MPI_MAX_ERROR_STRING];
  int length = -1;
  const int result = MPI_Error_string(code, text, &length);
  if (result == MPI_SUCCESS && strcmp(text, wanted) == 0 && length == (int)strlen(wanted)) return;
  ++failures;
  printf("line %d: string of %d: \"%s\" (%d), wanted \"%s\"\n", line, code, text, length, wanted);
}
#define EXPECT_STRING(code, wanted) expect_string(code, wanted, __LINE__)

static void standard_classes(void) {
  for (int code = 0; code <= MPI_ERR_ABI; ++code) {
    char text[MPI_MAX_ERROR_STRING];
    int error_class = -1, length = 0;
    EXPECT(MPI_Error_class(code, &error_class) == MPI_SUCCESS && error_class == code);
    EXPECT(MPI_Error_string(code, text, &length) == MPI_SUCCESS && length > 10);
    EXPECT(strncmp(text, code == 0 ? "MPI_SUCCESS" : "MPI_ERR_", 8) == 0);
  }
  EXPECT_STRING(MPI_ERR_RANK, "MPI_ERR_RANK: rank is not in the group");
  int value;
  EXPECT_ERROR(MPI_Error_class(5000, &value), MPI_ERR_ARG, "errorcode = 5000");
  EXPECT_ERROR(MPI_Error_class(-1, &value), MPI_ERR_ARG, "errorcode = -1");
}

static void user_codes(void) {
  int error_class, code, found, flag, *last;
  MPI_Add_error_class(&error_class);
  EXPECT(error_class > MPI_ERR_LASTCODE);
  EXPECT_STRING(error_class, "");
  MPI_Add_error_string(error_class, "my class");
  EXPECT_STRING(error_class, "my class");
  MPI_Add_error_code(error_class, &code);
  EXPECT(code > error_class);
  MPI_Error_class(code, &found);
  EXPECT(found == error_class);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &flag);
  EXPECT(flag && *last == code);
  EXPECT_ERROR(MPI_Remove_error_class(error_class), MPI_ERR_ARG, "still has error codes");
  EXPECT_ERROR(MPI_Remove_error_code(error_class), MPI_ERR_ARG, "errorcode = ");
  EXPECT_ERROR(MPI_Add_error_string(MPI_ERR_RANK, "x"), MPI_ERR_ARG, "is not user-defined");
  EXPECT_ERROR(MPI_Add_error_code(code, &found), MPI_ERR_ARG, "is not an error class");
  EXPECT(MPI_Remove_error_string(error_class) == MPI_SUCCESS);
  EXPECT_STRING(error_class, "");
  EXPECT(MPI_Remove_error_code(code) == MPI_SUCCESS);
  EXPECT_ERROR(MPI_Error_class(code, &found), MPI_ERR_ARG, "is not an error code");
  EXPECT(MPI_Remove_error_class(error_class) == MPI_SUCCESS);
  MPI_Add_error_code(MPI_ERR_RANK, &code);
  MPI_Error_class(code, &found);
  EXPECT(found == MPI_ERR_RANK);
}

/// Classes and codes that were removed take neither memory nor time.
static void many_codes(void) {
  const size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 100000; ++i) {
    int error_class, code;
    EXPECT(MPI_Add_error_class(&error_class) == MPI_SUCCESS);
    EXPECT(MPI_Add_error_code(error_class, &code) == MPI_SUCCESS);
    EXPECT(MPI_Remove_error_code(code) == MPI_SUCCESS);
    EXPECT(MPI_Remove_error_class(error_class) == MPI_SUCCESS);
  }
  EXPECT(mallinfo2().uordblks < before + 65536);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  standard_classes();
  user_codes();
  many_codes();
  char text[20];
  int length = -1;
  EXPECT(MPI_Comm_size(MPI_COMM_WORLD, &length) == MPI_SUCCESS);
  EXPECT(MPIX_Last_error_message(text, sizeof text, &length) == MPI_SUCCESS && strlen(text) == 19 &&
         length > 19);
  EXPECT(MPIX_Last_error_message(NULL, 0, &length) == MPI_SUCCESS);
  EXPECT(MPIX_Last_error_message(NULL, 5, NULL) == MPI_ERR_ARG);
  MPI_Finalize();
  return finish();
}
