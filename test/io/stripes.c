// SPDX-License-Identifier: BSD-3-Clause
// Hints of Lustre, whose kernel module faults.c imitates (TEST_LUSTRE): a new file gets the stripes that the
// hints ask for, an old file keeps its own, and MPI_File_get_info returns what the file has. Hints without
// effect are named.
#include "check.h"

static int rank, size;

static void expect(MPI_File file, const char* key, const char* expected) {
  MPI_Info info;
  OK(MPI_File_get_info(file, &info));
  char value[256] = "";
  int length = sizeof value, found;
  MPI_Info_get_string(info, key, &length, value, &found);
  if (expected == NULL ? found : (!found || strcmp(value, expected) != 0)) {
    fprintf(stderr, "%s = %s instead of %s\n", key, found ? value : "(not set)",
            expected ? expected : "(not set)");
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Info_free(&info);
}

static MPI_File open_with(const char* path, const char* factor, const char* unit, int mode) {
  MPI_Info info;
  MPI_Info_create(&info);
  if (factor != NULL) MPI_Info_set(info, "striping_factor", factor);
  if (unit != NULL) MPI_Info_set(info, "striping_unit", unit);
  MPI_File file;
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | mode, info, &file));
  MPI_Info_free(&info);
  return file;
}

static void write_and_check(MPI_File file) {
  enum { kBlock = 300, kBlocks = 5000 };
  MPI_Datatype view;
  MPI_Type_vector(kBlocks, kBlock, kBlock * size, MPI_BYTE, &view);
  MPI_Type_commit(&view);
  OK(MPI_File_set_view(file, kBlock * rank, MPI_BYTE, view, "native", MPI_INFO_NULL));
  char *out = malloc(kBlock * kBlocks), *in = malloc(kBlock * kBlocks);
  for (int i = 0; i < kBlock * kBlocks; ++i) out[i] = (char)(i * 7 + rank);
  OK(MPI_File_write_at_all(file, 0, out, kBlock * kBlocks, MPI_BYTE, MPI_STATUS_IGNORE));
  OK(MPI_File_read_at(file, 0, in, kBlock * kBlocks, MPI_BYTE, MPI_STATUS_IGNORE));
  CHECK(memcmp(in, out, kBlock * kBlocks) == 0);
  MPI_Type_free(&view);
  free(in);
  free(out);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* path = make_path("stripes");
  MPI_File file;
  if (getenv("TEST_LUSTRE") != NULL) {
    file = open_with(path, NULL, NULL, 0);  // the default of the folder
    expect(file, "striping_factor", "1");
    expect(file, "striping_unit", "1048576");
    OK(MPI_File_close(&file));
    file = open_with(path, "3", "65536", 0);  // exists already
    expect(file, "striping_factor", "1");
    OK(MPI_File_close(&file));
    if (rank == 0) OK(MPI_File_delete(path, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
    file = open_with(path, "3", "65536", 0);
    expect(file, "striping_factor", "3");
    expect(file, "striping_unit", "65536");
    write_and_check(file);
    OK(MPI_File_close(&file));
    if (rank == 0) OK(MPI_File_delete(path, MPI_INFO_NULL));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, "direct_io", "true");
  MPI_Info_set(info, "cb_buffer_size", "65536");
  MPI_Info_set(info, "romio_no_indep_rw", "true");
  MPI_Info_set(info, "no_hint_of_anybody", "1");
  OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, info,
                   &file));
  MPI_Info_free(&info);
  expect(file, "cb_buffer_size", "65536");
  expect(file, "weft_ignored_hints", "direct_io,romio_no_indep_rw");
  expect(file, "direct_io", NULL);
  OK(MPI_File_close(&file));
  file = open_with(path, NULL, NULL, MPI_MODE_DELETE_ON_CLOSE);
  expect(file, "weft_ignored_hints", NULL);
  OK(MPI_File_close(&file));
  if (rank == 0) printf("ok\n");
  MPI_Finalize();
  return 0;
}
