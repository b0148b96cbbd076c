// SPDX-License-Identifier: BSD-3-Clause
// Error classes of files, error handlers, and the texts of errors, which name the file and the operation.
#include <sys/stat.h>

#include "check.h"

static int rank, size;
static const char* program;

static int text_has(int code, const char* part) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(code, text, &length);
  if (strstr(text, part) == NULL) fprintf(stderr, "\"%s\" is not in \"%s\"\n", part, text);
  return strstr(text, part) != NULL;
}

static void open_errors(const char* path) {
  MPI_File file;
  int code = MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
  FAILS(code, MPI_ERR_NO_SUCH_FILE);
  CHECK(file == MPI_FILE_NULL);
  CHECK(text_has(code, path));
  if (rank == 0) CHECK(text_has(code, "cannot open"));
  FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file),
        MPI_ERR_AMODE);
  FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_INFO_NULL, &file),
        MPI_ERR_AMODE);
  FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE, MPI_INFO_NULL, &file), MPI_ERR_AMODE);
  FAILS(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL | MPI_MODE_CREATE,
                      MPI_INFO_NULL, &file),
        MPI_ERR_AMODE);
  FAILS(MPI_File_open(MPI_COMM_WORLD, "/tmp", MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_BAD_FILE);
  code = MPI_File_open(MPI_COMM_WORLD, "/tmp", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
  FAILS(code, MPI_ERR_BAD_FILE);
  if (rank == 0) CHECK(text_has(code, "cannot open /tmp: Is a directory"));
  // A program that runs cannot be written.
  FAILS(MPI_File_open(MPI_COMM_WORLD, program, MPI_MODE_RDWR, MPI_INFO_NULL, &file), MPI_ERR_FILE_IN_USE);
  FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);
  MPI_Barrier(MPI_COMM_WORLD);
  if (size > 1) {
    const int mode = MPI_MODE_CREATE | (rank == 1 ? MPI_MODE_WRONLY : MPI_MODE_RDWR);
    code = MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file);
    FAILS(code, MPI_ERR_NOT_SAME);
    CHECK(text_has(
        code, "MPI_MODE_RDWR | MPI_MODE_CREATE at rank 0 and MPI_MODE_WRONLY | MPI_MODE_CREATE at rank 1"));
    // One rank alone creates the file: it makes no other collective call than the others.
    for (int creator = 0; creator < 2; ++creator) {
      code = MPI_File_open(MPI_COMM_WORLD, path,
                           rank == creator ? MPI_MODE_RDWR | MPI_MODE_CREATE : MPI_MODE_RDONLY, MPI_INFO_NULL,
                           &file);
      FAILS(code, MPI_ERR_NOT_SAME);
      CHECK(text_has(code, "MPI_MODE_RDONLY at rank"));
    }
    FAILS(MPI_File_delete(path, MPI_INFO_NULL), MPI_ERR_NO_SUCH_FILE);  // nobody has created it
    MPI_Barrier(MPI_COMM_WORLD);
  }
  const int create = MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY;
  OK(MPI_File_open(MPI_COMM_WORLD, path, create, MPI_INFO_NULL, &file));
  MPI_File again;
  FAILS(MPI_File_open(MPI_COMM_WORLD, path, create, MPI_INFO_NULL, &again), MPI_ERR_FILE_EXISTS);
  char byte = 1;
  MPI_Offset place;
  FAILS(MPI_File_read(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ACCESS);
  FAILS(MPI_File_write_at(file, -1, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_ARG);
  FAILS(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_ERR_ARG);
  FAILS(MPI_File_seek(file, 0, 77), MPI_ERR_ARG);
  FAILS(MPI_File_set_size(file, -1), MPI_ERR_ARG);
  FAILS(MPI_File_write(file, &byte, -1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_COUNT);
  FAILS(MPI_File_write(file, &byte, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE), MPI_ERR_TYPE);
  FAILS(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "no such", MPI_INFO_NULL),
        MPI_ERR_UNSUPPORTED_DATAREP);
  FAILS(MPI_File_set_view(file, 0, MPI_INT, MPI_BYTE, "native", MPI_INFO_NULL), MPI_ERR_ARG);
  OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  FAILS(MPI_File_write_at(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO);
  MPI_Status status;
  FAILS(MPI_File_write_all_end(file, &byte, &status), MPI_ERR_IO);
  int number = 5, other = 6;
  OK(MPI_File_write_at_all_begin(file, rank, &number, 1, MPI_INT));
  FAILS(MPI_File_write_at_all_begin(file, rank, &number, 1, MPI_INT), MPI_ERR_IO);
  FAILS(MPI_File_write_all_end(file, &number, &status), MPI_ERR_IO);
  FAILS(MPI_File_write_at_all_end(file, &other, &status), MPI_ERR_BUFFER);
  OK(MPI_File_write_at_all_end(file, &number, &status));
  OK(MPI_File_get_position(file, &place));
  CHECK(place == 0);
  OK(MPI_File_close(&file));
  FAILS(MPI_File_get_size(file, &place), MPI_ERR_FILE);
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
  FAILS(MPI_File_write_all(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_READ_ONLY);
  FAILS(MPI_File_set_size(file, 1), MPI_ERR_READ_ONLY);
  OK(MPI_File_get_size(file, &place));
  CHECK(place == 4 * size);
  OK(MPI_File_close(&file));
}

static void view_errors(const char* path) {
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
  MPI_Datatype type;
  const int lengths[] = {1, 1}, down[] = {4, 0}, same[] = {0, 0};
  MPI_Type_indexed(2, lengths, down, MPI_INT, &type);
  FAILS(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL), MPI_ERR_TYPE);  // not committed
  MPI_Type_commit(&type);
  FAILS(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL), MPI_ERR_IO);
  MPI_Type_free(&type);
  MPI_Type_indexed(2, lengths, same, MPI_INT, &type);
  MPI_Type_commit(&type);
  FAILS(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL),
        MPI_ERR_IO);  // overlaps, writable
  MPI_Type_free(&type);
  FAILS(MPI_File_set_view(file, -5, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), MPI_ERR_ARG);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_buffer_size", "many");
  FAILS(MPI_File_set_info(file, info), MPI_ERR_INFO_VALUE);
  MPI_Info_set(info, "cb_buffer_size", "65536");
  MPI_Info_set(info, "romio_ds_write", "enable");
  MPI_Info_set(info, "no_such_hint", "1");
  OK(MPI_File_set_info(file, info));
  MPI_Info_free(&info);
  OK(MPI_File_get_info(file, &info));
  char value[64];
  int length = sizeof value, flag;
  MPI_Info_get_string(info, "cb_buffer_size", &length, value, &flag);
  CHECK(flag && strcmp(value, "65536") == 0);
  MPI_Info_get_string(info, "no_such_hint", &length, value, &flag);
  CHECK(!flag);
  MPI_Info_free(&info);
  if (size > 1) FAILS(MPI_File_set_size(file, rank), MPI_ERR_NOT_SAME);
  OK(MPI_File_close(&file));
}

static int calls;
static void handler(MPI_File* file, int* code, ...) {
  (void)file;
  if (error_class(*code) == MPI_ERR_NO_SUCH_FILE || error_class(*code) == MPI_ERR_IO) ++calls;
}

static void handlers(const char* path) {
  MPI_Errhandler own, found;
  MPI_File file;
  int value = 0;
  MPI_File_get_errhandler(MPI_FILE_NULL, &found);
  CHECK(found == MPI_ERRORS_RETURN);
  MPI_File_create_errhandler(handler, &own);
  MPI_File_set_errhandler(MPI_FILE_NULL, own);
  CHECK(MPI_File_open(MPI_COMM_WORLD, "/no/such/file", MPI_MODE_RDONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS);
  CHECK(calls == 1);
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
  CHECK(MPI_File_write_all_end(file, &value, MPI_STATUS_IGNORE) != MPI_SUCCESS);  // inherited
  CHECK(calls == 2);
  MPI_File_call_errhandler(file, MPI_ERR_IO);
  CHECK(calls == 3);
  MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
  CHECK(MPI_File_write_all_end(file, &value, MPI_STATUS_IGNORE) != MPI_SUCCESS);
  CHECK(calls == 3);
  MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
  MPI_Errhandler_free(&own);
  OK(MPI_File_close(&file));
  struct stat found_file;
  CHECK(stat(path, &found_file) != 0);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  program = argv[0];
  const char* path = make_path("errors");
  open_errors(path);
  view_errors(path);
  handlers(path);
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
