/* SPDX-License-Identifier: BSD-3-Clause */
/* Order of operations of several ranks: an operation that a flush has completed is visible to every later
 * one, and the common cases of calls (one thread, mapped memory) agree with the general ones, which derived
 * types and MPI_Win_flush_all take. */
#include <stdint.h>

#include "check.h"

enum { FLAGS = 0, TURN = 8, COUNTER = 16, DOUBLES = 32, WORDS = 64 };
static int rank, size, rounds;

/* Stores 1 to the flag of this rank in the memory of rank `to`, by a general path if `general`. */
static void raise_flag(MPI_Win win, int to, int64_t value, int general, MPI_Datatype word) {
  const MPI_Datatype type = general ? word : MPI_INT64_T;
  CHECK(MPI_Put(&value, 1, type, to, FLAGS + rank, 1, type, win) == MPI_SUCCESS);
  CHECK(general && value % 3 == 0 ? MPI_Win_flush_all(win) == MPI_SUCCESS
                                  : MPI_Win_flush(to, win) == MPI_SUCCESS);
}

/* Of two ranks that raise a flag at each other, at least one sees the other's. */
static void test_flags(MPI_Win win, MPI_Datatype word) {
  if (rank < 2) {
    const int other = 1 - rank;
    int64_t missed = 0;
    for (int64_t round = 1; round <= rounds; ++round) {
      const int general = (int)(round / 2 + rank * round) % 4 == 0;
      int64_t seen = -1, theirs[2];
      raise_flag(win, other, round, general, word);
      CHECK(MPI_Get(&seen, 1, MPI_INT64_T, rank, FLAGS + other, 1, MPI_INT64_T, win) == MPI_SUCCESS);
      CHECK(MPI_Win_flush(rank, win) == MPI_SUCCESS);
      CHECK(seen == round || seen == round - 1);
      missed += seen != round;
      const int64_t mine = seen;
      CHECK(MPI_Sendrecv(&mine, 1, MPI_INT64_T, other, 0, &theirs[0], 1, MPI_INT64_T, other, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS);
      CHECK(mine == round || theirs[0] == round);
    }
    CHECK(missed <= rounds);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

/* Sums by common and general paths at the same time lose nothing. */
static void test_sums(MPI_Win win, MPI_Datatype word) {
  const int64_t one = 1;
  const double half = 0.5;
  for (int i = 0; i < rounds; ++i) {
    int64_t old = -1;
    const int to = i % size;
    if (i % 3 == 0) {
      CHECK(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, to, COUNTER, MPI_SUM, win) == MPI_SUCCESS);
      CHECK(MPI_Win_flush(to, win) == MPI_SUCCESS);
      CHECK(old >= 0);
    } else {
      const MPI_Datatype type = i % 3 == 1 ? MPI_INT64_T : word;
      CHECK(MPI_Accumulate(&one, 1, type, to, COUNTER, 1, type, MPI_SUM, win) == MPI_SUCCESS);
    }
    CHECK(MPI_Accumulate(&half, 1, MPI_DOUBLE, to, DOUBLES, 1, MPI_DOUBLE, MPI_SUM, win) == MPI_SUCCESS);
  }
  CHECK(MPI_Win_flush_all(win) == MPI_SUCCESS);
  MPI_Barrier(MPI_COMM_WORLD);
  int64_t sum = -1;
  double halves = -1;
  CHECK(MPI_Get(&sum, 1, MPI_INT64_T, rank, COUNTER, 1, MPI_INT64_T, win) == MPI_SUCCESS);
  CHECK(MPI_Get(&halves, 1, MPI_DOUBLE, rank, DOUBLES, 1, MPI_DOUBLE, win) == MPI_SUCCESS);
  CHECK(MPI_Win_flush(rank, win) == MPI_SUCCESS);
  const int64_t expected = (int64_t)size * (rounds / size + (rank < rounds % size));
  CHECK(sum == expected);
  CHECK(halves == 0.5 * (double)expected);
  MPI_Barrier(MPI_COMM_WORLD);
}

/* A mutex by compare-and-swap guards puts and gets of a word. */
static void test_mutex(MPI_Win win) {
  const int64_t free_word = 0, taken = rank + 1;
  for (int i = 0; i < rounds / 100; ++i) {
    int64_t old = -1, value = -1;
    do {
      CHECK(MPI_Compare_and_swap(&taken, &free_word, &old, MPI_INT64_T, 0, TURN, win) == MPI_SUCCESS);
      CHECK(MPI_Win_flush(0, win) == MPI_SUCCESS);
    } while (old != free_word);
    CHECK(MPI_Get(&value, 1, MPI_INT64_T, 0, TURN + 1, 1, MPI_INT64_T, win) == MPI_SUCCESS);
    CHECK(MPI_Win_flush(0, win) == MPI_SUCCESS);
    ++value;
    CHECK(MPI_Put(&value, 1, MPI_INT64_T, 0, TURN + 1, 1, MPI_INT64_T, win) == MPI_SUCCESS);
    CHECK(MPI_Win_flush(0, win) == MPI_SUCCESS);
    CHECK(MPI_Accumulate(&free_word, 1, MPI_INT64_T, 0, TURN, 1, MPI_INT64_T, MPI_REPLACE, win) ==
          MPI_SUCCESS);
    CHECK(MPI_Win_flush(0, win) == MPI_SUCCESS);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  int64_t value = -1;
  CHECK(MPI_Get(&value, 1, MPI_INT64_T, 0, TURN + 1, 1, MPI_INT64_T, win) == MPI_SUCCESS);
  CHECK(MPI_Win_flush(0, win) == MPI_SUCCESS);
  CHECK(value == (int64_t)size * (rounds / 100));
}

int main(int argc, char** argv) {
  int64_t* memory = NULL;
  MPI_Win win;
  MPI_Datatype word; /* not predefined */
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  rounds = size == 2 ? 20000 : 1000; /* more ranks than cores take turns */
  MPI_Type_contiguous(1, MPI_INT64_T, &word);
  MPI_Type_commit(&word);
  MPI_Win_allocate(WORDS * 8, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
  for (int i = 0; i < WORDS; ++i) memory[i] = 0;
  MPI_Win_sync(win);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, win);
  test_flags(win, word);
  test_sums(win, word);
  test_mutex(win);
  MPI_Win_unlock_all(win);
  MPI_Win_free(&win);
  MPI_Type_free(&word);
  MPI_Finalize();
  return 0;
}
