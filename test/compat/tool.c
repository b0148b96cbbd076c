// SPDX-License-Identifier: BSD-3-Clause
// The tool interface: constants, types of variables, objects that variables and events are bound to,
// callbacks with this interface's safety levels.
#include "expect.h"

static void control_variables(void) {
  int num = 0, counts = 0, words = 0, texts = 0, bound = 0;
  OK(MPI_T_cvar_get_num(&num));
  for (int i = 0; i < num; ++i) {
    int verbosity, bind, scope, count, length = 0;
    MPI_Datatype type;
    MPI_T_enum values = MPI_T_ENUM_NULL;
    OK(MPI_T_cvar_get_info(i, NULL, &length, &verbosity, &type, &values, NULL, NULL, &bind, &scope));
    EXPECT(verbosity == MPI_T_VERBOSITY_USER_BASIC || verbosity == MPI_T_VERBOSITY_MPIDEV_BASIC);
    EXPECT(scope == MPI_T_SCOPE_LOCAL || scope == MPI_T_SCOPE_GROUP_EQ || scope == MPI_T_SCOPE_ALL_EQ);
    counts += type == MPI_COUNT, words += type == MPI_INT && values != MPI_T_ENUM_NULL,
        texts += type == MPI_CHAR;
    bound += bind == MPI_T_BIND_MPI_COMM;
    EXPECT(bind == MPI_T_BIND_NO_OBJECT || bind == MPI_T_BIND_MPI_COMM);
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
    OK(MPI_T_cvar_handle_alloc(i, &world, &handle, &count));
    static char value[8192];
    OK(MPI_T_cvar_read(handle, value));
    OK(MPI_T_cvar_handle_free(&handle));
    EXPECT(handle == MPI_T_CVAR_HANDLE_NULL);
  }
  EXPECT(counts > 30 && words > 20 && texts > 2 && counts + words + texts == num && bound > 5);
  int index = 0;
  EXPECT(MPI_T_cvar_get_index("no variable", &index) == MPI_T_ERR_INVALID_NAME);
  EXPECT(MPI_T_cvar_get_info(num, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) ==
         MPI_T_ERR_INVALID_INDEX);
}

static void performance_variables(void) {
  MPI_T_pvar_session session;
  MPI_T_pvar_handle handle, level;
  MPI_Comm comm;
  int index = -1;
  unsigned long long value = 0;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_T_pvar_session_create(&session));
  OK(MPI_T_pvar_get_index("p2p.eager_messages", MPI_T_PVAR_CLASS_COUNTER, &index));
  OK(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, NULL));
  OK(MPI_T_pvar_get_index("communicator.unexpected_messages", MPI_T_PVAR_CLASS_LEVEL, &index));
  OK(MPI_T_pvar_handle_alloc(session, index, &comm, &level, NULL));
  EXPECT(MPI_T_pvar_start(session, level) == MPI_T_ERR_PVAR_NO_STARTSTOP);
  OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
  int out = 1, in = 0;
  OK(MPI_Send(&out, 1, MPI_INT, (rank + 1) % ranks, 1, comm));
  OK(MPI_Probe(MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE));
  OK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES));
  OK(MPI_T_pvar_read(session, handle, &value));
  EXPECT(value == 1);
  OK(MPI_T_pvar_read(session, level, &value));
  EXPECT(value == 1);
  OK(MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, 1, comm, MPI_STATUS_IGNORE));
  OK(MPI_T_pvar_session_free(&session));
  EXPECT(session == MPI_T_PVAR_SESSION_NULL);
  OK(MPI_Comm_free(&comm));
}

#ifdef MPICH_VERSION  // the header of Open MPI 5.0 has no events
static int calls, drops, frees;
static void on_message(MPI_T_event_instance instance, MPI_T_event_registration registration,
                       MPI_T_cb_safety safety, void* data) {
  int source = -1;
  (void)registration;
  EXPECT(safety == MPI_T_CB_REQUIRE_MPI_RESTRICTED && data == &calls);
  OK(MPI_T_event_read(instance, 0, &source));
  EXPECT(source == (rank + ranks - 1) % ranks);
  ++calls;
}
static void on_dropped(MPI_Count count, MPI_T_event_registration registration, int source,
                       MPI_T_cb_safety safety, void* data) {
  (void)registration;
  EXPECT(source == 0 && safety == MPI_T_CB_REQUIRE_MPI_RESTRICTED && data == NULL);
  drops += (int)count;
}
static void on_free(MPI_T_event_registration registration, MPI_T_cb_safety safety, void* data) {
  (void)registration;
  EXPECT(safety == MPI_T_CB_REQUIRE_NONE);
  ++*(int*)data;
}

static void shift(MPI_Comm comm) {
  int out = 1, in = 0;
  OK(MPI_Sendrecv(&out, 1, MPI_INT, (rank + 1) % ranks, 1, &in, 1, MPI_INT, (rank + ranks - 1) % ranks, 1,
                  comm, MPI_STATUS_IGNORE));
}

static void events(void) {
  MPI_Comm comm;
  MPI_T_event_registration registration;
  MPI_Datatype types[5];
  int index = -1, elements = 5, bind = 0;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  OK(MPI_T_event_get_index("p2p.message_matched", &index));
  OK(MPI_T_event_get_info(index, NULL, NULL, NULL, types, NULL, &elements, NULL, NULL, NULL, NULL, &bind));
  EXPECT(elements == 5 && types[0] == MPI_INT && types[2] == MPI_UNSIGNED_LONG_LONG &&
         bind == MPI_T_BIND_MPI_COMM);
  OK(MPI_T_event_handle_alloc(index, &comm, MPI_INFO_NULL, &registration));
  OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, &calls,
                                   on_message));
  shift(comm);
  EXPECT(calls == 1);
  OK(MPI_T_event_set_dropped_handler(registration, on_dropped));
  OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_THREAD_SAFE, MPI_INFO_NULL, NULL, NULL));
  OK(MPI_T_event_register_callback(registration, MPI_T_CB_REQUIRE_NONE, MPI_INFO_NULL, &calls, on_message));
  shift(comm);
  EXPECT(calls == 1 && drops == 1);
  OK(MPI_T_event_handle_free(registration, &frees, on_free));
  EXPECT(frees == 1);
  OK(MPI_Comm_free(&comm));
}
#else
static void events(void) {}
#endif

int main(int argc, char** argv) {
  int level = -1;
  EXPECT(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
  OK(MPI_T_init_thread(MPI_THREAD_FUNNELED, &level));
  EXPECT(level == MPI_THREAD_MULTIPLE);
  begin(&argc, &argv);
  control_variables();
  performance_variables();
  events();
  const int result = end();
  OK(MPI_T_finalize());
  return result;
}
