// SPDX-License-Identifier: BSD-3-Clause
// Data representations in which types have other sizes than in memory (MPI 5.0 section 14.5.2): external32
// with MPI_LONG and MPI_WCHAR, and a representation of the program that stores doubles as floats.
#include <stdint.h>
#include <wchar.h>

#include "check.h"

enum { kCount = 1000 };
static int rank, size;

static MPI_File open_file(const char* path) {
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                   MPI_INFO_NULL, &file));
  return file;
}

static void check_count(const MPI_Status* status, MPI_Datatype type, int expected) {
  int got;
  MPI_Get_count(status, type, &got);
  CHECK(got == expected);
}

/// Longs of the ranks in turn: 4 bytes each in the file, by a filetype that is scaled with them.
static void interleaved_longs(const char* path, int collective) {
  MPI_File file = open_file(path);
  MPI_Datatype vector, view;
  MPI_Type_vector(kCount, 1, size, MPI_LONG, &vector);
  MPI_Type_create_resized(vector, 0, (MPI_Aint)4 * size * kCount, &view);  // bytes in the file
  MPI_Type_commit(&view);
  OK(MPI_File_set_view(file, 8 + 4 * rank, MPI_LONG, view, "external32", MPI_INFO_NULL));
  MPI_Aint extent;
  OK(MPI_File_get_type_extent(file, MPI_LONG, &extent));
  CHECK(extent == 4);
  OK(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
  CHECK(extent == 8);
  OK(MPI_File_get_type_extent(file, view, &extent));
  CHECK(extent == (MPI_Aint)4 * size * kCount);
  OK(MPI_File_get_type_extent(file, vector, &extent));
  CHECK(extent == 4 * ((MPI_Aint)size * (kCount - 1) + 1));
  MPI_Type_free(&vector);
  MPI_Offset at;
  OK(MPI_File_get_byte_offset(file, 3, &at));
  CHECK(at == 8 + 4 * rank + 3 * 4 * size);
  long out[kCount], in[kCount];
  for (long i = 0; i < kCount; ++i) out[i] = -i * 1000 - rank;
  memset(in, 0, sizeof in);
  MPI_Status status;
  if (collective)
    OK(MPI_File_write_all(file, out, kCount, MPI_LONG, &status));
  else
    OK(MPI_File_write(file, out, kCount, MPI_LONG, &status));
  check_count(&status, MPI_LONG, kCount);
  OK(MPI_File_get_position(file, &at));
  CHECK(at == kCount);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Request request;
  OK(MPI_File_iread_at(file, 10, in + 10, kCount - 10, MPI_LONG, &request));
  OK(MPI_Wait(&request, &status));
  check_count(&status, MPI_LONG, kCount - 10);
  CHECK(memcmp(in + 10, out + 10, (kCount - 10) * sizeof(long)) == 0);
  MPI_Barrier(MPI_COMM_WORLD);  // the end of the file is that of the last rank
  OK(MPI_File_read_at(file, kCount - 3, in, 10, MPI_LONG, &status));
  check_count(&status, MPI_LONG, 3);
  CHECK(memcmp(in, out + kCount - 3, 3 * sizeof(long)) == 0);
  OK(MPI_File_get_size(file, &at));
  CHECK(at == 8 + 4 * (MPI_Offset)size * kCount);
  OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  unsigned char raw[4];
  OK(MPI_File_read_at(file, 8 + 4 * (size + rank), raw, 4, MPI_BYTE, MPI_STATUS_IGNORE));
  const uint32_t value = (uint32_t)out[1];
  CHECK(raw[0] == value >> 24 && raw[1] == (value >> 16 & 255) && raw[2] == (value >> 8 & 255) &&
        raw[3] == (value & 255));
  MPI_Type_free(&view);
  OK(MPI_File_close(&file));
}

/// A structure as etype: {long, wchar_t, char}, which has 4 + 2 + 1 bytes in the file.
static void structures(const char* path) {
  struct {
    long a;
    wchar_t b;
    char c;
  } out[8], in[8];
  memset(out, 0, sizeof out);
  memset(in, 0, sizeof in);
  const int lengths[] = {1, 1, 1};
  const MPI_Aint in_file[] = {0, 4, 6};
  const MPI_Aint in_memory[] = {0, (char*)&out[0].b - (char*)out, (char*)&out[0].c - (char*)out};
  const MPI_Datatype types[] = {MPI_LONG, MPI_WCHAR, MPI_CHAR};
  MPI_Datatype plain, memory, record, tile;
  MPI_Type_create_struct(3, lengths, in_memory, types, &plain);
  MPI_Type_create_resized(plain, 0, sizeof out[0], &memory);
  MPI_Type_commit(&memory);
  MPI_Type_free(&plain);
  MPI_Type_create_struct(3, lengths, in_file, types, &record);  // byte displacements are those in the file
  MPI_Type_create_resized(record, 0, 16, &tile);
  MPI_Type_commit(&tile);
  MPI_Type_free(&record);
  MPI_File file = open_file(path);
  OK(MPI_File_set_view(file, 16 * 8 * rank, tile, tile, "external32", MPI_INFO_NULL));
  for (int i = 0; i < 8; ++i) {
    out[i].a = 7 - 100 * i;
    out[i].b = (wchar_t)(i + 1000);
    out[i].c = (char)('a' + i);
  }
  MPI_Status status;
  OK(MPI_File_write_at_all(file, 0, out, 8, memory, &status));
  check_count(&status, memory, 8);
  OK(MPI_File_read_at_all(file, 0, in, 8, memory, &status));
  check_count(&status, memory, 8);
  for (int i = 0; i < 8; ++i) CHECK(in[i].a == out[i].a && in[i].b == out[i].b && in[i].c == out[i].c);
  OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
  unsigned char raw[7];
  OK(MPI_File_read_at(file, 16 * (8 * rank + 3), raw, 7, MPI_BYTE, &status));
  check_count(&status, MPI_BYTE, 7);
  CHECK(raw[3] == (unsigned char)(7 - 300) && raw[4] == 1003 >> 8 && raw[5] == (1003 & 255) && raw[6] == 'd');
  MPI_Type_free(&memory);
  MPI_Type_free(&tile);
  OK(MPI_File_close(&file));
}

static int to_floats(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position, void* state) {
  (void)position, (void)state;
  CHECK(type == MPI_DOUBLE);
  for (int i = 0; i < count; ++i) ((float*)file)[i] = (float)((double*)user)[i];
  return MPI_SUCCESS;
}
static int to_doubles(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position,
                      void* state) {
  (void)position, (void)state;
  CHECK(type == MPI_DOUBLE);
  for (int i = 0; i < count; ++i) ((double*)user)[i] = ((float*)file)[i];
  return MPI_SUCCESS;
}
static int extent_in_file(MPI_Datatype type, MPI_Aint* bytes, void* state) {
  (void)state;
  MPI_Aint lb;
  MPI_Type_get_extent(type, &lb, bytes);
  if (type == MPI_DOUBLE) *bytes = sizeof(float);
  return MPI_SUCCESS;
}

static void floats(const char* path) {
  OK(MPI_Register_datarep("floats", to_doubles, to_floats, extent_in_file, NULL));
  MPI_File file = open_file(path);
  MPI_Datatype view;
  MPI_Type_vector(kCount, 2, 2 * size, MPI_DOUBLE, &view);
  MPI_Type_commit(&view);
  OK(MPI_File_set_view(file, 8 * rank, MPI_DOUBLE, view, "floats", MPI_INFO_NULL));
  double out[2 * kCount], in[2 * kCount] = {0};
  for (int i = 0; i < 2 * kCount; ++i) out[i] = i * 0.5 + rank;
  MPI_Status status;
  OK(MPI_File_write_at_all(file, 0, out, 2 * kCount, MPI_DOUBLE, &status));
  check_count(&status, MPI_DOUBLE, 2 * kCount);
  OK(MPI_File_read_at(file, 0, in, 2 * kCount, MPI_DOUBLE, &status));
  check_count(&status, MPI_DOUBLE, 2 * kCount);
  CHECK(memcmp(in, out, sizeof in) == 0);
  MPI_Offset bytes;
  MPI_Barrier(MPI_COMM_WORLD);
  OK(MPI_File_get_size(file, &bytes));
  CHECK(bytes == (MPI_Offset)(2 * kCount * sizeof(float)) * size);
  MPI_Type_free(&view);
  OK(MPI_File_close(&file));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* path = make_path("sizes");
  interleaved_longs(path, 0);
  interleaved_longs(path, 1);
  structures(path);
  floats(path);
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
