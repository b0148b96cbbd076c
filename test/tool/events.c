// SPDX-License-Identifier: BSD-3-Clause
// Events of two ranks: callbacks of a communicator's messages and of protocols, values by reading and by
// copying, times, dropped events, functions that callbacks may not call, callbacks that are exchanged and
// removed.
#include <stddef.h>

#include "tool/expect.h"

static int rank;

struct Message {
  int source, tag;
  unsigned long long bytes;
  int channel, order;
};
static struct {
  int calls, by_tag[8];
  struct Message last;
  MPI_Count last_time;
  int not_accessible;
} seen;

static void on_message(MPI_T_event_instance instance, MPI_T_event_registration registration,
                       MPI_T_cb_safety safety, void* user_data) {
  (void)registration;
  EXPECT(user_data == &seen && safety == MPI_T_CB_REQUIRE_MPI_RESTRICTED);
  struct Message read;
  OK(MPI_T_event_read(instance, 0, &read.source));
  OK(MPI_T_event_read(instance, 1, &read.tag));
  OK(MPI_T_event_read(instance, 2, &read.bytes));
  OK(MPI_T_event_read(instance, 3, &read.channel));
  OK(MPI_T_event_read(instance, 4, &read.order));
  FAILS(MPI_T_event_read(instance, 5, &read), MPI_T_ERR_INVALID_INDEX);
  FAILS(MPI_T_event_read(instance, 0, NULL), MPI_T_ERR_INVALID);
  struct Message copied = {0};
  OK(MPI_T_event_copy(instance, &copied));  // the displacements are those of the struct: checked by main()
  EXPECT(copied.source == read.source && copied.tag == read.tag && copied.bytes == read.bytes);
  EXPECT(copied.channel == read.channel && copied.order == read.order);
  MPI_Count time = 0, now = 0;
  int source = -1;
  OK(MPI_T_event_get_timestamp(instance, &time));
  OK(MPI_T_event_get_source(instance, &source));
  OK(MPI_T_source_get_timestamp(source, &now));
  EXPECT(source == 0 && time >= seen.last_time && time <= now);
  seen.last_time = time;
  seen.last = read;
  ++seen.calls;
  if (read.tag >= 0 && read.tag < 8) ++seen.by_tag[read.tag];
  MPI_T_event_registration none;
  if (MPI_T_event_handle_alloc(0, NULL, MPI_INFO_NULL, &none) == MPI_T_ERR_NOT_ACCESSIBLE)
    ++seen.not_accessible;
}

static struct {
  int calls, protocol, tag;
  unsigned long long bytes;
} chosen;
static void on_protocol(MPI_T_event_instance instance, MPI_T_event_registration registration,
                        MPI_T_cb_safety safety, void* user_data) {
  (void)registration, (void)safety, (void)user_data;
  ++chosen.calls;
  OK(MPI_T_event_read(instance, 1, &chosen.tag));
  OK(MPI_T_event_read(instance, 2, &chosen.bytes));
  OK(MPI_T_event_read(instance, 3, &chosen.protocol));
}

static struct {
  int calls, variable;
  unsigned long long uses;
} slow;
static void on_slow_path(MPI_T_event_instance instance, MPI_T_event_registration registration,
                         MPI_T_cb_safety safety, void* user_data) {
  (void)registration, (void)safety, (void)user_data;
  ++slow.calls;
  OK(MPI_T_event_read(instance, 0, &slow.variable));
  OK(MPI_T_event_read(instance, 1, &slow.uses));
}

static MPI_Count dropped;
static void on_dropped(MPI_Count count, MPI_T_event_registration registration, int source,
                       MPI_T_cb_safety safety, void* user_data) {
  (void)registration, (void)safety, (void)user_data;
  EXPECT(count > 0 && source == 0);
  dropped += count;
}

static void on_free(MPI_T_event_registration registration, MPI_T_cb_safety safety, void* user_data) {
  (void)registration;
  EXPECT(safety == MPI_T_CB_REQUIRE_NONE);
  ++*(int*)user_data;
}

/// Rank 0 sends `count` ints to rank 1, which posts its receive first or after the message has arrived.
static void exchange(MPI_Comm comm, int count, int tag, int message_first) {
  static int data[1 << 20];
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 1 && !message_first) OK(MPI_Irecv(data, count, MPI_INT, 0, tag, comm, &request));
  OK(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 0) OK(MPI_Send(data, count, MPI_INT, 1, tag, comm));
  if (rank == 1 && message_first) {
    OK(MPI_Probe(0, tag, comm, MPI_STATUS_IGNORE));
    OK(MPI_Recv(data, count, MPI_INT, 0, tag, comm, MPI_STATUS_IGNORE));
  }
  OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
  OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void check_description(void) {
  int number = 0, elements = 8, bind = 0, items = 0, flag = 0, length = 0,
      index = event_index("p2p.message_matched");
  char name[64], text[512];
  MPI_Datatype types[8];
  MPI_Aint displacements[8];
  MPI_T_enum fields;
  MPI_Info info;
  length = sizeof name;
  OK(MPI_T_event_get_info(index, name, &length, NULL, types, displacements, &elements, &fields, &info, NULL,
                          NULL, &bind));
  EXPECT(strcmp(name, "p2p.message_matched") == 0 && elements == 5 && bind == MPI_T_BIND_MPI_COMM);
  EXPECT(types[0] == MPI_INT && types[2] == MPI_UNSIGNED_LONG_LONG && types[4] == MPI_INT);
  EXPECT(displacements[1] == (MPI_Aint)offsetof(struct Message, tag));
  EXPECT(displacements[2] == (MPI_Aint)offsetof(struct Message, bytes));
  EXPECT(displacements[4] == (MPI_Aint)offsetof(struct Message, order));
  length = sizeof text;
  OK(MPI_T_enum_get_info(fields, &items, text, &length));
  EXPECT(items == 5);
  length = sizeof text;
  OK(MPI_T_enum_get_item(fields, 2, &number, text, &length));
  EXPECT(number == 2 && strcmp(text, "bytes") == 0);
  length = sizeof text;
  OK(MPI_Info_get_string(info, "weft_values_order", &length, text, &flag));
  EXPECT(flag && strcmp(text, "receive_first,message_first") == 0);
  OK(MPI_Info_free(&info));
  types[2] = MPI_DATATYPE_NULL;
  elements = 2;  // smaller than the event: the rest is not returned
  OK(MPI_T_event_get_info(index, NULL, NULL, NULL, types, NULL, &elements, NULL, NULL, NULL, NULL, NULL));
  EXPECT(elements == 5 && types[2] == MPI_DATATYPE_NULL);
  int events = 0;
  OK(MPI_T_event_get_num(&events));
  EXPECT(events >= 6);
  for (int i = 0; i < events; ++i) {
    length = sizeof name;
    OK(MPI_T_event_get_info(i, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
    EXPECT(event_index(name) == i);
  }
  FAILS(MPI_T_event_get_info(events, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
        MPI_T_ERR_INVALID_INDEX);
  FAILS(MPI_T_event_get_index("no event", &index), MPI_T_ERR_INVALID_NAME);
  MPI_T_source_order order;
  MPI_Count ticks = 0, most = 0, first = 0, second = 0;
  OK(MPI_T_source_get_num(&number));
  EXPECT(number == 1);
  length = sizeof text;
  OK(MPI_T_source_get_info(0, text, &length, NULL, NULL, &order, &ticks, &most, &info));
  OK(MPI_Info_free(&info));
  EXPECT(order == MPI_T_SOURCE_ORDERED && ticks == 1000000000 && most > 0);
  OK(MPI_T_source_get_timestamp(0, &first));
  OK(MPI_T_source_get_timestamp(0, &second));
  EXPECT(second >= first);
  FAILS(MPI_T_source_get_timestamp(1, &first), MPI_T_ERR_INVALID_INDEX);
  FAILS(MPI_T_source_get_info(-1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), MPI_T_ERR_INVALID_INDEX);
}

/// Messages of one communicator, of another one, small and large, in both orders.
static void check_messages(void) {
  MPI_Comm comm, other;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &other));
  MPI_T_event_registration registration;
  const int index = event_index("p2p.message_matched");
  FAILS(MPI_T_event_handle_alloc(index, NULL, MPI_INFO_NULL, &registration), MPI_T_ERR_INVALID_HANDLE);
  OK(MPI_T_event_handle_alloc(index, &comm, MPI_INFO_NULL, &registration));
  exchange(comm, 1, 1, 0);
  EXPECT(seen.calls == 0);  // no callback yet
  FAILS(MPI_T_event_register_callback(registration, (MPI_T_cb_safety)7, MPI_INFO_NULL, &seen, on_message),
        MPI_T_ERR_INVALID);
  OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, &seen,
                                   on_message));
  const int sizes[] = {1, 100, 5000, 200000};
  for (int i = 0; i < 4; ++i)
    for (int message_first = 0; message_first < 2; ++message_first) {
      const int calls = seen.calls;
      exchange(other, sizes[i], 2, message_first);
      EXPECT(seen.calls == calls);
      exchange(comm, sizes[i], 3, message_first);
      EXPECT(seen.calls == calls + rank);
      if (rank == 0) continue;
      EXPECT(seen.last.source == 0 && seen.last.tag == 3 && seen.last.channel == 0);
      EXPECT(seen.last.order == message_first && seen.last.bytes == 4ull * (unsigned)sizes[i]);
    }
  EXPECT(seen.not_accessible == seen.calls);
  // A message to the process itself, and one of a collective.
  int value = 5;
  OK(MPI_Sendrecv_replace(&value, 1, MPI_INT, rank, 4, rank, 4, comm, MPI_STATUS_IGNORE));
  EXPECT(seen.by_tag[4] == 1 && seen.last.bytes == 4);
  MPI_T_event_instance stale = (MPI_T_event_instance)&value;
  FAILS(MPI_T_event_read(stale, 0, &value), MPI_T_ERR_INVALID_HANDLE);
  FAILS(MPI_T_event_read(NULL, 0, &value), MPI_T_ERR_INVALID_HANDLE);
  // Without a callback that is safe enough, events are dropped and counted.
  OK(MPI_T_event_set_dropped_handler(registration, on_dropped));
  OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, NULL, NULL));
  OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &seen, on_message));
  const int calls = seen.calls;
  for (int i = 0; i < 5; ++i) exchange(comm, 1, 5, i % 2);
  EXPECT(seen.calls == calls && dropped == 5 * rank);
  MPI_Info info;
  OK(MPI_T_event_handle_get_info(registration, &info));
  OK(MPI_T_event_handle_set_info(registration, info));
  OK(MPI_Info_free(&info));
  OK(MPI_T_event_callback_get_info(registration, MPI_T_CB_REQUIRE_NONE, &info));
  OK(MPI_T_event_callback_set_info(registration, MPI_T_CB_REQUIRE_NONE, info));
  OK(MPI_Info_free(&info));
  int freed = 0;
  OK(MPI_T_event_handle_free(registration, &freed, on_free));
  EXPECT(freed == 1);
  FAILS(MPI_T_event_handle_free(registration, &freed, on_free), MPI_T_ERR_INVALID_HANDLE);
  exchange(comm, 1, 6, 0);
  EXPECT(seen.calls == calls && freed == 1);
  OK(MPI_Comm_free(&comm));
  OK(MPI_Comm_free(&other));
}

static void check_protocols(MPI_T_event_registration registration) {
  exchange(MPI_COMM_WORLD, 1, 1, 0);
  EXPECT(chosen.calls == 0);  // eager messages have no choice of the receiver
  exchange(MPI_COMM_WORLD, 300000, 7, 0);
  EXPECT(chosen.calls == rank);
  if (rank == 1) EXPECT(chosen.tag == 7 && chosen.bytes == 1200000 && chosen.protocol >= 0);
  OK(MPI_T_event_handle_free(registration, NULL, NULL));
}

/// The setting that a tool has written before MPI_Init causes a slow path: each large message reports it.
static void check_slow_path(MPI_T_event_registration registration) {
  const int before = slow.calls;
  for (int i = 1; i < 4; ++i) {
    exchange(MPI_COMM_WORLD, 300000, 7, 0);
    EXPECT(slow.calls == before + i * rank);
    if (rank == 0) continue;
    EXPECT(slow.variable == pvar_index("p2p.no_single_copy", MPI_T_PVAR_CLASS_COUNTER));
    EXPECT(slow.uses == (unsigned long long)slow.calls);
  }
  OK(MPI_T_event_handle_free(registration, NULL, NULL));
}

static void set_word(const char* name, int word) {
  MPI_T_cvar_handle handle;
  OK(MPI_T_cvar_handle_alloc(cvar_index(name), NULL, &handle, NULL));
  OK(MPI_T_cvar_write(handle, &word));
  OK(MPI_T_cvar_handle_free(&handle));
}

int main(int argc, char** argv) {
  int level = 0;
  OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
  // Events can be selected before MPI_Init, if they have no object.
  MPI_T_event_registration registration;
  OK(MPI_T_event_handle_alloc(event_index("p2p.protocol_chosen"), NULL, MPI_INFO_NULL, &registration));
  OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_INFO_NULL, NULL,
                                   on_protocol));
  MPI_T_event_registration slow_path;
  OK(MPI_T_event_handle_alloc(event_index("core.slow_path"), NULL, MPI_INFO_NULL, &slow_path));
  OK(MPI_T_event_register_callback(slow_path, MPI_T_CB_REQUIRE_MPI_RESTRICTED, MPI_INFO_NULL, NULL,
                                   on_slow_path));
  set_word("shm.single_copy", 1);
  OK(MPI_Init(&argc, &argv));
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  check_protocols(registration);
  check_slow_path(slow_path);
  check_description();
  check_messages();
  OK(MPI_Finalize());
  check_description();
  OK(MPI_T_finalize());
  return 0;
}
