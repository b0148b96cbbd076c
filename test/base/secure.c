// SPDX-License-Identifier: BSD-3-Clause
// A program for secure.py: prints AT_SECURE and the settings that are not default, lets Weft describe its
// paths (which opens the network libraries) and starts MPI. Exit code 3: MPI_Init fails, with its message.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <weft.h>

static char text[1 << 20];

int main(void) {
  printf("secure %lu\n", getauxval(AT_SECURE));
  if (MPIX_Settings(text, sizeof text, NULL) != MPI_SUCCESS) {
    printf("refused %s\n", text);
    return 2;
  }
  for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL && *line != 0;) {
    const char* fields[4];  // variable, value, default, origin; some are empty
    for (int i = 0; i < 4; ++i) fields[i] = strsep(&line, "\t");
    if (strcmp(fields[3], "default") != 0) printf("setting %s %s\n", fields[0], fields[3]);
  }
  MPIX_Describe_paths(text, sizeof text, NULL);
  printf("paths %s\n", text);
  fflush(stdout);
  MPI_Session session;
  if (MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session) != MPI_SUCCESS) {
    MPIX_Last_error_message(text, sizeof text, NULL);
    printf("no MPI: %s\n", text);
    return 3;
  }
  MPI_Session_finalize(&session);
  MPI_Init(NULL, NULL);
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  printf("ranks %d\n", size);
  MPI_Finalize();
  return 0;
}
