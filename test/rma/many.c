/* SPDX-License-Identifier: BSD-3-Clause */
/* Resources: windows of all flavors are created and freed, again and again over the same memory, and
 * operations repeated. Memory, descriptors, mappings and /dev/shm stay as they were after the first tenth.
 * Arguments: number of windows, number of operations. */
#include <dirent.h>
#include <string.h>

#include "check.h"

enum {
  WORDS = 512,
  KINDS_OF_WINDOWS = 4,
  RESIDENT_SLACK_KB = 512,
  MAPPINGS_SLACK = 8,
  DESCRIPTORS_SLACK = 8
};
static int rank, size;

static long entries_of(const char* path, const char* prefix) {
  long count = 0;
  DIR* folder = opendir(path);
  CHECK(folder != NULL);
  for (struct dirent* entry; (entry = readdir(folder)) != NULL;)
    count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
  closedir(folder);
  return count;
}

struct resources {
  long resident_kb, mappings, descriptors, files;
};

static struct resources now(void) {
  struct resources found = {0, 0, entries_of("/proc/self/fd", ""), entries_of("/dev/shm", "weft")};
  char line[512];
  FILE* file = fopen("/proc/self/status", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    sscanf(line, "VmRSS: %ld", &found.resident_kb);
  CHECK(file != NULL && found.resident_kb > 0);
  fclose(file);
  file = fopen("/proc/self/maps", "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) ++found.mappings;
  CHECK(file != NULL);
  fclose(file);
  return found;
}

static void expect_same(const struct resources* before, const char* what) {
  const struct resources after = now();
  printf("rank %d, %s: resident %ld -> %ld KiB, %ld -> %ld mappings, %ld -> %ld descriptors\n", rank, what,
         before->resident_kb, after.resident_kb, before->mappings, after.mappings, before->descriptors,
         after.descriptors);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they keep freed memory for a while */
  CHECK(after.resident_kb <= before->resident_kb + RESIDENT_SLACK_KB);
#endif
  CHECK(after.mappings <= before->mappings + MAPPINGS_SLACK);
  CHECK(after.descriptors <= before->descriptors + DESCRIPTORS_SLACK);
  CHECK(after.files <= before->files);
}

/* Values that a stale mapping of earlier memory does not have. */
static void use(MPI_Win win, long* own, MPI_Aint base, long serial) {
  const int to = (rank + 1) % size, from = (rank + size - 1) % size;
  const long value = serial * size + rank, one = 1;
  long got = -1;
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
  own[0] = own[1] = -serial;
  own[2] = 0;
  MPI_Win_unlock(rank, win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  MPI_Put(&value, 1, MPI_LONG, to, base, 1, MPI_LONG, win);
  MPI_Accumulate(&one, 1, MPI_LONG, to, base + 2 * (MPI_Aint)sizeof(long), 1, MPI_LONG, MPI_SUM, win);
  MPI_Win_flush(to, win);
  MPI_Get(&got, 1, MPI_LONG, to, base + (MPI_Aint)sizeof(long), 1, MPI_LONG, win);
  MPI_Win_unlock_all(win);
  CHECK(got == -serial);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
  CHECK(own[0] == serial * size + from && own[2] == 1);
  MPI_Win_unlock(rank, win);
}

static void one_window(long serial) {
  MPI_Win win;
  MPI_Aint base = 0;
  long* own = NULL;
  long* allocated = NULL;
  const MPI_Aint bytes = WORDS * sizeof(long);
  switch (serial % KINDS_OF_WINDOWS) {
    case 0:
      MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void*)&own, &win);
      break;
    case 1: /* memory that malloc often places where the last was */
      own = allocated = malloc((size_t)bytes);
      MPI_Win_create(own, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
      break;
    case 2:
      MPI_Alloc_mem(bytes, MPI_INFO_NULL, (void*)&own);
      MPI_Win_create(own, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
      break;
    default: {
      MPI_Aint mine;
      const int to = (rank + 1) % size, from = (rank + size - 1) % size;
      own = allocated = malloc((size_t)bytes);
      MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
      MPI_Win_attach(win, own, bytes);
      MPI_Get_address(own, &mine);
      MPI_Sendrecv(&mine, 1, MPI_AINT, from, 0, &base, 1, MPI_AINT, to, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
  }
  use(win, own, base, serial);
  if (serial % KINDS_OF_WINDOWS == 3) {
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_detach(win, own);
  }
  MPI_Win_free(&win);
  if (serial % KINDS_OF_WINDOWS == 2) MPI_Free_mem(own);
  free(allocated);
}

static void operate(MPI_Win win, long count) {
  const int to = (rank + 1) % size;
  const long one = 1;
  long values[2] = {1, 2}, old;
  MPI_Win_lock_all(0, win);
  for (long i = 0; i < count; i += 5) {
    MPI_Request request;
    const MPI_Aint at = (i / 5 % (WORDS - 2) + 1) * (MPI_Aint)sizeof(long);
    MPI_Put(values, 1, MPI_LONG, to, at, 1, MPI_LONG, win);
    MPI_Get(values + 1, 1, MPI_LONG, to, at, 1, MPI_LONG, win);
    MPI_Accumulate(&one, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, win);
    MPI_Fetch_and_op(&one, &old, MPI_LONG, to, 0, MPI_SUM, win);
    MPI_Rput(values, 1, MPI_LONG, to, at, 1, MPI_LONG, win, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (i % 1000 == 0) MPI_Win_flush(to, win);
  }
  MPI_Win_unlock_all(win);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(argc == 3);
  const long windows = atol(argv[1]), operations = atol(argv[2]);
  struct resources before = {0};
  for (long serial = 1; serial <= windows; ++serial) {
    one_window(serial);
    if (serial == windows / 10) before = now();
  }
  expect_same(&before, "windows");
  for (int created = 0; created < 2; ++created) {
    MPI_Win win;
    long* memory;
    if (created) {
      memory = calloc(WORDS, sizeof(long));
      MPI_Win_create(memory, WORDS * sizeof(long), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    } else {
      MPI_Win_allocate(WORDS * sizeof(long), 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void*)&memory, &win);
      memory[0] = 0;
      MPI_Barrier(MPI_COMM_WORLD);
    }
    operate(win, operations / 20);
    before = now();
    operate(win, operations / 2 - operations / 20);
    expect_same(&before, created ? "operations, create" : "operations, allocate");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    CHECK(memory[0] == 2 * ((operations / 20 + 4) / 5 + (operations / 2 - operations / 20 + 4) / 5));
    MPI_Win_unlock(rank, win);
    MPI_Win_free(&win);
    if (created) free(memory);
  }
  MPI_Finalize();
  return 0;
}
