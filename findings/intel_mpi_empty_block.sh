#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: impi-rt 2021.17.2 (with impi-devel) and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: the extent of an MPI_Type_create_struct of one int and a block of no doubles, as programs make it that leave members out
#   by a count of 0; and of the same struct without the empty block.
# A good guess: 4 in both cases, since a block without elements adds nothing to the datatype, and so in MPICH.
# Seen: Intel MPI gives 8 with the empty block: its alignment counts, though its place does not. Arrays have holes then.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/block.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  const int counts[] = {1, 0};
  const MPI_Aint places[] = {0, 100};
  MPI_Datatype parts[] = {MPI_INT, MPI_DOUBLE}, with, without;
  MPI_Aint lb, extents[2];
  MPI_Init(&argc, &argv);
  MPI_Type_create_struct(2, counts, places, parts, &with);
  MPI_Type_create_struct(1, counts, places, parts, &without);
  MPI_Type_get_extent(with, &lb, &extents[0]);
  MPI_Type_get_extent(without, &lb, &extents[1]);
  printf("%ld with the empty block, %ld without\n", (long)extents[0], (long)extents[1]);
  return MPI_Finalize();
}
C
export I_MPI_FABRICS=shm I_MPI_ROOT="$folder/intel"
of() { # folder, output
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/block" </dev/null)
  echo "$1: extent $out"
  [ "$out" = "$2" ] || { echo "this is another extent now"; exit 1; }
}
"$folder/venv/bin/pip" install -q --prefix "$folder/intel" impi-rt==2021.17.2 impi-devel==2021.17.2
cc "$folder/block.c" -I"$folder/intel/include" -L"$folder/intel/lib" -lmpi -Wl,-rpath,"$folder/intel/lib" -o "$folder/intel/block"
"$folder/venv/bin/pip" install -q --prefix "$folder/mpich" mpich==5.0.2
"$folder/mpich/bin/mpicc" "$folder/block.c" -o "$folder/mpich/block"
of intel "8 with the empty block, 4 without"
of mpich "4 with the empty block, 4 without"
echo "as described"
