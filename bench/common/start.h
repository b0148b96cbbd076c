// SPDX-License-Identifier: BSD-3-Clause
// How a program starts and ends MPI: MPI_Init, or a session (-I) and a communicator of all processes.
#ifndef BENCH_COMMON_START_H
#define BENCH_COMMON_START_H
#include <mpi.h>
#include <stdbool.h>

/// All processes of the job: MPI_COMM_WORLD, or what was made of the session's mpi://WORLD.
extern MPI_Comm bench_comm;

/// Whether this MPI library has sessions: MPI 4 has.
bool bench_has_sessions(void);

/// Starts MPI with `wanted` threads (MPI_THREAD_SINGLE, ...); returns what the library gives. Ends the
/// process with code 3 when that fails.
int bench_start(bool session, int wanted, int* argc, char*** argv);
void bench_finish(void);

/// The command line of a program that measures a job's start: [-I] [--json FILE].
struct bench_start_options {
  bool session;
  const char* json;   ///< or NULL
  const char* error;  ///< NULL: the options are good
};
struct bench_start_options bench_start_parse(int argc, char** argv);

#endif
