// SPDX-License-Identifier: BSD-3-Clause
// Sessions: several cycles with and without the world model, before MPI_Init and after MPI_Finalize; process
// sets, communicators, error handlers, buffers. argv[1]: only | around_world | partial.
#include <stdlib.h>

#include "../core/expect.h"

static int handled, handled_code;
static MPI_Session handled_session;

static void on_error(MPI_Session* session, int* code, ...) {
  ++handled;
  handled_session = *session;
  handled_code = *code;
}

static MPI_Session open_session(const char* level) {
  MPI_Session session = MPI_SESSION_NULL;
  MPI_Info info = MPI_INFO_NULL;
  if (level != NULL) {
    CALL(MPI_Info_create(&info));
    CALL(MPI_Info_set(info, "thread_level", level));
  }
  CALL(MPI_Session_init(info, MPI_ERRORS_RETURN, &session));
  if (level != NULL) CALL(MPI_Info_free(&info));
  return session;
}

static MPI_Comm comm_of(MPI_Session session, const char* set, const char* tag) {
  MPI_Group group;
  MPI_Comm comm = MPI_COMM_NULL;
  CALL(MPI_Group_from_session_pset(session, set, &group));
  CALL(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
  CALL(MPI_Group_free(&group));
  return comm;
}

static void info_and_sets(MPI_Session session, const char* level) {
  MPI_Info info;
  char text[MPI_MAX_INFO_VAL], name[MPI_MAX_PSET_NAME_LEN];
  int count = 0, found = 0, length = sizeof text, world = 0;
  CALL(MPI_Session_get_info(session, &info));
  CALL(MPI_Info_get_string(info, "thread_level", &length, text, &found));
  EXPECT_EQ(found, 1);
  EXPECT_TEXT(text, level);
  length = sizeof text;
  CALL(MPI_Info_get_string(info, "mpi_memory_alloc_kinds", &length, text, &found));
  EXPECT_EQ(found, 1);
  EXPECT_EQ(strncmp(text, "system,mpi", 10), 0);
  CALL(MPI_Info_free(&info));

  CALL(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &count));
  EXPECT_EQ(count, 3);
  for (int n = 0; n < count; ++n) {
    int needed = 0, group_size, set_size;
    MPI_Group group;
    CALL(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &needed, NULL));
    length = needed;
    CALL(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, n, &length, name));
    EXPECT_EQ(length, needed);
    EXPECT_EQ((int)strlen(name) + 1, needed);
    world |= strcmp(name, "mpi://WORLD") == 0;
    CALL(MPI_Session_get_pset_info(session, name, &info));
    length = sizeof text;
    CALL(MPI_Info_get_string(info, "mpi_size", &length, text, &found));
    set_size = found ? atoi(text) : -1;
    CALL(MPI_Info_free(&info));
    CALL(MPI_Group_from_session_pset(session, name, &group));
    CALL(MPI_Group_size(group, &group_size));
    EXPECT_EQ(group_size, set_size);
    CALL(MPI_Group_free(&group));
  }
  EXPECT_EQ(world, 1);
  length = 5;
  CALL(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, &length, name));
  EXPECT_TEXT(name, "mpi:");
}

static void errors(MPI_Session session) {
  MPI_Session null = MPI_SESSION_NULL, handler_session;
  MPI_Group group;
  MPI_Info info;
  MPI_Errhandler handler, other;
  int count, length = 0;
  handled = 0;
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Group_from_session_pset(session, "mpi://NOBODY", &group));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Session_get_pset_info(session, "", &info));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 3, &length, NULL));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Session_get_nth_pset(session, MPI_INFO_NULL, -1, &length, NULL));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Session_get_num_psets(session, MPI_INFO_NULL, NULL));

  CALL(MPI_Session_create_errhandler(on_error, &handler));
  CALL(MPI_Session_set_errhandler(session, handler));
  EXPECT_ERROR(MPI_ERR_ARG, MPI_Session_get_pset_info(session, "mpi://NOBODY", &info));
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(handled_session == session, 1);
  EXPECT_ERROR(MPI_ERR_ARG, handled_code);
  CALL(MPI_Session_call_errhandler(session, MPI_ERR_OTHER));
  EXPECT_EQ(handled, 2);
  EXPECT_EQ(handled_code, MPI_ERR_OTHER);
  CALL(MPI_Session_get_errhandler(session, &other));
  EXPECT_EQ(other == handler, 1);
  CALL(MPI_Errhandler_free(&other));
  CALL(MPI_Session_set_errhandler(session, MPI_ERRORS_RETURN));
  // MPI_Session_init takes an error handler for its own errors.
  CALL(MPI_Session_init(MPI_INFO_NULL, handler, &handler_session));
  CALL(MPI_Session_finalize(&handler_session));
  EXPECT_EQ(handler_session == MPI_SESSION_NULL, 1);
  CALL(MPI_Errhandler_free(&handler));
  // A communicator error handler is an error for a session.
  CALL(MPI_Comm_create_errhandler((MPI_Comm_errhandler_function*)on_error, &handler));
  EXPECT_ERROR(MPI_ERR_ERRHANDLER, MPI_Session_set_errhandler(session, handler));
  CALL(MPI_Errhandler_free(&handler));
  int flag = 0;
  MPI_Initialized(&flag);
  MPI_Finalized(&count);
  if (flag && !count) EXPECT_ERROR(MPI_ERR_SESSION, MPI_Session_finalize(&null));
}

static void exchange(MPI_Comm comm) {
  int rank, size, sum = 0, all, got = -1;
  MPI_Comm part;
  CALL(MPI_Comm_rank(comm, &rank));
  CALL(MPI_Comm_size(comm, &size));
  CALL(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
  EXPECT_EQ(sum, size * (size - 1) / 2);
  CALL(MPI_Comm_split(comm, rank % 2, 0, &part));
  CALL(MPI_Comm_size(part, &all));
  EXPECT_EQ(all, (size + 1 - rank % 2) / 2);
  CALL(MPI_Comm_free(&part));
  CALL(MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 3, &got, 1, MPI_INT, (rank + size - 1) % size, 3,
                    comm, MPI_STATUS_IGNORE));
  EXPECT_EQ(got, (rank + size - 1) % size);
}

/// Two sessions with one communicator each; odd ranks finalize them in the opposite order.
static void cycle(int n) {
  MPI_Session first = open_session("MPI_THREAD_SINGLE"), second = open_session(NULL);
  char tag[64];
  snprintf(tag, sizeof tag, "cycle %d", n);
  info_and_sets(first, "MPI_THREAD_SINGLE");
  info_and_sets(second, "MPI_THREAD_MULTIPLE");
  errors(first);
  MPI_Comm self = comm_of(first, "mpi://SELF", tag), world = comm_of(second, "mpi://WORLD", tag);
  int rank, size;
  CALL(MPI_Comm_size(self, &size));
  EXPECT_EQ(size, 1);
  exchange(self);
  exchange(world);
  CALL(MPI_Comm_rank(world, &rank));
  CALL(MPI_Comm_disconnect(&self));
  CALL(MPI_Comm_free(&world));
  CALL(MPI_Session_finalize(rank % 2 == 0 ? &first : &second));
  CALL(MPI_Session_finalize(rank % 2 == 0 ? &second : &first));
}

/// Buffers of sessions and communicators have separate capacity.
static void buffers(void) {
  static char mine[1000 + MPI_BSEND_OVERHEAD], of_comm[100 + MPI_BSEND_OVERHEAD];
  char out[1000] = "buffered", in[1000];
  MPI_Session session = open_session(NULL);
  MPI_Comm comm = comm_of(session, "mpi://WORLD", "buffers"), dup;
  MPI_Request flush, receive;
  void* address;
  int size = 0, rank, ranks;
  CALL(MPI_Comm_rank(comm, &rank));
  CALL(MPI_Comm_size(comm, &ranks));
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  CALL(MPI_Comm_dup(comm, &dup));
  EXPECT_ERROR(MPI_ERR_BUFFER, MPI_Bsend(out, 1, MPI_CHAR, to, 0, comm));
  CALL(MPI_Session_attach_buffer(session, mine, sizeof mine));
  EXPECT_ERROR(MPI_ERR_BUFFER, MPI_Session_attach_buffer(session, mine, sizeof mine));
  CALL(MPI_Comm_attach_buffer(dup, of_comm, sizeof of_comm));
  EXPECT_ERROR(MPI_ERR_BUFFER, MPI_Bsend(out, 1000, MPI_CHAR, to, 0, dup));
  CALL(MPI_Bsend(out, 1000, MPI_CHAR, to, 0, comm));
  CALL(MPI_Bsend(out, 100, MPI_CHAR, to, 1, dup));
  CALL(MPI_Session_iflush_buffer(session, &flush));
  CALL(MPI_Irecv(in, 1000, MPI_CHAR, from, 0, comm, &receive));
  CALL(MPI_Recv(in, 100, MPI_CHAR, from, 1, dup, MPI_STATUS_IGNORE));
  CALL(MPI_Wait(&flush, MPI_STATUS_IGNORE));
  CALL(MPI_Wait(&receive, MPI_STATUS_IGNORE));
  EXPECT_TEXT(in, "buffered");
  CALL(MPI_Comm_iflush_buffer(dup, &flush));
  CALL(MPI_Wait(&flush, MPI_STATUS_IGNORE));
  CALL(MPI_Comm_flush_buffer(dup));
  CALL(MPI_Session_flush_buffer(session));
  CALL(MPI_Comm_detach_buffer(dup, &address, &size));
  EXPECT_EQ(address == of_comm, 1);
  EXPECT_EQ(size, sizeof of_comm);
  EXPECT_ERROR(MPI_ERR_BUFFER, MPI_Comm_detach_buffer(dup, &address, &size));
  CALL(MPI_Bsend(out, 100, MPI_CHAR, to, 2, dup));  // uses the buffer of the session
  CALL(MPI_Recv(in, 100, MPI_CHAR, from, 2, dup, MPI_STATUS_IGNORE));
  CALL(MPI_Session_detach_buffer(session, &address, &size));
  EXPECT_EQ(address == mine, 1);
  EXPECT_EQ(size, sizeof mine);

  CALL(MPI_Comm_attach_buffer(dup, MPI_BUFFER_AUTOMATIC, 0));
  for (int n = 0; n < 100; ++n) CALL(MPI_Bsend(out, 1000, MPI_CHAR, to, n, dup));
  CALL(MPI_Comm_iflush_buffer(dup, &flush));
  for (int n = 0; n < 100; ++n) CALL(MPI_Recv(in, 1000, MPI_CHAR, from, n, dup, MPI_STATUS_IGNORE));
  CALL(MPI_Wait(&flush, MPI_STATUS_IGNORE));
  CALL(MPI_Comm_detach_buffer(dup, &address, &size));
  EXPECT_EQ(address == MPI_BUFFER_AUTOMATIC, 1);
  CALL(MPI_Comm_attach_buffer(dup, of_comm, sizeof of_comm));
  CALL(MPI_Comm_disconnect(&dup));  // detaches the buffer
  CALL(MPI_Comm_disconnect(&comm));
  CALL(MPI_Session_finalize(&session));
}

/// A session that is finalized in a delete callback of an attribute of MPI_COMM_SELF, as libraries do.
static MPI_Session kept;
static int finalize_kept(MPI_Comm comm, int key, void* value, void* extra) {
  (void)comm, (void)key, (void)value, (void)extra;
  return MPI_Session_finalize(&kept);
}

static void around_world(int* argc, char*** argv) {
  int flag = 1, key, provided;
  MPI_Session outer = open_session(NULL);
  MPI_Initialized(&flag);
  EXPECT_EQ(flag, 0);
  CALL(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided));
  EXPECT_EQ(provided, MPI_THREAD_FUNNELED);
  CALL(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  exchange(MPI_COMM_WORLD);
  cycle(1);
  kept = open_session(NULL);
  CALL(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize_kept, &key, NULL));
  CALL(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL));
  MPI_Comm comm = comm_of(outer, "mpi://WORLD", "outer");
  CALL(MPI_Finalize());
  EXPECT_EQ(kept == MPI_SESSION_NULL, 1);
  MPI_Finalized(&flag);
  EXPECT_EQ(flag, 1);
  exchange(comm);
  CALL(MPI_Comm_free(&comm));
  CALL(MPI_Session_finalize(&outer));
}

/// Half of the processes open sessions and communicate only with themselves; the others open no session.
static void partial(void) {
  for (int n = 0; n < 3; ++n) {
    MPI_Session session = open_session(NULL);
    MPI_Comm self = comm_of(session, "mpi://self", "self");
    exchange(self);
    CALL(MPI_Comm_free(&self));
    CALL(MPI_Session_finalize(&session));
  }
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "only";
  const char* rank = getenv("PMI_RANK");
  if (strcmp(what, "only") == 0) {
    for (int n = 0; n < 3; ++n) cycle(n);
    buffers();
  } else if (strcmp(what, "around_world") == 0) {
    around_world(&argc, &argv);
    cycle(2);
    buffers();
  } else if (rank == NULL || atoi(rank) % 2 == 0) {
    partial();
  }
  return failures != 0;
}
