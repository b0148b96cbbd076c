#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and impi-rt 2021.17.2 (with impi-devel) from the Python package index, a C compiler.
# Behaviour: MPI_Error_string of error classes in the libraries of the standard ABI (libmpi_abi.so) of both.
# A good guess: the text of the class, as in the other library of the same package ("Message truncated" for MPI_ERR_TRUNCATE).
# Seen: the text of another class. The number of the ABI is looked up in the library's own table, so that MPI_ERR_TRUNCATE is
#   "Other MPI error", and MPI_ERR_ROOT "Invalid group". Codes of failed calls are translated right, so that it hurts programs
#   which print the text of a class.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/text.c" <<'C'
#include HEADER
#include <stdio.h>
int main(int argc, char** argv) {
  char text[MPI_MAX_ERROR_STRING];
  int length;
  const int classes[] = {MPI_ERR_RANK, MPI_ERR_ROOT, MPI_ERR_TRUNCATE};
  MPI_Init(&argc, &argv);
  for (int i = 0; i < 3; i++) {
    MPI_Error_string(classes[i], text, &length);
    printf("%s%s", text, i < 2 ? ", " : "\n");
  }
  return MPI_Finalize();
}
C
export I_MPI_FABRICS=shm I_MPI_ROOT="$folder/intel"
"$folder/venv/bin/pip" install -q --prefix "$folder/mpich" mpich==5.0.2
"$folder/venv/bin/pip" install -q --prefix "$folder/intel" impi-rt==2021.17.2 impi-devel==2021.17.2
"$folder/mpich/bin/mpicc" -DHEADER='<mpi.h>' "$folder/text.c" -o "$folder/mpich/own"
"$folder/mpich/bin/mpicc_abi" -DHEADER='<mpi.h>' "$folder/text.c" -o "$folder/mpich/abi"
for library in own:mpi.h:mpi abi:mpi_abi.h:mpi_abi; do
  header=${library#*:}
  cc -DHEADER="<${header%:*}>" "$folder/text.c" -I"$folder/intel/include" -L"$folder/intel/lib" -l"${library##*:}" \
    -Wl,-rpath,"$folder/intel/lib" -o "$folder/intel/${library%%:*}"
done
for package in mpich intel; do
  own=$("$folder/$package/bin/mpiexec" -n 1 "$folder/$package/own" </dev/null)
  abi=$("$folder/$package/bin/mpiexec" -n 1 "$folder/$package/abi" </dev/null)
  echo "$package: own library: $own"
  echo "$package: standard ABI: $abi"
  case $own in
  "Invalid rank, Invalid root, Message truncated"*) ;;
  *) echo "its own texts are others now"; exit 1 ;;
  esac
  [ "$abi" = "Invalid rank, Invalid group, Other MPI error" ] || { echo "the texts of the ABI are others now"; exit 1; }
done
echo "as described"
