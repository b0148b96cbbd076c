#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and impi-rt 2021.17.2 (with impi-devel, for mpi.h) from the Python package index, a C compiler.
# Behaviour: the value that MPI_Send returns after an error handler of the program has been called and has returned.
# A good guess: the error code, as with MPI_ERRORS_RETURN. Intel MPI, of the same family, returns it.
# Seen: MPICH returns MPI_SUCCESS, so that a program that counts errors in a handler and tests the value takes the failed call for
#   a good one. The handler is called with the right code; with MPI_ERRORS_RETURN the same call returns an error.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat >"$folder/handler.c" <<'C'
#include <mpi.h>
#include <stdio.h>
static int handled;
static void count(MPI_Comm* comm, int* code, ...) { handled += *code != MPI_SUCCESS; }
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Errhandler handler;
  const int beyond = 1000;
  MPI_Comm_create_errhandler(count, &handler);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  const int after_handler = MPI_Send(NULL, 0, MPI_INT, beyond, 0, MPI_COMM_WORLD);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int without = MPI_Send(NULL, 0, MPI_INT, beyond, 0, MPI_COMM_WORLD);
  printf("handled %d, then %s, without a handler %s\n", handled, after_handler ? "error" : "success", without ? "error" : "success");
  return MPI_Finalize();
}
C
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --prefix "$folder/mpich" mpich==5.0.2
"$folder/mpich/bin/mpicc" "$folder/handler.c" -o "$folder/mpich/handler"
mpich=$("$folder/mpich/bin/mpiexec" -n 1 "$folder/mpich/handler" </dev/null)
"$folder/venv/bin/pip" install -q --prefix "$folder/intel" impi-rt==2021.17.2 impi-devel==2021.17.2
export I_MPI_ROOT="$folder/intel" I_MPI_FABRICS=shm
cc "$folder/handler.c" -I"$folder/intel/include" -L"$folder/intel/lib" -lmpi -Wl,-rpath,"$folder/intel/lib" -o "$folder/intel/handler"
intel=$("$folder/intel/bin/mpiexec" -n 1 "$folder/intel/handler" </dev/null)
echo "MPICH 5.0.2: $mpich"
echo "Intel MPI 2021.17.2: $intel"
[ "$mpich" = "handled 1, then success, without a handler error" ] || { echo "MPICH returns something else now"; exit 1; }
[ "$intel" = "handled 1, then error, without a handler error" ] || { echo "Intel MPI returns something else now"; exit 1; }
echo "as described"
