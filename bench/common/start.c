// SPDX-License-Identifier: BSD-3-Clause
#include "common/start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

MPI_Comm bench_comm = MPI_COMM_WORLD;

static int start_world(int wanted, int* argc, char*** argv) {
  int provided = wanted;
  const int code =
      wanted == MPI_THREAD_SINGLE ? MPI_Init(argc, argv) : MPI_Init_thread(argc, argv, wanted, &provided);
  if (code != MPI_SUCCESS) exit(3);
  return provided;
}

struct bench_start_options bench_start_parse(int argc, char** argv) {
  struct bench_start_options options = {false, NULL, NULL};
  for (int i = 1; i < argc && !options.error; ++i) {
    if (strcmp(argv[i], "-I") == 0 || strcmp(argv[i], "--session") == 0) {
      options.session = bench_has_sessions();
      if (!options.session) options.error = "-I: this MPI library has no sessions, which came with MPI 4";
    } else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      options.json = argv[++i];
    } else {
      options.error = "expected [-I] [--json FILE]";
    }
  }
  return options;
}

// Sessions need MPI 4; Open MPI 5 has them but reports MPI 3.1.
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)

static MPI_Session session = MPI_SESSION_NULL;

bool bench_has_sessions(void) { return true; }

static void need(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  fprintf(stderr, "-I: %s failed (error %d)\n", call, code);
  exit(3);
}

/// Returns whether the session provides MPI_THREAD_MULTIPLE.
static bool provides_multiple(void) {
  char value[64] = "";
  int found = 0, length = sizeof value;
  MPI_Info info;
  need(MPI_Session_get_info(session, &info), "MPI_Session_get_info");
  MPI_Info_get_string(info, "thread_level", &length, value, &found);
  MPI_Info_free(&info);
  return found && strcmp(value, "MPI_THREAD_MULTIPLE") == 0;
}

static int start_session(int wanted) {
  MPI_Group all;
  MPI_Info info;
  need(MPI_Info_create(&info), "MPI_Info_create");
  MPI_Info_set(info, "thread_level",
               wanted == MPI_THREAD_MULTIPLE ? "MPI_THREAD_MULTIPLE" : "MPI_THREAD_SINGLE");
  need(MPI_Session_init(info, MPI_ERRORS_RETURN, &session), "MPI_Session_init");
  MPI_Info_free(&info);
  need(MPI_Group_from_session_pset(session, "mpi://WORLD", &all), "MPI_Group_from_session_pset");
  need(MPI_Comm_create_from_group(all, "bench", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &bench_comm),
       "MPI_Comm_create_from_group");
  MPI_Group_free(&all);
  return wanted == MPI_THREAD_MULTIPLE && !provides_multiple() ? MPI_THREAD_SINGLE : wanted;
}

int bench_start(bool by_session, int wanted, int* argc, char*** argv) {
  return by_session ? start_session(wanted) : start_world(wanted, argc, argv);
}

void bench_finish(void) {
  if (session == MPI_SESSION_NULL) {
    MPI_Finalize();
    return;
  }
  MPI_Comm_free(&bench_comm);
  MPI_Session_finalize(&session);
}

#else

bool bench_has_sessions(void) { return false; }

int bench_start(bool by_session, int wanted, int* argc, char*** argv) {
  (void)by_session;  // refused when the options are parsed
  return start_world(wanted, argc, argv);
}

void bench_finish(void) { MPI_Finalize(); }

#endif
