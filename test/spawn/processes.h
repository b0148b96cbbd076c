/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the modes of test_spawn_processes. */
#pragma once
#include <mpi.h>
#include <stdio.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 9);                                           \
    }                                                                         \
  } while (0)

static inline int rank_of(MPI_Comm comm) {
  int rank;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

static inline int size_of(MPI_Comm comm) {
  int size;
  MPI_Comm_size(comm, &size);
  return size;
}

static inline int class_of(int code) {
  int class;
  MPI_Error_class(code, &class);
  return class;
}

/* Name of this program. */
extern const char* self;

/* Every rank of one side exchanges with every rank of the other side. */
void exchange(MPI_Comm intercomm);
/* Collectives, a window and a file, unless `file` is null, on the merged communicator. */
void merged(MPI_Comm intercomm, int high, const char* file);
void print_error(const char* call, int code);

/* The modes of connections.c. */
void accept_job(char** arguments);
void connect_job(char** arguments);
void halves(void);
void join(char** arguments);
void wrong(void);
void names(char** arguments);
void accept_broken(char** arguments);
void leave_port(char** arguments);
void connect_broken(char** arguments);
