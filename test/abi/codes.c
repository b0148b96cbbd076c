/* SPDX-License-Identifier: BSD-3-Clause */
/* Error classes, codes and strings: standard and user-defined. */
#include <malloc.h>
#include <pthread.h>

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

/// The code of a call leads to its message in any thread, until 256 later errors.
static void* string_in_thread(void* code) {
  EXPECT_STRING(*(int*)code,
                "MPI_ERR_RANK: MPI_Send: dest = 99 (communicator has 1 rank): use 0, or MPI_PROC_NULL");
  return NULL;
}

static void codes_of_calls(void) {
  int value = 0, found = 0, length = 0;
  const int rank = MPI_Send(&value, 1, MPI_INT, 99, 0, MPI_COMM_SELF);
  int code = rank;
  EXPECT(class_of(code) == MPI_ERR_RANK);
  const int tag = MPI_Send(&value, 1, MPI_INT, 0, -5, MPI_COMM_SELF);
  EXPECT(class_of(tag) == MPI_ERR_TAG && tag != rank);
  EXPECT_ERROR(MPI_Add_error_code(rank, &found), MPI_ERR_ARG, "is not an error class");
  pthread_t thread;
  pthread_create(&thread, NULL, string_in_thread, &code);
  pthread_join(thread, NULL);
  char text[MPI_MAX_ERROR_STRING];
  char missing[MPI_MAX_ERROR_STRING + 200];
  memset(missing, 'x', sizeof missing - 1);
  missing[sizeof missing - 1] = 0;
  MPI_Session session;
  MPI_Info info;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  const int large = MPI_Session_get_pset_info(session, missing, &info);
  MPI_Session_finalize(&session);
  EXPECT(MPI_Error_string(large, text, &length) == MPI_SUCCESS && length == MPI_MAX_ERROR_STRING - 1);
  EXPECT(strcmp(text + length - 3, "...") == 0);
  for (int i = 0; i < 256; ++i) EXPECT(MPI_Send(&value, 1, MPI_INT, 0, -5, MPI_COMM_SELF) != MPI_SUCCESS);
  EXPECT_STRING(rank, "MPI_ERR_RANK: rank is not in the group");
  EXPECT(class_of(rank) == MPI_ERR_RANK);
  for (int i = 0; i < 70000; ++i) code = MPI_Send(&value, 1, MPI_INT, 0, -i - 2, MPI_COMM_SELF);
  EXPECT(MPI_Error_string(code, text, &length) == MPI_SUCCESS && strstr(text, "tag = -70001") != NULL);
  EXPECT_ERROR(MPI_Error_class(0x40000000 | 5000, &found), MPI_ERR_ARG, "is not an error code");
}

/// A list of requests: MPI_ERR_IN_STATUS is returned as a value, with the message of the first error.
static void codes_in_statuses(void) {
  int four[4] = {1, 2, 3, 4}, values[4], length;
  char text[MPI_MAX_ERROR_STRING];
  MPI_Request requests[2];
  MPI_Status statuses[2];
  for (int i = 0; i < 2; ++i) MPI_Irecv(&values[2 * i], i + 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]);
  MPI_Send(four, 1, MPI_INT, 0, 0, MPI_COMM_SELF);
  MPI_Send(four, 4, MPI_INT, 0, 1, MPI_COMM_SELF);
  EXPECT(MPI_Waitall(2, requests, statuses) == MPI_ERR_IN_STATUS);
  EXPECT(MPI_Error_string(MPI_ERR_IN_STATUS, text, &length) == MPI_SUCCESS &&
         strstr(text, "16 bytes") != NULL);
  EXPECT(statuses[0].MPI_ERROR == MPI_SUCCESS && class_of(statuses[1].MPI_ERROR) == MPI_ERR_TRUNCATE);
  EXPECT(MPI_Error_string(statuses[1].MPI_ERROR, text, &length) == MPI_SUCCESS &&
         strstr(text, "16 bytes") != NULL);
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
  codes_of_calls();
  codes_in_statuses();
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
