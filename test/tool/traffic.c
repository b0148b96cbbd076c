// SPDX-License-Identifier: BSD-3-Clause
// Readers of all variables in random order under traffic: one in the thread that communicates, one in a
// thread of its own; totals of known traffic are exact. usage: traffic [seconds] [seed]
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tool/expect.h"

enum { kMessages = 2000, kMostVariables = 1024, kMostRanks = 64 };
static atomic_int done;
static atomic_ullong reads;

struct Reader {
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handles[kMostVariables];
  int totals[kMostVariables];
  unsigned long long last[kMostVariables];
  int count;
  unsigned random;
};

static unsigned draw(struct Reader* reader, unsigned below) {
  reader->random = reader->random * 1664525u + 1013904223u;
  return (reader->random >> 8) % below;
}

static void open_reader(struct Reader* reader, unsigned seed) {
  memset(reader, 0, sizeof *reader);
  reader->random = seed;
  int num = 0;
  OK(MPI_T_pvar_get_num(&num));
  OK(MPI_T_pvar_session_create(&reader->session));
  for (int i = 0; i < num && i < kMostVariables; ++i) {
    int bind, continuous;
    MPI_Comm world = MPI_COMM_WORLD;
    OK(MPI_T_pvar_get_info(i, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &bind, NULL, &continuous,
                           NULL));
    if (bind != MPI_T_BIND_NO_OBJECT && bind != MPI_T_BIND_MPI_COMM) continue;
    int count = 0;
    OK(MPI_T_pvar_handle_alloc(reader->session, i, &world, &reader->handles[reader->count], &count));
    EXPECT(count >= 1 && count <= kMostRanks);
    reader->totals[reader->count++] = !continuous;
  }
  OK(MPI_T_pvar_start(reader->session, MPI_T_PVAR_ALL_HANDLES));
}

/// Reads, resets, stops and starts a variable that is drawn. A total never decreases between two resets.
static void step(struct Reader* reader) {
  const int i = (int)draw(reader, (unsigned)reader->count);
  MPI_T_pvar_handle handle = reader->handles[i];
  unsigned long long values[kMostRanks] = {0}, value = 0;
  const unsigned action = draw(reader, 16);
  if (action == 0 && reader->totals[i]) {
    OK(MPI_T_pvar_readreset(reader->session, handle, &value));
    EXPECT(value >= reader->last[i]);
    reader->last[i] = 0;
  } else if (action == 1 && reader->totals[i]) {
    OK(MPI_T_pvar_stop(reader->session, handle));
    unsigned long long again = 1;
    OK(MPI_T_pvar_read(reader->session, handle, &value));
    OK(MPI_T_pvar_read(reader->session, handle, &again));
    EXPECT(value == again && value >= reader->last[i]);
    reader->last[i] = value;
    OK(MPI_T_pvar_start(reader->session, handle));
  } else {
    OK(MPI_T_pvar_read(reader->session, handle, values));
    value = values[0];
    if (reader->totals[i]) EXPECT(value >= reader->last[i]);
    reader->last[i] = value;
  }
  atomic_fetch_add(&reads, 1);
}

static void* read_in_thread(void* seed) {
  struct Reader reader;
  open_reader(&reader, *(unsigned*)seed);
  const struct timespec pause = {0, 20000};
  while (!atomic_load(&done)) {
    for (int i = 0; i < 50; ++i) step(&reader);
    nanosleep(&pause, NULL);
  }
  OK(MPI_T_pvar_session_free(&reader.session));
  return NULL;
}

/// A callback beside the readers: it reads a variable and the time itself, under the locks of MPI.
static struct {
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handle;
  MPI_Count last;
  int calls;
} matches;
static void on_match(MPI_T_event_instance instance, MPI_T_event_registration registration,
                     MPI_T_cb_safety safety, void* user_data) {
  (void)registration, (void)user_data;
  MPI_Count time = 0;
  unsigned long long value = 0;
  EXPECT(safety == MPI_T_CB_REQUIRE_THREAD_SAFE);
  OK(MPI_T_event_get_timestamp(instance, &time));
  OK(MPI_T_pvar_read(matches.session, matches.handle, &value));
  EXPECT(time >= matches.last);
  matches.last = time;
  ++matches.calls;
}

static unsigned long long total(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  unsigned long long value = 0;
  OK(MPI_T_pvar_read(session, handle, &value));
  return value;
}

/// Messages of 64 bytes and of 256 KiB to the next rank; counts of both paths.
static void check_known_traffic(int rank, int size) {
  static char out[1 << 18], in[1 << 18];
  MPI_T_pvar_session session;
  MPI_T_pvar_handle messages, bytes, unexpected, high, of_comm;
  MPI_Comm comm;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_T_pvar_session_create(&session));
  OK(MPI_T_pvar_handle_alloc(session, pvar_index("p2p.eager_messages", MPI_T_PVAR_CLASS_COUNTER), NULL,
                             &messages, NULL));
  OK(MPI_T_pvar_handle_alloc(session, pvar_index("p2p.eager_bytes", MPI_T_PVAR_CLASS_AGGREGATE), NULL, &bytes,
                             NULL));
  OK(MPI_T_pvar_handle_alloc(session, pvar_index("p2p.unexpected_messages", MPI_T_PVAR_CLASS_LEVEL), NULL,
                             &unexpected, NULL));
  OK(MPI_T_pvar_handle_alloc(session,
                             pvar_index("p2p.unexpected_messages_high_water", MPI_T_PVAR_CLASS_HIGHWATERMARK),
                             NULL, &high, NULL));
  OK(MPI_T_pvar_handle_alloc(session, pvar_index("communicator.unexpected_messages", MPI_T_PVAR_CLASS_LEVEL),
                             &comm, &of_comm, NULL));
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
  for (int i = 0; i < kMessages; ++i)
    OK(MPI_Sendrecv(out, 64, MPI_BYTE, next, 1, in, 64, MPI_BYTE, previous, 1, comm, MPI_STATUS_IGNORE));
  OK(MPI_T_pvar_stop(session, messages));
  OK(MPI_T_pvar_stop(session, bytes));
  const unsigned long long sent = size == 1 ? 0 : kMessages;  // to itself: not by the eager protocol
  EXPECT(total(session, messages) == sent && total(session, bytes) == 64 * sent);
  OK(MPI_Sendrecv(out, 1 << 18, MPI_BYTE, next, 1, in, 1 << 18, MPI_BYTE, previous, 1, comm,
                  MPI_STATUS_IGNORE));
  EXPECT(total(session, messages) == sent);
  // 100 unexpected messages.
  OK(MPI_Barrier(MPI_COMM_WORLD));
  for (int i = 0; i < 100; ++i) OK(MPI_Send(out, 8, MPI_BYTE, next, 2 + i, comm));
  OK(MPI_Send(out, 8, MPI_BYTE, next, 1000, MPI_COMM_WORLD));
  OK(MPI_Probe(previous, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT(total(session, of_comm) == 100);
  EXPECT(total(session, unexpected) >= 101 && total(session, high) >= 101);
  for (int i = 99; i >= 0; --i) OK(MPI_Recv(in, 8, MPI_BYTE, previous, 2 + i, comm, MPI_STATUS_IGNORE));
  OK(MPI_Recv(in, 8, MPI_BYTE, previous, 1000, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  EXPECT(total(session, of_comm) == 0 && total(session, high) >= 101);
  MPI_Request request;
  OK(MPI_Irecv(in, 8, MPI_BYTE, previous, 9, comm, &request));
  MPI_T_pvar_handle posted;
  OK(MPI_T_pvar_handle_alloc(session, pvar_index("communicator.posted_receives", MPI_T_PVAR_CLASS_LEVEL),
                             &comm, &posted, NULL));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  EXPECT(total(session, posted) == 1);
  OK(MPI_Barrier(MPI_COMM_WORLD));
  OK(MPI_Send(out, 8, MPI_BYTE, next, 9, comm));
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  EXPECT(total(session, posted) == 0);
  OK(MPI_Comm_free(&comm));
  unsigned long long value;
  FAILS(MPI_T_pvar_read(session, posted, &value), MPI_T_ERR_INVALID_HANDLE);
  OK(MPI_T_pvar_session_free(&session));
}

/// Rank 0 sends known messages to each other rank; all counts by peer.
static void check_peers(int rank, int size) {
  enum { kRounds = 10, kBytes = 1000, kLarge = 1 << 20 };
  static char buffer[kLarge];
  const char* const names[] = {"communicator.peer_messages_sent", "communicator.peer_messages_received",
                               "communicator.peer_bytes_sent", "communicator.peer_bytes_received"};
  const int classes[] = {MPI_T_PVAR_CLASS_COUNTER, MPI_T_PVAR_CLASS_COUNTER, MPI_T_PVAR_CLASS_AGGREGATE,
                         MPI_T_PVAR_CLASS_AGGREGATE};
  unsigned long long before[4][kMostRanks], after[4][kMostRanks];
  MPI_Comm comm;
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handles[4];
  OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comm));  // the reverse order
  const int own = size - 1 - rank;
  OK(MPI_T_pvar_session_create(&session));
  for (int i = 0; i < 4; ++i) {
    int count = 0;
    OK(MPI_T_pvar_handle_alloc(session, pvar_index(names[i], classes[i]), &comm, &handles[i], &count));
    EXPECT(count == size);
    FAILS(MPI_T_pvar_reset(session, handles[i]), MPI_T_ERR_PVAR_NO_WRITE);
    OK(MPI_T_pvar_read(session, handles[i], before[i]));
  }
  OK(MPI_Barrier(comm));  // no message of another rank comes before its counter is read here
  OK(MPI_T_pvar_read(session, handles[0], before[0]));
  OK(MPI_T_pvar_read(session, handles[2], before[2]));
  for (int round = 0; round < kRounds; ++round)
    for (int to = 1; to < size; ++to) {
      const int bytes = round == 0 ? kLarge : kBytes;
      if (own == 0) OK(MPI_Send(buffer, bytes, MPI_BYTE, to, 5, comm));
      if (own == to) OK(MPI_Recv(buffer, bytes, MPI_BYTE, 0, 5, comm, MPI_STATUS_IGNORE));
    }
  for (int i = 0; i < 4; ++i) OK(MPI_T_pvar_read(session, handles[i], after[i]));
  for (int peer = 0; peer < size; ++peer) {
    const int sends = own == 0 && peer != 0, receives = own != 0 && peer == 0;
    EXPECT(after[0][peer] - before[0][peer] == (unsigned)(sends * kRounds));
    // With messages of the barrier.
    const unsigned long long received = after[1][peer] - before[1][peer];
    EXPECT(received >= (unsigned)(receives * kRounds) && received <= (unsigned)(receives * kRounds) + 8);
    const unsigned bytes = (kRounds - 1) * kBytes + kLarge;
    EXPECT(after[2][peer] - before[2][peer] == sends * bytes);
    const unsigned long long received_bytes = after[3][peer] - before[3][peer];
    EXPECT(received_bytes >= receives * bytes && received_bytes <= receives * bytes + 64);
  }
  OK(MPI_T_pvar_session_free(&session));
  OK(MPI_Comm_free(&comm));
}

/// Waits for a late sender, a late receiver and a late rank of a collective, 30 ms each.
static void check_wait_times(int rank, int size) {
  const char* const names[] = {"p2p.late_sender_time", "p2p.late_receiver_time", "coll.wait_time"};
  const struct timespec late = {0, 30000000};
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handles[3];
  char byte = 0;
  if (size < 2) return;
  OK(MPI_T_pvar_session_create(&session));
  for (int i = 0; i < 3; ++i)
    OK(MPI_T_pvar_handle_alloc(session, pvar_index(names[i], MPI_T_PVAR_CLASS_TIMER), NULL, &handles[i],
                               NULL));
  for (int i = 0, tries = 0; i < 3; ++tries) {
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_T_pvar_reset(session, handles[i]));
    OK(MPI_T_pvar_start(session, handles[i]));
    if (rank == 1) nanosleep(&late, NULL);
    if (i == 0 && rank == 0) OK(MPI_Recv(&byte, 1, MPI_BYTE, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (i == 0 && rank == 1) OK(MPI_Send(&byte, 1, MPI_BYTE, 0, 7, MPI_COMM_WORLD));
    if (i == 1 && rank == 0) OK(MPI_Ssend(&byte, 1, MPI_BYTE, 1, 7, MPI_COMM_WORLD));
    if (i == 1 && rank == 1) OK(MPI_Recv(&byte, 1, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (i == 2) OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_T_pvar_stop(session, handles[i]));
    int waited = total(session, handles[i]) > 15000000;
    OK(MPI_Bcast(&waited, 1, MPI_INT, 0, MPI_COMM_WORLD));
    EXPECT(waited || tries < 20);  // on a busy machine rank 0 may be late itself
    i += waited;
  }
  OK(MPI_T_pvar_session_free(&session));
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 0.3;
  unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
  int level = 0, rank = 0, size = 0;
  OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &level));
  OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
  EXPECT(level == MPI_THREAD_MULTIPLE);
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
  check_known_traffic(rank, size);
  check_peers(rank, size);
  check_wait_times(rank, size);
  static struct Reader reader;
  static int out[1 << 16], in[1 << 16];
  seed += (unsigned)rank;
  open_reader(&reader, seed);
  MPI_Comm world = MPI_COMM_WORLD;
  MPI_T_event_registration registration;
  OK(MPI_T_pvar_session_create(&matches.session));
  OK(MPI_T_pvar_handle_alloc(matches.session, pvar_index("p2p.unexpected_messages", MPI_T_PVAR_CLASS_LEVEL),
                             NULL, &matches.handle, NULL));
  OK(MPI_T_event_handle_alloc(event_index("p2p.message_matched"), &world, MPI_INFO_NULL, &registration));
  OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, NULL,
                                   on_match));
  int rounds = 0;
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, read_in_thread, &seed) == 0);
  const double end = MPI_Wtime() + seconds;
  for (int go = 1; go;) {
    const int count = 1 << draw(&reader, 16), next = (rank + 1) % size, previous = (rank + size - 1) % size;
    MPI_Request requests[2];
    OK(MPI_Irecv(in, 1 << 16, MPI_INT, previous, 3, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(out, count, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[1]));
    for (int i = 0; i < 20; ++i) step(&reader);
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    ++rounds;
    go = MPI_Wtime() < end;
    OK(MPI_Allreduce(MPI_IN_PLACE, &go, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD));
  }
  atomic_store(&done, 1);
  EXPECT(pthread_join(thread, NULL) == 0);
  EXPECT(atomic_load(&reads) > 200 && matches.calls >= rounds);
  OK(MPI_T_event_handle_free(registration, NULL, NULL));
  OK(MPI_T_pvar_session_free(&matches.session));
  OK(MPI_T_pvar_session_free(&reader.session));
  OK(MPI_Finalize());
  OK(MPI_T_finalize());
  return 0;
}
