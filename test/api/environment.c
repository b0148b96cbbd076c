// SPDX-License-Identifier: BSD-3-Clause
// Start-up information: MPI_APPNUM, MPI_INFO_ENV, memory allocation kinds; hints of communicators.
// usage: environment APPNUM MAXPROCS KINDS INITIAL_ERRHANDLER
#include <stdlib.h>

#include "../core/expect.h"

static const char* value_of(MPI_Info info, const char* key) {
  static char text[MPI_MAX_INFO_VAL];
  int length = sizeof text, found = 0;
  CALL(MPI_Info_get_string(info, key, &length, text, &found));
  return found ? text : "(none)";
}

static void start(char** argv) {
  int flag = 0, *number = NULL;
  MPI_Info info;
  char* arguments[] = {"program", "one", "two", NULL};
  CALL(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag));
  EXPECT_EQ(flag, 1);
  if (flag) EXPECT_EQ(*number, atoi(argv[1]));
  EXPECT_TEXT(value_of(MPI_INFO_ENV, "maxprocs"), argv[2]);
  EXPECT_TEXT(value_of(MPI_INFO_ENV, "thread_level"), "MPI_THREAD_FUNNELED");
  EXPECT_TEXT(value_of(MPI_INFO_ENV, "mpi_initial_errhandler"), argv[4]);
  EXPECT_EQ(strstr(value_of(MPI_INFO_ENV, "command"), "environment") != NULL, 1);
  EXPECT_EQ(strncmp(value_of(MPI_INFO_ENV, "argv"), argv[1], strlen(argv[1])), 0);
  for (const char* const* key = (const char* const[]){"host", "arch", "wdir", NULL}; *key != NULL; ++key)
    EXPECT_EQ(strcmp(value_of(MPI_INFO_ENV, *key), "(none)") != 0, 1);
  CALL(MPI_Info_create_env(3, arguments, &info));
  EXPECT_TEXT(value_of(info, "command"), "program");
  EXPECT_TEXT(value_of(info, "argv"), "one two");
  EXPECT_TEXT(value_of(info, "maxprocs"), "(none)"); /* the result does not depend on MPI_Init */
  CALL(MPI_Info_free(&info));
}

static void hints(const char* kinds) {
  MPI_Comm comm, dup;
  MPI_Info info, used;
  CALL(MPI_Info_create(&info));
  CALL(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
  CALL(MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", "system,mpi:alloc_mem"));
  CALL(MPI_Info_set(info, "unknown_hint", "true"));
  CALL(MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm));
  CALL(MPI_Comm_get_info(comm, &used));
  EXPECT_TEXT(value_of(used, "mpi_assert_no_any_tag"), "true");
  EXPECT_TEXT(value_of(used, "mpi_assert_memory_alloc_kinds"), "system,mpi:alloc_mem");
  EXPECT_TEXT(value_of(used, "unknown_hint"), "(none)");
  EXPECT_TEXT(value_of(used, "mpi_memory_alloc_kinds"), kinds);
  CALL(MPI_Info_free(&used));
  CALL(MPI_Comm_dup(comm, &dup));  // hints are not inherited (MPI 5.0 section 7.4.2)
  CALL(MPI_Comm_get_info(dup, &used));
  EXPECT_TEXT(value_of(used, "mpi_assert_no_any_tag"), "(none)");
  CALL(MPI_Info_free(&used));
  CALL(MPI_Comm_free(&dup));
  CALL(MPI_Info_set(info, "mpi_assert_no_any_tag", "perhaps"));
  EXPECT_ERROR(MPI_ERR_INFO_VALUE, MPI_Comm_set_info(comm, info));
  CALL(MPI_Info_set(info, "mpi_assert_no_any_tag", "false"));
  CALL(MPI_Info_set(info, "mpi_assert_memory_alloc_kinds", "system,levelzero"));
  CALL(MPI_Comm_set_info(comm, info));
  CALL(MPI_Comm_get_info(comm, &used));
  EXPECT_TEXT(value_of(used, "mpi_assert_no_any_tag"), "false");
  EXPECT_TEXT(value_of(used, "mpi_assert_memory_alloc_kinds"), "system,mpi:alloc_mem");
  CALL(MPI_Info_free(&used));
  CALL(MPI_Comm_free(&comm));
  CALL(MPI_Info_free(&info));
}

/// The kinds requested by a session override those of start-up.
static void session_kinds(void) {
  MPI_Session session;
  MPI_Info info;
  CALL(MPI_Info_create(&info));
  CALL(MPI_Info_set(info, "mpi_memory_alloc_kinds", "system,levelzero,mpi:alloc_mem,mpi:nothing,system"));
  CALL(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
  CALL(MPI_Info_free(&info));
  CALL(MPI_Session_get_info(session, &info));
  EXPECT_TEXT(value_of(info, "mpi_memory_alloc_kinds"), "system,mpi,mpi:alloc_mem");
  CALL(MPI_Info_free(&info));
  CALL(MPI_Session_finalize(&session));
}

static void memory(void) {
  MPI_Info info;
  char* block;
  CALL(MPI_Info_create(&info));
  CALL(MPI_Info_set(info, "mpi_minimum_memory_alignment", "8192"));
  CALL(MPI_Alloc_mem(100, info, &block));
  EXPECT_EQ((size_t)block % 8192, 0);
  CALL(MPI_Free_mem(block));
  CALL(MPI_Info_free(&info));
}

int main(int argc, char** argv) {
  int provided;
  MPI_Errhandler handler;
  if (argc < 5) return 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  EXPECT_EQ(handler == (strcmp(argv[4], "mpi_errors_return") == 0 ? MPI_ERRORS_RETURN : MPI_ERRORS_ARE_FATAL),
            1);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  start(argv);
  hints(argv[3]);
  session_kinds();
  memory();
  MPI_Finalize();
  return failures != 0;
}
