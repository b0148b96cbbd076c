// SPDX-License-Identifier: BSD-3-Clause
// Invalid arguments of groups, infos, operations, handlers and communicators: correct error class, never a
// crash.
#include <mpi.h>
#include <stdlib.h>

#include "expect.h"

static void groups(void) {
  MPI_Group world, copy, some = MPI_GROUP_NULL;
  int size, ranks[2] = {0, 0}, out[2], range[1][3] = {{0, 0, 0}};
  CALL(MPI_Comm_group(MPI_COMM_WORLD, &world));
  CALL(MPI_Group_size(world, &size));
  EXPECT_ERROR(MPI_ERR_RANK, MPI_Group_incl(world, 2, ranks, &some));
  ranks[0] = size;
  EXPECT_ERROR(MPI_ERR_RANK, MPI_Group_excl(world, 1, ranks, &some));
  EXPECT_ERROR(MPI_ERR_RANK, MPI_Group_translate_ranks(world, 1, ranks, world, out));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Group_range_incl(world, 1, range, &some));
  EXPECT_ERROR(MPI_ERR_GROUP, MPI_Group_size(MPI_GROUP_NULL, &size));
  ranks[0] = MPI_PROC_NULL;
  CALL(MPI_Group_translate_ranks(world, 1, ranks, MPI_GROUP_EMPTY, out));
  EXPECT_EQ(out[0], MPI_PROC_NULL);
  ranks[0] = 0;
  CALL(MPI_Group_translate_ranks(world, 1, ranks, MPI_GROUP_EMPTY, out));
  EXPECT_EQ(out[0], MPI_UNDEFINED);
  copy = world;
  CALL(MPI_Group_free(&world));
  EXPECT_EQ(world == MPI_GROUP_NULL, 1);
  EXPECT_ERROR(MPI_ERR_GROUP, MPI_Group_free(&world));
  EXPECT_ERROR(MPI_ERR_GROUP, MPI_Group_free(&copy));  // the reference of MPI_COMM_WORLD is not the user's
  CALL(MPI_Comm_group(MPI_COMM_WORLD, &world));
  CALL(MPI_Group_incl(world, 1, ranks, &some));
  copy = some;
  CALL(MPI_Group_free(&some));
  EXPECT_ERROR(MPI_ERR_GROUP, MPI_Group_rank(copy, &size));
  CALL(MPI_Group_free(&world));
  some = MPI_GROUP_EMPTY;
  CALL(MPI_Group_free(&some));
}

static void infos(void) {
  MPI_Info info, copy = MPI_INFO_ENV;
  char key[MPI_MAX_INFO_KEY + 8], value[16] = "unchanged";
  int flag = -1, length = 0;
  memset(key, 'k', sizeof key);
  key[sizeof key - 1] = '\0';
  CALL(MPI_Info_create(&info));
  EXPECT_ERROR(MPI_ERR_INFO_KEY, MPI_Info_set(info, key, "v"));
  EXPECT_ERROR(MPI_ERR_INFO_KEY, MPI_Info_set(info, "", "v"));
  EXPECT_ERROR(MPI_ERR_INFO_NOKEY, MPI_Info_delete(info, "none"));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Info_get_nthkey(info, 0, key));
  EXPECT_ERROR(MPI_ERR_INFO, MPI_Info_set(MPI_INFO_NULL, "k", "v"));
  EXPECT_ERROR(MPI_ERR_INFO, MPI_Info_set(MPI_INFO_ENV, "k", "v"));
  EXPECT_ERROR(MPI_ERR_INFO, MPI_Info_free(&copy));
  CALL(MPI_Info_get_string(info, "k", &length, value, &flag));
  EXPECT_EQ(flag, 0);
  CALL(MPI_Info_set(info, "k", "abcdef"));
  CALL(MPI_Info_get_string(info, "k", &length, value, &flag));  // queries the length
  EXPECT_EQ(length, 7);
  EXPECT_TEXT(value, "unchanged");
  length = 4;
  CALL(MPI_Info_get_string(info, "k", &length, value, &flag));
  EXPECT_EQ(length, 7);
  EXPECT_TEXT(value, "abc");
  length = 4;
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Info_get_string(info, "k", &length, NULL, &flag));
  length = 0;
  CALL(MPI_Info_get_string(info, "k", &length, NULL, &flag));
  EXPECT_EQ(length, 7);
  CALL(MPI_Info_set(info, "mpi_assert_no_any_tag", "maybe"));
  EXPECT_ERROR(MPI_ERR_INFO_VALUE, MPI_Comm_set_info(MPI_COMM_SELF, info));
  copy = info;
  CALL(MPI_Info_free(&info));
  EXPECT_ERROR(MPI_ERR_INFO, MPI_Info_free(&copy));
}

static void add(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((int*)inout)[i] += ((int*)in)[i];
}
static int handled;
static void counting_handler(MPI_Comm* comm, int* code, ...) {
  EXPECT_EQ(*comm == MPI_COMM_SELF, 1);
  EXPECT_EQ(*code, MPI_ERR_OTHER);
  ++handled;
}
static void session_handler(MPI_Session* session, int* code, ...) { (void)session, (void)code; }

static void operations_and_handlers(void) {
  MPI_Op op, predefined = MPI_SUM;
  int commute = -1;
  EXPECT_ERROR(MPI_ERR_OP, MPI_Op_free(&predefined));
  CALL(MPI_Op_create(add, 0, &op));
  CALL(MPI_Op_commutative(op, &commute));
  EXPECT_EQ(commute, 0);
  MPI_Op copy = op;
  CALL(MPI_Op_free(&op));
  EXPECT_ERROR(MPI_ERR_OP, MPI_Op_commutative(copy, &commute));

  MPI_Errhandler made, other, old;
  CALL(MPI_Session_create_errhandler(session_handler, &other));
  CALL(MPI_Comm_get_errhandler(MPI_COMM_SELF, &old));
  EXPECT_ERROR(MPI_ERR_ERRHANDLER, MPI_Comm_set_errhandler(MPI_COMM_SELF, other));
  CALL(MPI_Comm_create_errhandler(counting_handler, &made));
  CALL(MPI_Comm_set_errhandler(MPI_COMM_SELF, made));
  CALL(MPI_Errhandler_free(&made));  // still in use: destroyed when it is replaced
  CALL(MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_OTHER));
  EXPECT_EQ(handled, 1);
  CALL(MPI_Comm_set_errhandler(MPI_COMM_SELF, old));
  CALL(MPI_Errhandler_free(&old));
  CALL(MPI_Errhandler_free(&other));
}

static void communicators(void) {
  MPI_Comm comm, world = MPI_COMM_WORLD, child;
  int n;
  CALL(MPI_Comm_dup(MPI_COMM_SELF, &comm));
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Comm_free(&world));
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Comm_remote_size(comm, &n));
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Intercomm_merge(comm, 0, &child));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Comm_split(comm, -5, 0, &child));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Comm_split_type(comm, 12345, 0, MPI_INFO_NULL, &child));
  MPI_Group everyone;
  CALL(MPI_Comm_group(MPI_COMM_WORLD, &everyone));
  CALL(MPI_Comm_size(MPI_COMM_WORLD, &n));
  if (n > 1) EXPECT_ERROR(MPI_ERR_GROUP, MPI_Comm_create(comm, everyone, &child));
  CALL(MPI_Group_free(&everyone));
  MPI_Comm copy = comm;
  CALL(MPI_Comm_free(&comm));
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Comm_size(copy, &n));
  EXPECT_ERROR(MPI_ERR_COMM, MPI_Comm_free(&comm));
}

static void memory(void) {
  void* p = NULL;
  MPI_Info info;
  CALL(MPI_Info_create(&info));
  CALL(MPI_Info_set(info, "mpi_minimum_memory_alignment", "4096"));
  CALL(MPI_Alloc_mem(100, info, &p));
  EXPECT_EQ((unsigned long)p % 4096, 0);
  CALL(MPI_Free_mem(p));
  CALL(MPI_Info_set(info, "mpi_minimum_memory_alignment", "48"));
  EXPECT_ERROR(MPI_ERR_INFO_VALUE, MPI_Alloc_mem(100, info, &p));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Alloc_mem(-1, MPI_INFO_NULL, &p));
  EXPECT_ERROR(MPI_ERR_NO_MEM, MPI_Alloc_mem((MPI_Aint)1 << 60, MPI_INFO_NULL, &p));
  CALL(MPI_Info_free(&info));
}

int main(int argc, char** argv) {
  CALL(MPI_Init(&argc, &argv));
  CALL(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  CALL(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  groups();
  infos();
  operations_and_handlers();
  communicators();
  memory();
  CALL(MPI_Finalize());
  return failures != 0;
}
