// SPDX-License-Identifier: BSD-3-Clause
// Pointers, size, storage, views and their queries, data representations, atomic mode, nonblocking calls in
// flight.
#include <stdint.h>

#include "check.h"

static int rank, size;

static void pointers(const char* path) {
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
  OK(MPI_File_set_size(file, 1000));
  MPI_Offset at;
  OK(MPI_File_get_size(file, &at));
  CHECK(at == 1000);
  OK(MPI_File_preallocate(file, 5000));
  OK(MPI_File_get_size(file, &at));
  CHECK(at == 5000);
  OK(MPI_File_preallocate(file, 100));
  OK(MPI_File_get_size(file, &at));
  CHECK(at == 5000);
  OK(MPI_File_set_size(file, 1000));
  MPI_Datatype type, etype, found_etype, found_filetype;
  MPI_Type_vector(3, 1, 4, MPI_INT, &type);  // 12 of 36 bytes: 0-3, 16-19, 32-35
  MPI_Type_commit(&type);
  MPI_Type_dup(MPI_INT, &etype);
  OK(MPI_File_set_view(file, 8, etype, type, "native", MPI_INFO_NULL));
  MPI_Type_free(&type);
  MPI_Type_free(&etype);
  MPI_Offset disp;
  char datarep[MPI_MAX_DATAREP_STRING];
  OK(MPI_File_get_view(file, &disp, &found_etype, &found_filetype, datarep));
  CHECK(disp == 8 && strcmp(datarep, "native") == 0);
  int bytes;
  MPI_Type_size(found_filetype, &bytes);
  CHECK(bytes == 12);
  MPI_Type_free(&found_etype);
  MPI_Type_free(&found_filetype);
  OK(MPI_File_get_byte_offset(file, 4, &at));
  CHECK(at == 8 + 36 + 16);
  OK(MPI_File_seek(file, 0, MPI_SEEK_END));  // tiles of 36 bytes: 27 of them, then the int at 980 + 0, 16
  OK(MPI_File_get_position(file, &at));
  CHECK(at == 83);
  OK(MPI_File_seek(file, -3, MPI_SEEK_CUR));
  OK(MPI_File_get_position(file, &at));
  CHECK(at == 80);
  OK(MPI_File_seek_shared(file, 2, MPI_SEEK_END));
  OK(MPI_File_get_position_shared(file, &at));
  CHECK(at == 85);
  MPI_Barrier(MPI_COMM_WORLD);
  // Each rank takes another place.
  int value = rank, *all = malloc(sizeof(int) * (size_t)size), *seen = calloc((size_t)size, sizeof(int));
  OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
  for (int i = 0; i < 10; ++i) OK(MPI_File_write_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < 10; ++i) {
    OK(MPI_File_read_at(file, i * size, all, size, MPI_INT, MPI_STATUS_IGNORE));
    for (int k = 0; k < size; ++k) ++seen[all[k]];
  }
  for (int k = 0; k < size; ++k) CHECK(seen[k] == 10);
  free(all);
  free(seen);
  OK(MPI_File_close(&file));
  // MPI_MODE_APPEND begins at the end.
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_APPEND | MPI_MODE_DELETE_ON_CLOSE,
                   MPI_INFO_NULL, &file));
  MPI_Offset end, shared;
  OK(MPI_File_get_size(file, &end));
  OK(MPI_File_get_position(file, &at));
  OK(MPI_File_get_position_shared(file, &shared));
  CHECK(at == end && shared == end);
  OK(MPI_File_close(&file));
}

static int conversions;
static int convert(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position, void* state) {
  (void)position;
  CHECK(*(int*)state == 17 && type == MPI_INT);
  ++conversions;
  for (int i = 0; i < count; ++i) {
    const uint32_t flipped = ~((uint32_t*)file)[i];
    ((uint32_t*)user)[i] = flipped;
  }
  return MPI_SUCCESS;
}
static int convert_back(void* user, MPI_Datatype type, int count, void* file, MPI_Offset position,
                        void* state) {
  return convert(file, type, count, user, position, state);
}
static int extent(MPI_Datatype type, MPI_Aint* bytes, void* state) {
  MPI_Aint lb;
  (void)state;
  return MPI_Type_get_extent(type, &lb, bytes);
}

static void representations(const char* path) {
  static int state = 17;
  OK(MPI_Register_datarep("flipped", convert, convert_back, extent, &state));
  FAILS(MPI_Register_datarep("flipped", convert, convert_back, extent, &state), MPI_ERR_DUP_DATAREP);
  const char* names[] = {"native", "internal", "external32", "flipped"};
  for (int i = 0; i < 4; ++i)
    for (int nonblocking = 0; nonblocking < 2; ++nonblocking) {
      MPI_File file;
      MPI_Request request;
      MPI_Status status;
      OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                       MPI_INFO_NULL, &file));
      OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, names[i], MPI_INFO_NULL));
      MPI_Aint bytes;
      MPI_Offset disp;
      MPI_Datatype etype, filetype;
      char name[MPI_MAX_DATAREP_STRING];
      OK(MPI_File_get_view(file, &disp, &etype, &filetype, name));
      CHECK(strcmp(name, names[i]) == 0);
      OK(MPI_File_get_type_extent(file, MPI_INT, &bytes));
      CHECK(bytes == 4);
      int out[3] = {rank, 0x01020304, -1}, in[3] = {0};
      if (nonblocking) {
        OK(MPI_File_iwrite_at(file, 3 * rank, out, 3, MPI_INT, &request));
        OK(MPI_Wait(&request, &status));
        OK(MPI_File_iread_at_all(file, 3 * rank, in, 3, MPI_INT, &request));
        OK(MPI_Wait(&request, &status));
      } else {
        OK(MPI_File_write_at_all(file, 3 * rank, out, 3, MPI_INT, &status));
        OK(MPI_File_read_at(file, 3 * rank, in, 3, MPI_INT, &status));
      }
      int got;
      MPI_Get_count(&status, MPI_INT, &got);
      CHECK(got == 3 && memcmp(in, out, sizeof in) == 0);
      MPI_Barrier(MPI_COMM_WORLD);
      OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
      unsigned char raw[4];
      OK(MPI_File_read_at(file, 12 * rank + 4, raw, 4, MPI_BYTE, MPI_STATUS_IGNORE));
      const unsigned char expected[4][4] = {
          {4, 3, 2, 1}, {4, 3, 2, 1}, {1, 2, 3, 4}, {0xfb, 0xfc, 0xfd, 0xfe}};
      CHECK(memcmp(raw, expected[i], 4) == 0);
      OK(MPI_File_close(&file));
    }
  CHECK(conversions == 4);
}

/// In atomic mode a reader sees each write as a whole.
static void atomicity(const char* path) {
  enum { kInts = 20000 };
  MPI_File file;
  int flag, *data = malloc(kInts * sizeof(int));
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                   MPI_INFO_NULL, &file));
  OK(MPI_File_set_atomicity(file, 1));
  OK(MPI_File_get_atomicity(file, &flag));
  CHECK(flag);
  memset(data, 0, kInts * sizeof(int));
  if (rank == 0) OK(MPI_File_write_at(file, 0, data, kInts, MPI_INT, MPI_STATUS_IGNORE));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Datatype type;  // two halves of the file, so that an access has several runs
  MPI_Type_vector(2, kInts / 2, kInts, MPI_INT, &type);
  MPI_Type_commit(&type);
  OK(MPI_File_set_view(file, 0, MPI_INT, type, "native", MPI_INFO_NULL));
  for (int i = 0; i < 50; ++i) {
    if (rank % 2 == 0) {
      for (int k = 0; k < kInts; ++k) data[k] = i + rank;
      OK(MPI_File_write_at(file, 0, data, kInts, MPI_INT, MPI_STATUS_IGNORE));
    } else {
      MPI_Status status;
      int got;
      OK(MPI_File_read_at(file, 0, data, kInts, MPI_INT, &status));
      MPI_Get_count(&status, MPI_INT, &got);
      if (got == kInts)
        for (int k = 1; k < kInts; ++k) CHECK(data[k] == data[0]);
    }
  }
  MPI_Type_free(&type);
  free(data);
  OK(MPI_File_set_atomicity(file, 0));
  OK(MPI_File_close(&file));
}

/// Many calls in flight, collective and independent, completed in another order.
static void in_flight(const char* path) {
  enum { kCalls = 16, kInts = 3000 };
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                   MPI_INFO_NULL, &file));
  MPI_Datatype type;
  MPI_Type_vector(kInts, 1, size, MPI_INT, &type);
  MPI_Type_commit(&type);
  MPI_Datatype tile;
  MPI_Type_create_resized(type, 0, (MPI_Aint)sizeof(int) * size * kInts, &tile);
  MPI_Type_commit(&tile);
  OK(MPI_File_set_view(file, (MPI_Offset)sizeof(int) * rank, MPI_INT, tile, "native", MPI_INFO_NULL));
  int(*data)[kInts] = malloc(kCalls * sizeof *data);
  MPI_Request requests[kCalls];
  for (int i = 0; i < kCalls; ++i) {
    for (int k = 0; k < kInts; ++k) data[i][k] = rank + 10 * i + 1000 * k;
    if (i % 3 == 0)
      OK(MPI_File_iwrite(file, data[i], kInts, MPI_INT, &requests[i]));
    else
      OK(MPI_File_iwrite_all(file, data[i], kInts, MPI_INT, &requests[i]));
    OK(MPI_File_seek_shared(file, i, MPI_SEEK_SET));  // a blocking collective between them
  }
  for (int i = kCalls - 1; i >= kCalls / 2; --i) OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
  OK(MPI_Waitall(kCalls / 2, requests, MPI_STATUSES_IGNORE));
  memset(data, 0, kCalls * sizeof *data);
  for (int i = 0; i < kCalls; ++i)
    OK(MPI_File_iread_at_all(file, i * kInts, data[i], kInts, MPI_INT, &requests[i]));
  OK(MPI_Waitall(kCalls, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < kCalls; ++i)
    for (int k = 0; k < kInts; ++k) CHECK(data[i][k] == rank + 10 * i + 1000 * k);
  free(data);
  MPI_Type_free(&type);
  MPI_Type_free(&tile);
  OK(MPI_File_close(&file));
}

static void sequential(const char* path) {
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL | MPI_MODE_CREATE,
                   MPI_INFO_NULL, &file));
  int value = rank;
  FAILS(MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION);
  OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  OK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
  OK(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE));
  OK(MPI_File_close(&file));
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
  int found[2];
  OK(MPI_File_read_at(file, 4 * rank, &found[0], 1, MPI_INT, MPI_STATUS_IGNORE));
  OK(MPI_File_read_at(file, 4 * (rank + size), &found[1], 1, MPI_INT, MPI_STATUS_IGNORE));
  CHECK(found[0] == rank && found[1] == rank);
  OK(MPI_File_close(&file));
}

/// Filetypes with an extent below their span, of which programs use one (HDF5 does) or several.
static void interleaved_tiles(const char* path) {
  enum { kInts = 64, kGap = 100 };
  const int lengths[] = {1, 1};
  const MPI_Aint displacements[] = {4 * rank, 4 * (rank + kGap * size)};
  const MPI_Datatype types[] = {MPI_INT, MPI_INT};
  MPI_Datatype pair, tile;
  MPI_Type_create_struct(2, lengths, displacements, types, &pair);
  MPI_Type_create_resized(pair, 0, 4 * size, &tile);
  MPI_Type_commit(&tile);
  for (int collective = 0; collective < 2; ++collective)
    for (int n = 2; n <= kInts; n += kInts - 2) {
      MPI_File file;
      MPI_Status status;
      OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE,
                       MPI_INFO_NULL, &file));
      OK(MPI_File_set_view(file, 0, MPI_INT, tile, "native", MPI_INFO_NULL));
      int out[kInts], in[kInts] = {0}, got;
      for (int i = 0; i < kInts; ++i) out[i] = 1000 * rank + i;
      OK(collective ? MPI_File_write_at_all(file, 0, out, n, MPI_INT, &status)
                    : MPI_File_write_at(file, 0, out, n, MPI_INT, &status));
      OK(collective ? MPI_File_read_at_all(file, 0, in, n, MPI_INT, &status)
                    : MPI_File_read_at(file, 0, in, n, MPI_INT, &status));
      MPI_Get_count(&status, MPI_INT, &got);
      CHECK(got == n && memcmp(in, out, 4 * (size_t)n) == 0);
      MPI_Barrier(MPI_COMM_WORLD);
      OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
      for (int i = 0; i < n; ++i) {
        int value;
        OK(MPI_File_read_at(file, i / 2 * size + rank + i % 2 * kGap * size, &value, 1, MPI_INT, &status));
        CHECK(value == out[i]);
      }
      OK(MPI_File_close(&file));
    }
  MPI_Type_free(&pair);
  MPI_Type_free(&tile);
}

/// All ranks delete the file and create it again, without a barrier between.
static void delete_and_create(const char* path) {
  for (int i = 0; i < 20; ++i) {
    MPI_File file;
    const double until = MPI_Wtime() + (rank + i) % size * 0.002;
    while (MPI_Wtime() < until) continue;
    MPI_File_delete(path, MPI_INFO_NULL);  // fails on all ranks but the first
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    OK(MPI_File_close(&file));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) OK(MPI_File_delete(path, MPI_INFO_NULL));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* path = make_path("calls");
  pointers(path);
  representations(path);
  atomicity(path);
  in_flight(path);
  sequential(path);
  interleaved_tiles(path);
  delete_and_create(path);
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
