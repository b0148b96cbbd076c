/* SPDX-License-Identifier: BSD-3-Clause */
/* Passive target: rank 0 computes without MPI calls, and the operations of the other ranks on its memory take
 * no part of that time. Arguments: seconds of computation, limit of one operation in milliseconds, "thread"
 * if the library is expected to start its progress thread for the window of MPI_Win_create. Prints mean
 * and longest times. One operation of each kind may take longer than the limit: a busy machine gives the
 * processor to another process at times. Without progress of the target, the first operation takes all of the
 * time. */
#include <dirent.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../helpers.h"
#include "check.h"

enum { WORDS = 16384, LARGE = WORDS / 2 };
enum { PUT, GET, LARGE_PUT, LARGE_GET, FETCH, SWAP, ACCUMULATE, LOCK, KINDS };
static const char* const names[KINDS] = {
    "put", "get", "put 64 KiB", "get 64 KiB", "fetch_and_op", "compare_and_swap", "accumulate", "lock"};
static int rank, size;

/* Number of threads of this process. */
static int threads(void) {
  int count = 0;
  DIR* tasks = opendir("/proc/self/task");
  CHECK(tasks != NULL);
  for (struct dirent* entry; (entry = readdir(tasks)) != NULL;) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static void* return_at_once(void* unused) { return unused; }

/// A first thread: ThreadSanitizer starts one of its own with it, which `threads` must count from the start.
static void start_a_thread(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, return_at_once, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void operate(int kind, MPI_Win win, MPI_Aint base, long* data) {
  static const long one = 1; /* in use until the caller ends the epoch */
  static long old;
  const MPI_Aint own = base + (MPI_Aint)sizeof(long) * rank;
  const MPI_Aint large = base + (MPI_Aint)sizeof(long) * LARGE;
  switch (kind) {
    case PUT:
      MPI_Put(data, 1, MPI_LONG, 0, own, 1, MPI_LONG, win);
      break;
    case GET:
      MPI_Get(data, 1, MPI_LONG, 0, own, 1, MPI_LONG, win);
      break;
    case LARGE_PUT:
      MPI_Put(data, LARGE, MPI_LONG, 0, large, LARGE, MPI_LONG, win);
      break;
    case LARGE_GET:
      MPI_Get(data, LARGE, MPI_LONG, 0, large, LARGE, MPI_LONG, win);
      break;
    case FETCH:
      MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, base, MPI_SUM, win);
      break;
    case SWAP:
      MPI_Compare_and_swap(&one, &one, &old, MPI_LONG, 0, own, win);
      break;
    case ACCUMULATE:
      MPI_Accumulate(&one, 1, MPI_LONG, 0, base, 1, MPI_LONG, MPI_SUM, win);
      break;
  }
}

/* Repeats all operations while rank 0 computes. */
static long access_target(MPI_Win win, MPI_Aint base, double seconds, double limit_ms, const char* what) {
  static long data[WORDS];
  double worst[KINDS] = {0}, second[KINDS] = {0}, sum[KINDS] = {0};
  long rounds = 0, slow[KINDS] = {0};
  long added = 0;
  const double end = MPI_Wtime() + seconds * 0.8;
  while (MPI_Wtime() < end) {
    for (int kind = 0; kind < KINDS; ++kind) {
      const double begin = MPI_Wtime();
      if (kind != LOCK) MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
      if (kind == LOCK) MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
      operate(kind, win, base, data);
      if (kind == LOCK) MPI_Win_unlock(0, win);
      if (kind != LOCK) MPI_Win_unlock_all(win);
      const double took = MPI_Wtime() - begin;
      if (took > second[kind]) second[kind] = took < worst[kind] ? took : worst[kind];
      if (took > worst[kind]) worst[kind] = took;
      sum[kind] += took;
      slow[kind] += took > 1e-3;
      added += kind == FETCH || kind == ACCUMULATE;
    }
    ++rounds;
    usleep(2000); /* longer than the interval of the progress thread: it sleeps in between */
  }
  for (int kind = 0; kind < KINDS; ++kind) {
    printf("%s, %s: mean %.3f ms, longest %.3f ms, %ld of %ld took more than 1 ms\n", what, names[kind],
           sum[kind] / (double)rounds * 1e3, worst[kind] * 1e3, slow[kind], rounds);
    CHECK(rounds > 2 && second[kind] * 1e3 < limit_ms);
  }
  return added;
}

static void run(MPI_Win win, long* memory, double seconds, double limit_ms, const char* what) {
  MPI_Aint base = 0;
  int* flavor;
  int found;
  MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &flavor, &found);
  if (*flavor == MPI_WIN_FLAVOR_DYNAMIC) MPI_Get_address(memory, &base);
  MPI_Bcast(&base, 1, MPI_AINT, 0, MPI_COMM_WORLD);
  if (memory != NULL) memset(memory, 0, WORDS * sizeof(long));
  MPI_Barrier(MPI_COMM_WORLD);
  long added = 0, all = 0;
  if (rank == 0)
    compute(seconds);
  else
    added = access_target(win, base, seconds, limit_ms, what);
  MPI_Reduce(&added, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
  if (rank == 0) CHECK(memory[0] == all);
  MPI_Win_unlock(rank, win);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(argc >= 3);
  const double seconds = atof(argv[1]), limit_ms = atof(argv[2]);
  const int thread = argc > 3;
  start_a_thread();
  const int before = threads();
  MPI_Win win;
  long* memory;
  if (argc <= 4) { /* mapped */
    MPI_Win_allocate(WORDS * sizeof(long), 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void*)&memory, &win);
    CHECK(threads() == before);
    run(win, memory, seconds, limit_ms, "allocate");
    MPI_Win_free(&win);
  }
  memory = malloc(WORDS * sizeof(long));
  MPI_Win_create(memory, WORDS * sizeof(long), 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  CHECK(threads() == before + thread);
  run(win, memory, seconds, limit_ms, "create");
  MPI_Win_free(&win);
  MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  CHECK(threads() == before + 1); /* the first access asks the target for its key */
  MPI_Win_attach(win, memory, WORDS * sizeof(long));
  run(win, memory, seconds, limit_ms, "dynamic");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_detach(win, memory);
  MPI_Win_free(&win);
  free(memory);
  MPI_Finalize();
  return 0;
}
