/* SPDX-License-Identifier: BSD-3-Clause */
/* Error handlers: which handler is called, its arguments, and MPI calls inside a handler. */
#include "expect.h"

static MPI_Comm seen_comm;
static int seen_code, calls;

static void handler(MPI_Comm* comm, int* code, ...) {
  int rank = -1;
  seen_comm = *comm;
  seen_code = *code;
  ++calls;
  EXPECT(MPI_Comm_rank(*comm, &rank) == MPI_SUCCESS && rank == 0);
}

static MPI_File seen_file = (MPI_File)1;

static void file_handler(MPI_File* file, int* code, ...) {
  seen_file = *file;
  seen_code = *code;
  ++calls;
}

int main(int argc, char** argv) {
  int value, provided;
  MPI_Comm first, second;
  MPI_Errhandler mine, got;
  MPI_Request request;
  MPI_Status status;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE,
                  &provided); /* the handler runs without the instance lock */
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_dup(MPI_COMM_WORLD, &first);
  MPI_Comm_dup(MPI_COMM_WORLD, &second);
  MPI_Comm_create_errhandler(handler, &mine);
  MPI_Comm_set_errhandler(first, mine);

  /* Errors of a call with a communicator. */
  EXPECT(class_of(MPI_Send(&value, 1, MPI_INT, 99, 0, first)) == MPI_ERR_RANK);
  EXPECT(calls == 1 && seen_comm == first && class_of(seen_code) == MPI_ERR_RANK);
  EXPECT(class_of(MPI_Send(&value, 1, MPI_INT, 99, 0, second)) == MPI_ERR_RANK && calls == 1);
  /* Errors in arguments that precede the communicator. */
  EXPECT(class_of(MPI_Bcast(&value, -1, MPI_INT, 0, first)) == MPI_ERR_COUNT && calls == 2);

  /* Errors without a communicator go to MPI_COMM_SELF. */
  MPI_Comm_set_errhandler(MPI_COMM_SELF, mine);
  EXPECT(class_of(MPI_Group_size(MPI_GROUP_NULL, &value)) == MPI_ERR_GROUP && calls == 3 &&
         seen_comm == MPI_COMM_SELF);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);

  /* Errors of a request go to its communicator: a truncated message. */
  int four[4] = {1, 2, 3, 4};
  MPI_Irecv(&value, 1, MPI_INT, 0, 7, first, &request);
  MPI_Send(four, 4, MPI_INT, 0, 7, first);
  EXPECT(class_of(MPI_Wait(&request, &status)) == MPI_ERR_TRUNCATE);
  EXPECT(calls == 4 && seen_comm == first && class_of(seen_code) == MPI_ERR_TRUNCATE);

  /* A freed handler stays in use by its communicator. */
  MPI_Errhandler_free(&mine);
  EXPECT(mine == MPI_ERRHANDLER_NULL);
  EXPECT(class_of(MPI_Send(&value, 1, MPI_INT, 99, 0, first)) == MPI_ERR_RANK && calls == 5);
  MPI_Comm_get_errhandler(first, &got);
  EXPECT(got != MPI_ERRHANDLER_NULL);
  MPI_Errhandler_free(&got);
  MPI_Comm_call_errhandler(first, MPI_ERR_OTHER);
  EXPECT(calls == 6 && class_of(seen_code) == MPI_ERR_OTHER);

  /* Files: errors return by default. */
  MPI_File file;
  EXPECT(class_of(MPI_File_open(first, "no_such_file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) ==
         MPI_ERR_NO_SUCH_FILE);
  EXPECT(calls == 6);
  EXPECT(MPI_File_get_errhandler(MPI_FILE_NULL, &got) == MPI_SUCCESS && got == MPI_ERRORS_RETURN);
  MPI_File_create_errhandler((MPI_File_errhandler_function*)file_handler, &mine);
  EXPECT(MPI_File_set_errhandler(MPI_FILE_NULL, mine) == MPI_SUCCESS);
  EXPECT(class_of(MPI_File_open(first, "no_such_file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) ==
         MPI_ERR_NO_SUCH_FILE);
  EXPECT(calls == 7 && seen_file == MPI_FILE_NULL && class_of(seen_code) == MPI_ERR_NO_SUCH_FILE);
  EXPECT(class_of(MPI_Comm_set_errhandler(second, mine)) == MPI_ERR_ERRHANDLER && calls == 7);
  EXPECT(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN) == MPI_SUCCESS);
  MPI_Errhandler_free(&mine);

  /* Window keyvals exist although windows do not; communicators reject them. */
  int key = MPI_KEYVAL_INVALID;
  EXPECT(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &key, NULL) == MPI_SUCCESS);
  EXPECT(class_of(MPI_Comm_set_attr(second, key, NULL)) == MPI_ERR_KEYVAL);
  EXPECT(MPI_Win_free_keyval(&key) == MPI_SUCCESS && key == MPI_KEYVAL_INVALID);
  MPI_Comm_free(&first);
  MPI_Comm_free(&second);
  MPI_Finalize();
  return finish();
}
