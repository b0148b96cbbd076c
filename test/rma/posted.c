/* SPDX-License-Identifier: BSD-3-Clause */
/* Small and large operations on memory of MPI_Win_create, which the target executes, or helps with, while it
 * polls: a target that polls, that computes, that is stopped at any point, that is an origin itself; threads;
 * active synchronisation. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../helpers.h"
#include "check.h"

enum { BYTES = 3 << 20, WORDS = BYTES / 8, ROUNDS = 2000, THREADS = 3, TAG = 1 };
static int rank, peer;
static long* memory;
static MPI_Win win;

enum { POSTED, RETRACTED, COUNTERS };
static MPI_T_pvar_session session;
static MPI_T_pvar_handle counters[COUNTERS];

static void open_counters(void) {
  static const char* const names[COUNTERS] = {"window.posted_operations", "window.retracted_operations"};
  int index, elements, provided;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_T_pvar_session_create(&session);
  for (int i = 0; i < COUNTERS; ++i) {
    CHECK(MPI_T_pvar_get_index(names[i], MPI_T_PVAR_CLASS_COUNTER, &index) == MPI_SUCCESS);
    CHECK(MPI_T_pvar_handle_alloc(session, index, NULL, &counters[i], &elements) == MPI_SUCCESS);
    CHECK(elements == 1);
  }
  MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES);
}

static unsigned long counter(int which) {
  unsigned long value = 0;
  CHECK(MPI_T_pvar_read(session, counters[which], &value) == MPI_SUCCESS);
  return value;
}

static void fill(unsigned char* data, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; ++i) data[i] = (unsigned char)(i * 7 + seed + (i >> 8));
}

/* Each kind of operation in sizes of both sides of each limit; rank 0 checks. */
static void every_size(unsigned seed) {
  static const int sizes[] = {1, 8, 20, 40, 41, 4096, 4097, 65535, 65536, 65537, 200000, 1048581};
  static unsigned char out[1100000], in[1100000];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    const int n = sizes[i];
    const MPI_Aint at = 64 + (MPI_Aint)random_below(5);
    fill(out, (size_t)n, seed + (unsigned)i);
    MPI_Put(out, n, MPI_BYTE, peer, at, n, MPI_BYTE, win);
    MPI_Win_flush(peer, win);
    memset(in, 0, (size_t)n);
    MPI_Get(in, n, MPI_BYTE, peer, at, n, MPI_BYTE, win);
    MPI_Win_flush(peer, win);
    CHECK(memcmp(in, out, (size_t)n) == 0);
    MPI_Accumulate(out, n, MPI_BYTE, peer, at, n, MPI_BYTE, MPI_BXOR, win);
    MPI_Get_accumulate(NULL, 0, MPI_BYTE, in, n, MPI_BYTE, peer, at, n, MPI_BYTE, MPI_NO_OP, win);
    MPI_Win_flush(peer, win);
    for (int k = 0; k < n; ++k) CHECK(in[k] == 0);
    MPI_Get_accumulate(out, n, MPI_BYTE, in, n, MPI_BYTE, peer, at, n, MPI_BYTE, MPI_REPLACE, win);
    MPI_Accumulate(out, n, MPI_BYTE, peer, at, n, MPI_BYTE, MPI_BOR, win);
    MPI_Win_flush(peer, win);
    for (int k = 0; k < n; ++k) CHECK(in[k] == 0);
    MPI_Get(in, n, MPI_BYTE, peer, at, n, MPI_BYTE, win);
    MPI_Win_flush(peer, win);
    CHECK(memcmp(in, out, (size_t)n) == 0);
  }
  long value = 5, wrong = 4, found = 0, next = 6;
  MPI_Put(&value, 1, MPI_LONG, peer, 0, 1, MPI_LONG, win);
  MPI_Win_flush(peer, win);
  MPI_Compare_and_swap(&next, &wrong, &found, MPI_LONG, peer, 0, win);
  MPI_Win_flush(peer, win);
  CHECK(found == 5);
  MPI_Compare_and_swap(&next, &value, &found, MPI_LONG, peer, 0, win);
  MPI_Win_flush(peer, win);
  CHECK(found == 5);
  MPI_Fetch_and_op(&value, &found, MPI_LONG, peer, 0, MPI_SUM, win);
  MPI_Win_flush(peer, win);
  CHECK(found == 6);
}

/* Sizes of both sides of each limit, while rank 1 does `other`. */
static void against(void (*other)(void), const char* what, unsigned rounds) {
  MPI_Win_lock_all(0, win);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    const unsigned long posted = counter(POSTED), retracted = counter(RETRACTED);
    for (unsigned i = 0; i < rounds; ++i) every_size(i);
    printf("%s: %lu posted, %lu retracted\n", what, counter(POSTED) - posted, counter(RETRACTED) - retracted);
  } else if (other != NULL) {
    other();
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_unlock_all(win);
}

static void computes(void) { compute(0.3); }

static void computes_and_polls(void) {
  const double end = MPI_Wtime() + 0.3;
  while (MPI_Wtime() < end) {
    int flag;
    compute(random_below(30) * 1e-6);
    for (unsigned i = random_below(20); i > 0; --i)
      MPI_Iprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
  }
}

/* Stops and continues rank 1 while it polls. */
static void stopped_target(void) {
  int target = (int)getpid();
  MPI_Bcast(&target, 1, MPI_INT, 1, MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  if (rank == 0) {
    const pid_t stopper = fork();
    CHECK(stopper >= 0);
    if (stopper == 0) {
      for (int i = 0; i < 150; ++i) {
        kill(target, SIGSTOP);
        usleep(random_below(1000));
        kill(target, SIGCONT);
        usleep(random_below(2000));
      }
      _exit(0);
    }
    const unsigned long posted = counter(POSTED), retracted = counter(RETRACTED);
    for (unsigned i = 0; waitpid(stopper, NULL, WNOHANG) == 0; ++i) every_size(i);
    kill(target, SIGCONT);
    printf("stopped at times: %lu posted, %lu retracted\n", counter(POSTED) - posted,
           counter(RETRACTED) - retracted);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_unlock_all(win);
}

/* Fetch-and-op on both ranks' counters: the values that a thread sees grow. */
static void* count(void* unused) {
  long before[2] = {-1, -1};
  for (int i = 0; i < ROUNDS; ++i) {
    const long one = 1;
    long found = -1;
    const int target = i % 2;
    MPI_Fetch_and_op(&one, &found, MPI_LONG, target, 0, MPI_SUM, win);
    MPI_Win_flush(target, win);
    CHECK(found > before[target]);
    before[target] = found;
    MPI_Accumulate(&one, 1, MPI_LONG, target, 8, 1, MPI_LONG, MPI_SUM, win);
  }
  return unused;
}

/* Both ranks are origin and target at once, with several threads. */
static void both(int threads) {
  pthread_t others[THREADS];
  memory[0] = memory[1] = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  for (int i = 1; i < threads; ++i) CHECK(pthread_create(&others[i], NULL, count, NULL) == 0);
  count(NULL);
  for (int i = 1; i < threads; ++i) pthread_join(others[i], NULL);
  MPI_Win_unlock_all(win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
  CHECK(memory[0] == ROUNDS * threads && memory[1] == ROUNDS * threads);
  MPI_Win_unlock(rank, win);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Puts, accumulates and gets of both ranks in one epoch, which the targets may execute in its last call. */
static void active(int fence) {
  MPI_Group world, other;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &peer, &other);
  for (int i = 0; i < WORDS; ++i) memory[i] = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  if (fence) MPI_Win_fence(MPI_MODE_NOPRECEDE, win);
  for (long i = 1; i <= ROUNDS; ++i) {
    const long value = i * 10 + rank, one = 1;
    long got = -1, sum = -1;
    memory[5] = i * 100 + rank; /* read by the peer */
    if (fence) {
      MPI_Win_fence(0, win);
    } else {
      MPI_Win_post(other, 0, win);
      MPI_Win_start(other, 0, win);
    }
    const unsigned what = (unsigned)i % 7; /* equal on both ranks */
    if (what != 1) MPI_Put(&value, 1, MPI_LONG, peer, 8, 1, MPI_LONG, win);
    if (what >= 3) MPI_Accumulate(&one, 1, MPI_LONG, peer, 16, 1, MPI_LONG, MPI_SUM, win);
    if (what == 4 || what == 1) MPI_Get(&got, 1, MPI_LONG, peer, 40, 1, MPI_LONG, win);
    if (what == 5) MPI_Fetch_and_op(&one, &sum, MPI_LONG, peer, 24, MPI_SUM, win);
    if (random_below(8) == 0) compute(random_below(20) * 1e-6);
    if (fence) {
      MPI_Win_fence(0, win);
    } else {
      MPI_Win_complete(win);
      int flag = i % 2 == 0;
      while (!flag) MPI_Win_test(win, &flag);
      if (i % 2 == 0) MPI_Win_wait(win);
    }
    memory[5] = -1; /* a late get would see this */
    if (what != 1) CHECK(memory[1] == i * 10 + peer);
    if (what == 4 || what == 1) CHECK(got == i * 100 + peer);
    if (what == 5) CHECK(sum == memory[3] - 1);
  }
  if (fence) MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
  long expected = 0;
  for (long i = 1; i <= ROUNDS; ++i) expected += i % 7 >= 3;
  CHECK(memory[2] == expected);
  MPI_Group_free(&other);
  MPI_Group_free(&world);
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  int provided;
  const int off = argc > 1 && strcmp(argv[1], "off") == 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  peer = 1 - rank;
  memory = calloc(1, BYTES);
  MPI_Win_create(memory, BYTES, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
  open_counters();
  const unsigned long before = counter(POSTED);
  against(NULL, "polls", 20);
  if (rank == 0) CHECK((counter(POSTED) > before) == !off);
  against(computes, "computes", 20);
  if (rank == 0) CHECK((counter(RETRACTED) > 0) == !off);
  against(computes_and_polls, "computes and polls", 20);
  stopped_target();
  both(1);
  both(provided == MPI_THREAD_MULTIPLE ? THREADS : 1);
  active(1);
  active(0);
  MPI_Win_free(&win);
  free(memory);
  MPI_Finalize();
  return 0;
}
