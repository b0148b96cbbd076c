// SPDX-License-Identifier: BSD-3-Clause
// Totals of known traffic: messages by distance and order, operations on windows, accesses to files.
#include <unistd.h>

#include "tool/expect.h"

/// Counters of known names: values, and their increase since the last reading.
struct Counts {
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handles[24];
  const char* names[24];
  unsigned long long last[24], since[24];
  int count;
};

/// The class says which variables have bytes. `object`: the address of a handle, or null.
static void watch(struct Counts* counts, const char* name, void* object) {
  const int class = strstr(name, "bytes") != NULL ? MPI_T_PVAR_CLASS_AGGREGATE : MPI_T_PVAR_CLASS_COUNTER;
  if (counts->count == 0) OK(MPI_T_pvar_session_create(&counts->session));
  const int i = counts->count++;
  counts->names[i] = name;
  OK(MPI_T_pvar_handle_alloc(counts->session, pvar_index(name, class), object, &counts->handles[i], NULL));
}

static void read_counts(struct Counts* counts) {
  for (int i = 0; i < counts->count; ++i) {
    unsigned long long now = 0;
    OK(MPI_T_pvar_read(counts->session, counts->handles[i], &now));
    counts->since[i] = now - counts->last[i];
    counts->last[i] = now;
  }
}

static void begin_counts(struct Counts* counts) {
  OK(MPI_T_pvar_start(counts->session, MPI_T_PVAR_ALL_HANDLES));
  read_counts(counts);
}

static unsigned long long since(const struct Counts* counts, const char* name) {
  for (int i = 0; i < counts->count; ++i)
    if (strcmp(counts->names[i], name) == 0) return counts->since[i];
  EXPECT(!"a watched counter");
  return 0;
}

/// Messages to the next rank, by distance and by the order of message and receive.
static void check_totals(int rank, int size) {
  enum { kPosted = 40, kEarly = 30, kBytes = 100, kBarriers = 40 };  // a barrier sends a few messages at most
  static const char* const names[] = {
      "p2p.sent_messages",   "p2p.sent_bytes",         "p2p.received_messages",   "p2p.received_bytes",
      "p2p.self_messages",   "p2p.self_bytes",         "shm.sent_messages",       "shm.sent_bytes",
      "net.sent_messages",   "net.sent_bytes",         "shm.received_messages",   "net.received_messages",
      "p2p.posted_matches",  "p2p.unexpected_matches", "p2p.unexpected_arrivals", "p2p.host_sent_messages",
      "p2p.host_sent_bytes",
  };
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  static char out[kBytes], in[kPosted][kBytes];
  struct Counts counts = {0};
  MPI_Request requests[kPosted];
  MPI_Comm host;
  OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
  MPI_Group world, here;
  OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
  OK(MPI_Comm_group(host, &here));
  int there = 0;
  OK(MPI_Group_translate_ranks(world, 1, &next, here, &there));
  const int of_host = there != MPI_UNDEFINED;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) watch(&counts, names[i], NULL);
  begin_counts(&counts);
  for (int i = 0; i < kPosted; ++i)
    OK(MPI_Irecv(in[i], kBytes, MPI_BYTE, previous, 20, MPI_COMM_WORLD, &requests[i]));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  for (int i = 0; i < kPosted; ++i) OK(MPI_Send(out, kBytes, MPI_BYTE, next, 20, MPI_COMM_WORLD));
  OK(MPI_Waitall(kPosted, requests, MPI_STATUSES_IGNORE));
  for (int i = 0; i < kEarly; ++i) OK(MPI_Send(out, kBytes, MPI_BYTE, next, 21, MPI_COMM_WORLD));
  OK(MPI_Send(out, 0, MPI_BYTE, next, 22, MPI_COMM_WORLD));
  OK(MPI_Recv(in[0], 0, MPI_BYTE, previous, 22, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  for (int i = 0; i < kEarly; ++i)
    OK(MPI_Recv(in[0], kBytes, MPI_BYTE, previous, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  read_counts(&counts);
  const unsigned long long messages = kPosted + kEarly + 1, bytes = (kPosted + kEarly) * kBytes;
#define WITHIN(name, wanted) \
  EXPECT(since(&counts, name) >= (wanted) && since(&counts, name) <= (wanted) + kBarriers)
  WITHIN("p2p.sent_messages", messages);
  WITHIN("p2p.received_messages", messages);
  EXPECT(since(&counts, "p2p.sent_bytes") >= bytes && since(&counts, "p2p.received_bytes") >= bytes);
  EXPECT(since(&counts, "p2p.unexpected_matches") >= kEarly);
  EXPECT(since(&counts, "p2p.posted_matches") >= kPosted);
  EXPECT(since(&counts, "p2p.received_messages") ==
         since(&counts, "p2p.posted_matches") + since(&counts, "p2p.unexpected_arrivals"));
  EXPECT(since(&counts, "p2p.sent_messages") == since(&counts, "p2p.self_messages") +
                                                    since(&counts, "shm.sent_messages") +
                                                    since(&counts, "net.sent_messages"));
  EXPECT(since(&counts, "p2p.sent_bytes") == since(&counts, "p2p.self_bytes") +
                                                 since(&counts, "shm.sent_bytes") +
                                                 since(&counts, "net.sent_bytes"));
  EXPECT(since(&counts, "p2p.host_sent_messages") ==
         since(&counts, "shm.sent_messages") + since(&counts, "net.sent_messages"));
  const char* const used = next == rank ? "p2p.self_bytes" : of_host ? "shm.sent_bytes" : "net.sent_bytes";
  EXPECT(since(&counts, used) >= bytes);
  if (next == rank) EXPECT(since(&counts, "p2p.self_bytes") == bytes);
  if (next != rank)
    EXPECT(since(&counts, "shm.received_messages") + since(&counts, "net.received_messages") >= messages);
  OK(MPI_T_pvar_session_free(&counts.session));
  OK(MPI_Group_free(&here));
  OK(MPI_Group_free(&world));
  OK(MPI_Comm_free(&host));
}

/// Operations on a window.
static void check_windows(int rank, int size) {
  static const char* const names[] = {"window.puts",
                                      "window.put_bytes",
                                      "window.gets",
                                      "window.get_bytes",
                                      "window.accumulates",
                                      "window.accumulate_bytes",
                                      "window.compare_and_swaps"};
  const int next = (rank + 1) % size;
  long words[4] = {0}, in[4] = {0}, one = 1, zero = 0;
  struct Counts counts = {0};
  MPI_Win win;
  OK(MPI_Win_create(words, sizeof words, sizeof *words, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) watch(&counts, names[i], NULL);
  OK(MPI_Win_lock_all(0, win));
  begin_counts(&counts);
  for (int i = 0; i < 3; ++i) OK(MPI_Put(in, 4, MPI_LONG, next, 0, 4, MPI_LONG, win));
  OK(MPI_Win_flush(next, win));
  for (int i = 0; i < 2; ++i) OK(MPI_Get(in, 2, MPI_LONG, next, 0, 2, MPI_LONG, win));
  OK(MPI_Win_flush(next, win));
  for (int i = 0; i < 5; ++i) OK(MPI_Accumulate(&one, 1, MPI_LONG, next, 0, 1, MPI_LONG, MPI_SUM, win));
  OK(MPI_Fetch_and_op(&one, in, MPI_LONG, next, 1, MPI_SUM, win));
  OK(MPI_Compare_and_swap(&one, &zero, in, MPI_LONG, next, 2, win));
  OK(MPI_Put(in, 1, MPI_LONG, MPI_PROC_NULL, 0, 1, MPI_LONG, win));
  read_counts(&counts);
  OK(MPI_Win_unlock_all(win));
  const unsigned long long wanted[] = {3, 3 * 32, 2, 2 * 16, 6, 6 * 8, 1};
  for (int i = 0; i < counts.count; ++i) EXPECT(counts.since[i] == wanted[i]);
  OK(MPI_T_pvar_session_free(&counts.session));
  OK(MPI_Win_free(&win));
}

/// Accesses to two files, each with counts of its own.
static void check_files(int rank) {
  static const char* const names[] = {"file.reads", "file.read_bytes", "file.writes", "file.written_bytes"};
  char text[100] = {0}, paths[2][64];
  struct Counts counts[2] = {{0}, {0}};
  MPI_File files[2];
  for (int i = 0; i < 2; ++i) {
    snprintf(paths[i], sizeof paths[i], "weft-tool-%d-%d-%d", (int)getpid(), rank, i);
    OK(MPI_File_open(MPI_COMM_SELF, paths[i], MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
                     MPI_INFO_NULL, &files[i]));
    for (size_t k = 0; k < sizeof names / sizeof *names; ++k) watch(&counts[i], names[k], &files[i]);
    begin_counts(&counts[i]);
  }
  OK(MPI_File_write_at(files[0], 0, text, 100, MPI_BYTE, MPI_STATUS_IGNORE));
  OK(MPI_File_write_at_all(files[0], 100, text, 50, MPI_BYTE, MPI_STATUS_IGNORE));
  OK(MPI_File_read_at(files[0], 0, text, 10, MPI_BYTE, MPI_STATUS_IGNORE));
  OK(MPI_File_read_at(files[1], 0, text, 10, MPI_BYTE, MPI_STATUS_IGNORE));
  const unsigned long long wanted[2][4] = {{1, 10, 2, 150}, {1, 10, 0, 0}};
  for (int i = 0; i < 2; ++i) {
    read_counts(&counts[i]);
    for (int k = 0; k < 4; ++k) EXPECT(counts[i].since[k] == wanted[i][k]);
    OK(MPI_File_close(&files[i]));
    unsigned long long value;
    FAILS(MPI_T_pvar_read(counts[i].session, counts[i].handles[0], &value), MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_T_pvar_session_free(&counts[i].session));
  }
}

int main(int argc, char** argv) {
  int level = 0, rank = 0, size = 0;
  OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
  OK(MPI_Init(&argc, &argv));
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
  check_totals(rank, size);
  check_windows(rank, size);
  check_files(rank);
  OK(MPI_Finalize());
  OK(MPI_T_finalize());
  return 0;
}
