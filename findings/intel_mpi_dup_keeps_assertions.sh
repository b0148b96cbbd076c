#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: impi-rt 2021.17.2 (with impi-devel) and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: MPI_Comm_dup of a communicator whose info asserts that its program uses no wildcard as a tag (mpi_assert_no_any_tag).
# A good guess: the duplicate makes no assertion; since MPI 4.0, MPI_Comm_dup hands no hints on, and Intel MPI says it is version 4.1.
#   A library duplicates the communicator of its caller, to receive on it as it likes.
# Seen: MPICH does so. In Intel MPI the duplicate has the assertion, by MPI_Comm_dup and by MPI_Comm_idup; by MPI_Comm_split it has not.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/assert.c" <<'C'
#include <mpi.h>
#include <stdio.h>
static void show(const char* call, MPI_Comm comm) {
  char value[16] = "none";
  int found;
  MPI_Info info;
  MPI_Comm_get_info(comm, &info);
  MPI_Info_get(info, "mpi_assert_no_any_tag", 15, value, &found);
  printf(" %s %s", call, value);
}
int main(int argc, char** argv) {
  int version, subversion;
  MPI_Comm asserting, other;
  MPI_Info info;
  MPI_Request request;
  MPI_Init(&argc, &argv);
  MPI_Get_version(&version, &subversion);
  printf("%d.%d", version, subversion);
  MPI_Info_create(&info);
  MPI_Info_set(info, "mpi_assert_no_any_tag", "true");
  MPI_Comm_dup_with_info(MPI_COMM_SELF, info, &asserting);
  show("set", asserting);
  MPI_Comm_dup(asserting, &other);
  show("dup", other);
  MPI_Comm_idup(asserting, &other, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  show("idup", other);
  MPI_Comm_split(asserting, 0, 0, &other);
  show("split", other);
  puts("");
  return MPI_Finalize();
}
C
export I_MPI_FABRICS=shm I_MPI_ROOT="$folder/intel"
"$folder/venv/bin/pip" install -q --prefix "$folder/intel" impi-rt==2021.17.2 impi-devel==2021.17.2
cc "$folder/assert.c" -I"$folder/intel/include" -L"$folder/intel/lib" -lmpi -Wl,-rpath,"$folder/intel/lib" -o "$folder/intel/assert"
"$folder/venv/bin/pip" install -q --prefix "$folder/mpich" mpich==5.0.2
"$folder/mpich/bin/mpicc" "$folder/assert.c" -o "$folder/mpich/assert"
of() { # folder, output
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/assert" </dev/null)
  echo "$1: MPI $out"
  [ "$out" = "$2" ] || { echo "hints are handed on otherwise now"; exit 1; }
}
of mpich "5.0 set true dup false idup false split false"
of intel "4.1 set true dup true idup true split false"
echo "as described"
