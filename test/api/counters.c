// SPDX-License-Identifier: BSD-3-Clause
// MPIX_Counters: each line has name, value, unit and help, in the order of the names; before, during and
// after MPI, also into too little space.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft.h>

static char text[1 << 16];

static void require(int condition, const char* what) {
  if (condition) return;
  fprintf(stderr, "counters: %s\n", what);
  exit(1);
}

/// Checks the list; returns the value of the counter `name`.
static long value_of(const char* name) {
  int length = 0;
  require(MPIX_Counters(NULL, 0, &length) == MPI_SUCCESS && length > 0, "no length");
  require(length < (int)sizeof text, "a longer list than this test reads");
  require(MPIX_Counters(text, length + 1, NULL) == MPI_SUCCESS, "no text");
  require((int)strlen(text) == length, "another length");
  const char* last = "";
  long found = -1;
  for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL && *line != 0;) {
    char* fields[4];
    for (int i = 0; i < 4; ++i) require((fields[i] = strsep(&line, "\t")) != NULL, "fewer than 4 fields");
    require(line == NULL && strlen(fields[3]) > 0, "not 4 fields");
    require(strcmp(last, fields[0]) < 0, "not sorted");
    require(strstr("events bytes ns objects", fields[2]) != NULL, "unknown unit");
    char* end = fields[1];
    const long value = strtol(fields[1], &end, 10);
    require(end != fields[1] && *end == 0, "value is no number");
    if (strcmp(fields[0], name) == 0) found = value;
    last = fields[0];
  }
  return found;
}

int main(void) {
  require(value_of("p2p.stale_ids") == 0, "p2p.stale_ids before MPI_Init");
  require(value_of("p2p.none") == -1, "a counter that does not exist");
  MPI_Init(NULL, NULL);
  char few[8];
  int length = 0;
  require(MPIX_Counters(few, sizeof few, &length) == MPI_SUCCESS && strlen(few) == 7 && length > 7,
          "truncated text");
  require(value_of("p2p.staging_exhausted") == 0, "a slow path is a counter");
  MPI_Finalize();
  require(value_of("p2p.stale_ids") == 0, "p2p.stale_ids after MPI_Finalize");
  return 0;
}
