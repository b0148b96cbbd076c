// SPDX-License-Identifier: BSD-3-Clause
// Initialises and finalizes MPI: by MPI_Init, or by a session (-I) and a communicator of all processes.
#ifndef BENCH_COMMON_START_H
#define BENCH_COMMON_START_H
#include <mpi.h>
#include <stdbool.h>

/// Communicator of all processes of the job: MPI_COMM_WORLD, or created from the session's mpi://WORLD.
extern MPI_Comm bench_comm;

/// Returns whether this MPI library has sessions (MPI 4).
bool bench_has_sessions(void);

/// Initialises MPI with thread level `wanted` (MPI_THREAD_SINGLE, ...); returns the provided level. Ends the
/// process with code 3 on failure.
int bench_start(bool session, int wanted, int* argc, char*** argv);
void bench_finish(void);

/// The command line of a program that measures a job's start: [-I] [--json FILE].
struct bench_start_options {
  bool session;
  const char* json;   ///< or NULL
  const char* error;  ///< NULL: the options are valid
};
struct bench_start_options bench_start_parse(int argc, char** argv);

#endif
