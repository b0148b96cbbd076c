// SPDX-License-Identifier: BSD-3-Clause
// Checks for programs that are built with another MPI's mpi.h and run on Weft.
#pragma once
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                       \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 3);                                             \
    }                                                                           \
  } while (0)
#define OK(call) EXPECT((call) == MPI_SUCCESS)
#define CLASS_IS(code, expected)               \
  do {                                         \
    int class_of_code = -1;                    \
    OK(MPI_Error_class(code, &class_of_code)); \
    EXPECT(class_of_code == (expected));       \
  } while (0)

static int rank, ranks;

static inline void begin(int* argc, char*** argv) {
  OK(MPI_Init(argc, argv));
  OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  OK(MPI_Comm_size(MPI_COMM_WORLD, &ranks));
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  OK(MPI_Get_library_version(version, &length));
  EXPECT(strncmp(version, "Weft ", 5) == 0 && (int)strlen(version) == length);
#ifdef OPEN_MPI
  EXPECT(strstr(version, "Open MPI") != NULL && strstr(version, "MPICH") == NULL);
#elif defined(MPICH_VERSION)
  EXPECT(strstr(version, "MPICH") != NULL && strstr(version, "Open MPI") == NULL);
#endif
}
/// Ends MPI; the test looks for the line of rank 0.
static inline int end(void) {
  OK(MPI_Barrier(MPI_COMM_WORLD));
  if (rank == 0) printf("passed with %d ranks\n", ranks);
  OK(MPI_Finalize());
  return 0;
}
