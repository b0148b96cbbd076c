// SPDX-License-Identifier: BSD-3-Clause
// File offsets beyond the largest file: each call that computes one fails on all ranks of the call, names the
// argument, and changes no byte. A bad offset of one rank alone makes no other rank wait.
#include "check.h"

#define FAR ((MPI_Offset)1 << 61)
#define LARGEST ((MPI_Offset)(~(unsigned long long)0 >> 1))

static int rank, size;
static MPI_File file;

static void is_named(int code, const char* argument) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  FAILS(code, MPI_ERR_ARG);
  MPI_Error_string(code, text, &length);
  if (strstr(text, argument) == NULL) fprintf(stderr, "no '%s' in '%s'\n", argument, text);
  CHECK(strstr(text, argument) != NULL && strstr(text, " -") == NULL);
}

static void view(MPI_Datatype etype, MPI_Datatype filetype) {
  OK(MPI_File_set_view(file, 0, etype, filetype, "native", MPI_INFO_NULL));
}

/// A call with a bad offset at the last rank: all ranks get its class, the last one the name of the argument.
static void fails_at_last(int code, const char* argument) {
  FAILS(code, MPI_ERR_ARG);
  if (rank == size - 1) is_named(code, argument);
}

static void independent(void) {
  double value = 1;
  MPI_Request request;
  MPI_Offset place = -1;
  view(MPI_DOUBLE, MPI_DOUBLE);
  is_named(MPI_File_write_at(file, FAR, &value, 1, MPI_DOUBLE, MPI_STATUS_IGNORE),
           "offset = 2305843009213693952");
  is_named(MPI_File_read_at(file, FAR, &value, 1, MPI_DOUBLE, MPI_STATUS_IGNORE),
           "offset = 2305843009213693952");
  is_named(MPI_File_write_at(file, LARGEST, &value, 1, MPI_DOUBLE, MPI_STATUS_IGNORE), "offset = ");
  is_named(MPI_File_iwrite_at(file, FAR, &value, 1, MPI_DOUBLE, &request), "offset = ");
  is_named(MPI_File_get_byte_offset(file, FAR, &place), "offset = ");
  CHECK(place == -1);
  is_named(MPI_File_seek(file, FAR, MPI_SEEK_SET), "offset = ");
  is_named(MPI_File_seek_shared(file, FAR, MPI_SEEK_SET), "offset = ");
  OK(MPI_File_seek(file, ((MPI_Offset)1 << 60) - ((MPI_Offset)1 << 29) - 1,
                   MPI_SEEK_SET));  // the last but some
  is_named(MPI_File_write(file, (double[]){1, 2, 3}, 3, MPI_DOUBLE, MPI_STATUS_IGNORE),
           "the file pointer = ");
  OK(MPI_File_get_position(file, &place));
  CHECK(place == ((MPI_Offset)1 << 60) - ((MPI_Offset)1 << 29) - 1);  // not moved
  is_named(MPI_File_set_view(file, LARGEST, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), "disp = ");
}

static void gaps(void) {
  MPI_Datatype type;
  MPI_Offset place;
  char byte = 'Z';
  MPI_Type_create_resized(MPI_BYTE, 0, (MPI_Aint)1 << 62, &type);
  MPI_Type_commit(&type);
  view(MPI_BYTE, type);
  OK(MPI_File_get_byte_offset(file, 1, &place));
  CHECK(place == (MPI_Offset)1 << 62);
  for (MPI_Offset offset = 2; offset < 6; ++offset) {
    is_named(MPI_File_write_at(file, offset, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE), "offset = ");
    is_named(MPI_File_get_byte_offset(file, offset, &place), "offset = ");
  }
  is_named(MPI_File_write_at(file, 1, "ZZ", 2, MPI_BYTE, MPI_STATUS_IGNORE), "offset = 1");
  MPI_Type_free(&type);
  // Bytes that are so far apart are not worth an exchange of ranks: the call returns at once.
  MPI_Type_create_resized(MPI_BYTE, 0, (MPI_Aint)1 << 40, &type);
  MPI_Type_commit(&type);
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_read", "enable");
  char read[4] = "QQQ";
  OK(MPI_File_set_view(file, rank, MPI_BYTE, type, "native", info));
  OK(MPI_File_read_at_all(file, 0, read, 4, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK(read[0] == 'A');
  MPI_Info_free(&info);
  MPI_Type_free(&type);
}

static void collective(void) {
  double value = 2;
  MPI_Request request;
  view(MPI_DOUBLE, MPI_DOUBLE);
  const MPI_Offset bad = rank == size - 1 ? FAR : rank;
  fails_at_last(MPI_File_write_at_all(file, bad, &value, 1, MPI_DOUBLE, MPI_STATUS_IGNORE), "offset = ");
  fails_at_last(MPI_File_read_at_all(file, bad, &value, 1, MPI_DOUBLE, MPI_STATUS_IGNORE), "offset = ");
  if (size == 1) return;
  OK(MPI_File_iwrite_at_all(file, bad, &value, 1, MPI_DOUBLE, &request));
  fails_at_last(MPI_Wait(&request, MPI_STATUS_IGNORE), "offset = ");
  OK(MPI_File_write_at_all_begin(file, bad, &value, 1, MPI_DOUBLE));
  fails_at_last(MPI_File_write_at_all_end(file, &value, MPI_STATUS_IGNORE), "offset = ");
  // Half an etype at one rank.
  FAILS(MPI_File_write_at_all(file, 0, &value, rank == 0 ? 4 : 8, MPI_BYTE, MPI_STATUS_IGNORE), MPI_ERR_IO);
  FAILS(MPI_File_set_view(file, rank == 0 ? LARGEST : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL),
        MPI_ERR_ARG);
}

static void shared(void) {
  double value = 3;
  MPI_Offset end = ((MPI_Offset)1 << 60) - ((MPI_Offset)1 << 29) - 1, place;
  view(MPI_DOUBLE, MPI_DOUBLE);
  OK(MPI_File_seek_shared(file, end, MPI_SEEK_SET));
  is_named(MPI_File_write_shared(file, (double[]){1, 2, 3}, 3, MPI_DOUBLE, MPI_STATUS_IGNORE),
           "the shared file pointer = ");
  MPI_Barrier(MPI_COMM_WORLD);
  OK(MPI_File_get_position_shared(file, &place));
  CHECK(place == end);
  MPI_Barrier(MPI_COMM_WORLD);
  const int code = MPI_File_write_ordered(file, (double[]){1, 2, 3}, 3, MPI_DOUBLE, MPI_STATUS_IGNORE);
  FAILS(code, MPI_ERR_ARG);
  if (rank == 0) is_named(code, "the shared file pointer = ");
  OK(MPI_File_get_position_shared(file, &place));
  CHECK(place == end);
  OK(MPI_File_seek_shared(file, 1 + size, MPI_SEEK_SET));
  OK(MPI_File_write_ordered(file, &value, 1, MPI_DOUBLE, MPI_STATUS_IGNORE));
  OK(MPI_File_get_position_shared(file, &place));
  CHECK(place == 1 + 2 * size);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* path = make_path("offsets");
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                   MPI_INFO_NULL, &file));
  char bytes[64], found[64];
  memset(bytes, 'A', sizeof bytes);
  if (rank == 0) OK(MPI_File_write_at(file, 0, bytes, sizeof bytes, MPI_BYTE, MPI_STATUS_IGNORE));
  MPI_Barrier(MPI_COMM_WORLD);
  independent();
  gaps();
  collective();
  view(MPI_BYTE, MPI_BYTE);
  OK(MPI_File_read_at(file, 0, found, sizeof found, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK(memcmp(found, bytes, sizeof bytes) == 0);
  MPI_Offset end;
  OK(MPI_File_get_size(file, &end));
  CHECK(end == sizeof bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  shared();
  OK(MPI_File_close(&file));
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
