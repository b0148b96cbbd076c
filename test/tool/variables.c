// SPDX-License-Identifier: BSD-3-Clause
// Control and performance variables: names, strings, types, read and write rules, sessions, errors; before
// MPI_Init, between, and after MPI_Finalize.
#include "tool/expect.h"

static int num_cvars, num_pvars, num_categories;

/// Each function but MPI_T_init_thread refuses to run.
static void check_not_initialized(void) {
  int number = 0;
  FAILS(MPI_T_finalize(), MPI_T_ERR_NOT_INITIALIZED);
  FAILS(MPI_T_cvar_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
  FAILS(MPI_T_pvar_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
  FAILS(MPI_T_category_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
  FAILS(MPI_T_event_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
  FAILS(MPI_T_source_get_num(&number), MPI_T_ERR_NOT_INITIALIZED);
  FAILS(MPI_T_cvar_read(MPI_T_CVAR_HANDLE_NULL, &number), MPI_T_ERR_NOT_INITIALIZED);
  FAILS(MPI_T_pvar_read(MPI_T_PVAR_SESSION_NULL, MPI_T_PVAR_HANDLE_NULL, &number), MPI_T_ERR_NOT_INITIALIZED);
}

static void check_strings(void) {
  char name[256], part[8];
  int length = sizeof name, full = 0, cut = 4;
  OK(MPI_T_cvar_get_info(0, name, &length, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
  EXPECT(length == (int)strlen(name) + 1);
  OK(MPI_T_cvar_get_info(0, name, &full, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
  EXPECT(full == length);
  full = 5;
  OK(MPI_T_cvar_get_info(0, NULL, &full, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
  EXPECT(full == length);
  memset(part, 'x', sizeof part);
  OK(MPI_T_cvar_get_info(0, part, &cut, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
  EXPECT(cut == length && strlen(part) == 3 && memcmp(part, name, 3) == 0 && part[4] == 'x');
}

/// Every control variable: one name, a help text, a type that fits its enumeration, a value that can be read.
static void check_cvars(int running, int started) {
  MPI_Comm world = MPI_COMM_WORLD;
  for (int i = 0; i < num_cvars; ++i) {
    char name[256], help[2048];
    int name_length = sizeof name, help_length = sizeof help, verbosity = 0, bind = 0, scope = 0, count = 0;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum words = MPI_T_ENUM_NULL;
    OK(MPI_T_cvar_get_info(i, name, &name_length, &verbosity, &type, &words, help, &help_length, &bind,
                           &scope));
    EXPECT(cvar_index(name) == i && help_length > 10 && help_length <= (int)sizeof help);
    EXPECT(scope >= MPI_T_SCOPE_CONSTANT && scope <= MPI_T_SCOPE_ALL_EQ);
    EXPECT(verbosity >= MPI_T_VERBOSITY_USER_BASIC && verbosity <= MPI_T_VERBOSITY_MPIDEV_ALL);
    EXPECT(type == MPI_INT || type == MPI_COUNT || type == MPI_CHAR);
    EXPECT((type == MPI_INT) == (words != MPI_T_ENUM_NULL));
    EXPECT(bind == MPI_T_BIND_NO_OBJECT || bind == MPI_T_BIND_MPI_COMM);
    MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
    if (bind == MPI_T_BIND_MPI_COMM) {
      FAILS(MPI_T_cvar_handle_alloc(i, NULL, &handle, &count), MPI_T_ERR_INVALID_HANDLE);
      if (!running) {
        FAILS(MPI_T_cvar_handle_alloc(i, &world, &handle, &count), MPI_T_ERR_INVALID_HANDLE);
        continue;
      }
    }
    OK(MPI_T_cvar_handle_alloc(i, &world, &handle, &count));
    union {
      int index;
      MPI_Count number;
      char text[8192];
    } value;
    EXPECT(count == 1 || (type == MPI_CHAR && count <= (int)sizeof value.text));
    OK(MPI_T_cvar_read(handle, &value));
    if (words != MPI_T_ENUM_NULL) {
      int items = 0, number = -1, length = sizeof help;
      OK(MPI_T_enum_get_info(words, &items, help, &length));
      EXPECT(items >= 2 && value.index >= 0 && value.index < items);
      for (int item = 0; item < items; ++item) {
        length = sizeof help;
        OK(MPI_T_enum_get_item(words, item, &number, help, &length));
        EXPECT(number == item && length > 1);
      }
      FAILS(MPI_T_enum_get_item(words, items, &number, help, &length), MPI_T_ERR_INVALID_ITEM);
      FAILS(MPI_T_enum_get_item(words, -1, &number, help, &length), MPI_T_ERR_INVALID_ITEM);
    }
    const int code = MPI_T_cvar_write(handle, &value);
    EXPECT(code == MPI_SUCCESS ||
           (started && bind == MPI_T_BIND_NO_OBJECT && code == MPI_T_ERR_CVAR_SET_NOT_NOW));
    OK(MPI_T_cvar_handle_free(&handle));
    EXPECT(handle == MPI_T_CVAR_HANDLE_NULL);
    FAILS(MPI_T_cvar_handle_free(&handle), MPI_T_ERR_INVALID_HANDLE);
  }
  int index = 0;
  FAILS(MPI_T_cvar_get_index("no variable", &index), MPI_T_ERR_INVALID_NAME);
  FAILS(MPI_T_cvar_get_index(NULL, &index), MPI_T_ERR_INVALID_NAME);
  FAILS(MPI_T_cvar_get_index("log", NULL), MPI_T_ERR_INVALID);
  for (int bad = -1; bad <= num_cvars; bad += num_cvars + 1)
    FAILS(MPI_T_cvar_get_info(bad, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
          MPI_T_ERR_INVALID_INDEX);
  MPI_T_cvar_handle none = (MPI_T_cvar_handle)0x1234560;
  FAILS(MPI_T_cvar_handle_alloc(num_cvars, NULL, &none, NULL), MPI_T_ERR_INVALID_INDEX);
  FAILS(MPI_T_cvar_read(none, &index), MPI_T_ERR_INVALID_HANDLE);
  FAILS(MPI_T_enum_get_info((MPI_T_enum)0x1234560, NULL, NULL, NULL), MPI_T_ERR_INVALID_HANDLE);
}

static MPI_Count number_of(const char* name) {
  MPI_T_cvar_handle handle;
  MPI_Count value = -1;
  OK(MPI_T_cvar_handle_alloc(cvar_index(name), NULL, &handle, NULL));
  OK(MPI_T_cvar_read(handle, &value));
  OK(MPI_T_cvar_handle_free(&handle));
  return value;
}

static int set_number(const char* name, MPI_Count value) {
  MPI_T_cvar_handle handle;
  OK(MPI_T_cvar_handle_alloc(cvar_index(name), NULL, &handle, NULL));
  const int code = MPI_T_cvar_write(handle, &value);
  OK(MPI_T_cvar_handle_free(&handle));
  return code;
}

static void check_writing_before(void) {
  EXPECT(number_of("p2p.eager_max") == 16384);
  OK(set_number("p2p.eager_max", 4096));
  EXPECT(number_of("p2p.eager_max") == 4096);
  FAILS(set_number("p2p.eager_max", -1), MPI_T_ERR_INVALID);
  FAILS(set_number("p2p.eager_max", 1 << 20), MPI_T_ERR_INVALID);
  EXPECT(number_of("p2p.eager_max") == 4096);
  EXPECT(number_of("p2p.credit") == 65536);  // from the environment
  OK(set_number("progress.spin", 1000));
  MPI_T_cvar_handle handle;
  int word = 77;
  OK(MPI_T_cvar_handle_alloc(cvar_index("check"), NULL, &handle, NULL));
  FAILS(MPI_T_cvar_write(handle, &word), MPI_T_ERR_INVALID);
  word = -1;
  FAILS(MPI_T_cvar_write(handle, &word), MPI_T_ERR_INVALID);
  FAILS(MPI_T_cvar_write(handle, NULL), MPI_T_ERR_INVALID);
  OK(MPI_T_cvar_handle_free(&handle));
}

/// Values of before MPI_Init stay; few variables change later.
static void check_writing_later(void) {
  EXPECT(number_of("p2p.eager_max") == 4096 && number_of("p2p.credit") == 65536);
  FAILS(set_number("p2p.eager_max", 8192), MPI_T_ERR_CVAR_SET_NOT_NOW);
  EXPECT(number_of("p2p.eager_max") == 4096 && number_of("progress.spin") == 1000);
  OK(set_number("progress.spin", 500));
  EXPECT(number_of("progress.spin") == 500);
}

/// A variable of a communicator is its info hint.
static void check_hint(void) {
  MPI_Comm comm;
  MPI_Info info;
  char text[32];
  int word = -1, flag = 0, length = sizeof text;
  OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MPI_T_cvar_handle handle;
  OK(MPI_T_cvar_handle_alloc(cvar_index("communicator.coll.order"), &comm, &handle, NULL));
  OK(MPI_T_cvar_read(handle, &word));
  EXPECT(word == 0);
  word = 1;
  OK(MPI_T_cvar_write(handle, &word));
  OK(MPI_Comm_get_info(comm, &info));
  OK(MPI_Info_get_string(info, "weft_coll_order", &length, text, &flag));
  EXPECT(flag && strcmp(text, "rank") == 0);
  OK(MPI_Info_free(&info));
  word = 0;
  OK(MPI_T_cvar_read(handle, &word));
  EXPECT(word == 1);
  OK(MPI_Comm_free(&comm));
  FAILS(MPI_T_cvar_read(handle, &word), MPI_T_ERR_INVALID_HANDLE);
  OK(MPI_T_cvar_handle_free(&handle));
}

/// Every performance variable: name and class find it, a handle reads it, the flags are true.
static void check_pvars(int running) {
  MPI_T_pvar_session session, other;
  MPI_Comm world = MPI_COMM_WORLD;
  OK(MPI_T_pvar_session_create(&session));
  OK(MPI_T_pvar_session_create(&other));
  for (int i = 0; i < num_pvars; ++i) {
    char name[256], help[1024];
    int name_length = sizeof name, help_length = sizeof help;
    int verbosity, class, bind, readonly, continuous, atomic, count = 0;
    MPI_Datatype type;
    MPI_T_enum words;
    OK(MPI_T_pvar_get_info(i, name, &name_length, &verbosity, &class, &type, &words, help, &help_length,
                           &bind, &readonly, &continuous, &atomic));
    EXPECT(pvar_index(name, class) == i && help_length > 5 && type == MPI_UNSIGNED_LONG_LONG);
    EXPECT(words == MPI_T_ENUM_NULL && class >= MPI_T_PVAR_CLASS_STATE && class <= MPI_T_PVAR_CLASS_GENERIC);
    int wrong = 0;
    FAILS(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_GENERIC, &wrong), MPI_T_ERR_INVALID_NAME);
    if (bind != MPI_T_BIND_NO_OBJECT) {
      MPI_T_pvar_handle none;
      FAILS(MPI_T_pvar_handle_alloc(session, i, NULL, &none, &count), MPI_T_ERR_INVALID_HANDLE);
      if (!running || bind != MPI_T_BIND_MPI_COMM) continue;
    }
    MPI_T_pvar_handle handle;
    OK(MPI_T_pvar_handle_alloc(session, i, &world, &handle, &count));
    const int by_peer = strncmp(name, "communicator.peer_", 18) == 0;
    EXPECT(by_peer ? count >= 1 && count <= 64 : count == 1);
    unsigned long long values[64], value = 42;
    OK(MPI_T_pvar_read(session, handle, by_peer ? values : &value));
    EXPECT(continuous || value == 0);
    FAILS(MPI_T_pvar_read(other, handle, &value), MPI_T_ERR_INVALID_HANDLE);
    FAILS(MPI_T_pvar_read(session, MPI_T_PVAR_ALL_HANDLES, &value), MPI_T_ERR_INVALID_HANDLE);
    FAILS(MPI_T_pvar_start(session, handle), continuous ? MPI_T_ERR_PVAR_NO_STARTSTOP : MPI_SUCCESS);
    FAILS(MPI_T_pvar_stop(session, handle), continuous ? MPI_T_ERR_PVAR_NO_STARTSTOP : MPI_SUCCESS);
    value = 1000;
    FAILS(MPI_T_pvar_write(session, handle, &value), readonly ? MPI_T_ERR_PVAR_NO_WRITE : MPI_SUCCESS);
    if (!readonly) {
      value = 0;
      OK(MPI_T_pvar_read(session, handle, &value));
      EXPECT(value == 1000);
    }
    FAILS(MPI_T_pvar_readreset(session, handle, &value), atomic ? MPI_SUCCESS : MPI_T_ERR_PVAR_NO_ATOMIC);
    FAILS(MPI_T_pvar_reset(session, handle), readonly ? MPI_T_ERR_PVAR_NO_WRITE : MPI_SUCCESS);
    OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES));
    OK(MPI_T_pvar_reset(session, MPI_T_PVAR_ALL_HANDLES));
    FAILS(MPI_T_pvar_write(session, MPI_T_PVAR_ALL_HANDLES, &value), MPI_T_ERR_INVALID_HANDLE);
    FAILS(MPI_T_pvar_handle_free(other, &handle), MPI_T_ERR_INVALID_HANDLE);
    if (i % 2 == 0) {  // the others end with their session
      OK(MPI_T_pvar_handle_free(session, &handle));
      EXPECT(handle == MPI_T_PVAR_HANDLE_NULL);
    }
  }
  MPI_T_pvar_session freed = session;
  OK(MPI_T_pvar_session_free(&session));
  EXPECT(session == MPI_T_PVAR_SESSION_NULL);
  FAILS(MPI_T_pvar_session_free(&session), MPI_T_ERR_INVALID_SESSION);
  FAILS(MPI_T_pvar_start(freed, MPI_T_PVAR_ALL_HANDLES), MPI_T_ERR_INVALID_SESSION);
  MPI_T_pvar_handle handle;
  FAILS(MPI_T_pvar_handle_alloc(freed, 0, NULL, &handle, NULL), MPI_T_ERR_INVALID_SESSION);
  FAILS(MPI_T_pvar_handle_alloc(other, num_pvars, NULL, &handle, NULL), MPI_T_ERR_INVALID_INDEX);
  OK(MPI_T_pvar_session_free(&other));
}

/// Every variable and event is in one category; all categories but the first are in the first.
static void check_categories(void) {
  int update = 0, seen_cvars = 0, seen_pvars = 0, seen_events = 0, num_events = 0, seen_categories = 0;
  OK(MPI_T_event_get_num(&num_events));
  for (int i = 0; i < num_categories; ++i) {
    char name[64], help[256];
    int name_length = sizeof name, help_length = sizeof help, cvars, pvars, categories, events, index = -1;
    OK(MPI_T_category_get_info(i, name, &name_length, help, &help_length, &cvars, &pvars, &categories));
    OK(MPI_T_category_get_index(name, &index));
    OK(MPI_T_category_get_num_events(i, &events));
    EXPECT(index == i && help_length > 3 && cvars + pvars + categories + events > 0);
    int* members = malloc(sizeof(int) * (size_t)(num_cvars + num_pvars));
    OK(MPI_T_category_get_cvars(i, num_cvars, members));
    for (int k = 0; k < cvars; ++k) EXPECT(members[k] >= 0 && members[k] < num_cvars);
    OK(MPI_T_category_get_pvars(i, num_pvars, members));
    for (int k = 0; k < pvars; ++k) EXPECT(members[k] >= 0 && members[k] < num_pvars);
    OK(MPI_T_category_get_events(i, num_events, members));
    OK(MPI_T_category_get_categories(i, num_categories, members));
    free(members);
    FAILS(MPI_T_category_get_pvars(i, -1, NULL), MPI_T_ERR_INVALID);
    seen_cvars += cvars, seen_pvars += pvars, seen_categories += categories, seen_events += events;
  }
  EXPECT(seen_cvars == num_cvars && seen_pvars == num_pvars && seen_events == num_events);
  EXPECT(seen_categories == num_categories - 1);
  FAILS(MPI_T_category_get_index("no category", &update), MPI_T_ERR_INVALID_NAME);
  FAILS(MPI_T_category_get_cvars(num_categories, 1, &update), MPI_T_ERR_INVALID_INDEX);
  OK(MPI_T_category_changed(&update));
}

static void check_all(int running, int started) {
  int cvars, pvars, categories;
  OK(MPI_T_cvar_get_num(&cvars));
  OK(MPI_T_pvar_get_num(&pvars));
  OK(MPI_T_category_get_num(&categories));
  EXPECT(cvars == num_cvars && pvars == num_pvars && categories == num_categories);
  check_strings();
  check_cvars(running, started);
  check_pvars(running);
  check_categories();
}

int main(int argc, char** argv) {
  int level = -1, second = -1;
  if (argc > 1) {  // a setting of the environment is invalid
    FAILS(MPI_T_init_thread(MPI_THREAD_SINGLE, &level), MPI_T_ERR_CANNOT_INIT);
    check_not_initialized();
    return 0;
  }
  check_not_initialized();
  OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
  EXPECT(level >= MPI_THREAD_SINGLE);
  OK(MPI_T_cvar_get_num(&num_cvars));
  OK(MPI_T_pvar_get_num(&num_pvars));
  OK(MPI_T_category_get_num(&num_categories));
  EXPECT(num_cvars > 100 && num_pvars > 60 && num_categories > 10);
  check_writing_before();
  OK(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &second));
  EXPECT(second == MPI_THREAD_MULTIPLE);
  check_all(0, 0);
  OK(MPI_T_finalize());
  OK(MPI_Init(&argc, &argv));
  check_writing_later();
  check_all(1, 1);
  check_hint();
  OK(MPI_Finalize());
  check_all(0, 1);
  OK(MPI_T_finalize());
  check_not_initialized();
  OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &level));
  EXPECT(number_of("progress.spin") == 500);
  OK(MPI_T_finalize());
  return 0;
}
