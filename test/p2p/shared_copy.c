/* SPDX-License-Identifier: BSD-3-Clause */
/* Large messages that receiver and sender copy together: every size and alignment, a sender that waits,
 * computes, receives itself or is stopped at any point, and memory that one of the two cannot reach in the
 * other. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../core/expect.h"
#include "../helpers.h"

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

enum { CAPACITY = 4 << 20, TAG = 1, WINDOW = 12, TRIES = 300 };
static int rank, peer;
static unsigned char *out, *in;

static unsigned char byte_at(int from, size_t i, unsigned salt) {
  return (unsigned char)((unsigned)from * 37 + i * 11 + (i >> 8) + salt);
}

static void fill(unsigned char* data, size_t n, unsigned salt) {
  for (size_t i = 0; i < n; ++i) data[i] = byte_at(rank, i, salt);
}

static void check(const unsigned char* data, size_t n, unsigned salt) {
  for (size_t i = 0; i < n; ++i)
    if (data[i] != byte_at(peer, i, salt)) {
      fail(__FILE__, __LINE__, "received byte", data[i], byte_at(peer, i, salt));
      fprintf(stderr, "  at %zu of %zu, salt %u\n", i, n, salt);
      return;
    }
}

/* Bytes that this process has copied as a sender. */
static unsigned long helped(void) {
  static MPI_T_pvar_session session;
  static MPI_T_pvar_handle handle;
  static int open;
  int index, elements, provided;
  unsigned long value = 0;
  if (!open++) {
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    CALL(MPI_T_pvar_session_create(&session));
    CALL(MPI_T_pvar_get_index("p2p.helped_bytes", MPI_T_PVAR_CLASS_AGGREGATE, &index));
    CALL(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &elements));
    CALL(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
  }
  CALL(MPI_T_pvar_read(session, handle, &value));
  return value;
}

/* Rank 0 sends; rank 1 checks the message and the byte behind it. */
static void one_way(const unsigned char* from, unsigned char* to, int n, unsigned salt) {
  if (rank == 0) {
    CALL(MPI_Send(from, n, MPI_BYTE, 1, TAG, MPI_COMM_WORLD));
    return;
  }
  MPI_Status status;
  int count = -1;
  CALL(MPI_Recv(to, n, MPI_BYTE, 0, TAG, MPI_COMM_WORLD, &status));
  CALL(MPI_Get_count(&status, MPI_BYTE, &count));
  EXPECT_EQ(count, n);
  check(to, (size_t)n, salt);
}

static void every_size(void) {
  static const int sizes[] = {65535,  65536,  65537,   131072,      131073,
                              300001, 524288, 1048576, 1048576 + 9, CAPACITY - 64};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    for (unsigned shift = 0; shift < 3; ++shift) {
      const int n = sizes[i];
      fill(out + shift, (size_t)n, shift);
      memset(in, 0xee, CAPACITY);
      one_way(out + shift, in + 7 * shift, n, shift);
      if (rank == 1) EXPECT_EQ(in[7 * shift + (unsigned)n], 0xee);
    }
}

/* A sender that waits has copied a part of at least one message, unless ranks outnumber cores. */
static void waiting_sender(void) {
  const unsigned long before = helped();
  unsigned long copied = 0;
  for (unsigned i = 0, going = 1; going != 0; ++i) {
    fill(out, CAPACITY, i);
    one_way(out, in, CAPACITY, i);
    copied = helped() - before;
    going = rank == 0 && copied == 0 && i < TRIES;
    MPI_Bcast(&going, 1, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
  }
  if (rank == 0 && sysconf(_SC_NPROCESSORS_ONLN) > 1) EXPECT_EQ(copied > 0, 1);
}

/* Windows in both directions; one rank computes before it waits. */
static void both_ways(void) {
  enum { BYTES = 150000 };
  MPI_Request requests[2 * WINDOW];
  for (unsigned round = 0; round < 30; ++round) {
    fill(out, (size_t)WINDOW * BYTES, round);
    memset(in, 0, (size_t)WINDOW * BYTES);
    for (int i = 0; i < WINDOW; ++i)
      CALL(MPI_Irecv(in + i * BYTES, BYTES, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[i]));
    for (int i = 0; i < WINDOW; ++i)
      CALL(MPI_Isend(out + i * BYTES, BYTES, MPI_BYTE, peer, TAG, MPI_COMM_WORLD, &requests[WINDOW + i]));
    if (round % 3 == (unsigned)rank) compute(0.0002 * random_below(10));
    CALL(MPI_Waitall(2 * WINDOW, requests, MPI_STATUSES_IGNORE));
    check(in, (size_t)WINDOW * BYTES, round);
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/* Stops and continues the sender at any point of its copies. */
static void stopped_sender(void) {
  int sender = (int)getpid();
  MPI_Bcast(&sender, 1, MPI_INT, 0, MPI_COMM_WORLD);
  pid_t stopper = -1;
  if (rank == 1) {
    stopper = fork();
    if (stopper == 0) {
      for (int i = 0; i < 200; ++i) {
        kill(sender, SIGSTOP);
        usleep(random_below(1000));
        kill(sender, SIGCONT);
        usleep(random_below(2000));
      }
      _exit(0);
    }
    EXPECT_EQ(stopper > 0, 1);
  }
  for (unsigned i = 0, going = 1; going != 0; ++i) {
    const int n = 65536 + (int)random_below(1 << 20);  // the same on both ranks
    fill(out, (size_t)n, i);
    one_way(out, in, n, i);
    if (rank == 1) going = waitpid(stopper, NULL, WNOHANG) == 0;
    MPI_Bcast(&going, 1, MPI_UNSIGNED, 1, MPI_COMM_WORLD);
  }
}

/* Memory that no other process can read or write. Returns null if the kernel has none. */
static unsigned char* secret_memory(size_t bytes) {
  const int file = (int)syscall(SYS_memfd_secret, 0);
  if (file < 0 || ftruncate(file, (off_t)bytes) != 0) return NULL;
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? NULL : memory;
}

/* Neither side's failure to copy is an error: the receiver copies alone, or the message goes through shared
 * memory. */
static void refused(void) {
  unsigned char* const secret = secret_memory(CAPACITY);
  int both = secret != NULL;
  MPI_Allreduce(MPI_IN_PLACE, &both, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (!both) {
    if (rank == 0) printf("no memfd_secret: refusals are not tested\n");
    return;
  }
  for (unsigned i = 0; i < 40; ++i) {
    const int n = 65536 << i % 6;
    fill(out, (size_t)n, i);
    memset(in, 0, (size_t)n);
    one_way(out, secret, n, i);  // the sender is refused
    fill(secret, (size_t)n, i + 1);
    one_way(secret, in, n, i + 1);  // the receiver is refused
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  peer = 1 - rank;
  out = malloc(CAPACITY);
  in = malloc(CAPACITY);
  if (out == NULL || in == NULL) MPI_Abort(MPI_COMM_WORLD, 3);
  every_size();
  waiting_sender();
  both_ways();
  stopped_sender();
  refused();
  free(out);
  free(in);
  MPI_Finalize();
  return failures != 0;
}
