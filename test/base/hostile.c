// SPDX-License-Identifier: BSD-3-Clause
// A library whose code must not run in a program with more privileges than its user: it creates the file
// HOSTILE_MARK.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void) {
  const char* path = getenv("HOSTILE_MARK");
  if (path != NULL) close(open(path, O_CREAT | O_WRONLY, 0666));
}
