#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: impi-rt 2021.17.2 (with impi-devel) and mpich 5.0.2 from the Python package index, a C compiler.
# Behaviour: MPI_File_open with MPI_MODE_CREATE of a file whose name has a colon, as names with a time have it (run-10:30.dat).
# A good guess: the file is created. A prefix that selects a file system, like "ufs:", is one of the few known ones.
# Seen: MPICH creates the file, and cuts "ufs:" off. Intel MPI, of the same family, returns an error with the whole path too: all
#   before the first colon is a file system that it does not know.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/colon.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  MPI_File file;
  MPI_Init(&argc, &argv);
  for (int i = 1; i < argc; i++) {
    const int code = MPI_File_open(MPI_COMM_SELF, argv[i], MPI_MODE_WRONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
    printf("%s%s", code == MPI_SUCCESS ? "opened" : "refused", i + 1 < argc ? " " : "\n");
    if (code == MPI_SUCCESS) MPI_File_close(&file);
  }
  return MPI_Finalize();
}
C
export I_MPI_FABRICS=shm I_MPI_ROOT="$folder/intel"
"$folder/venv/bin/pip" install -q --prefix "$folder/intel" impi-rt==2021.17.2 impi-devel==2021.17.2
cc "$folder/colon.c" -I"$folder/intel/include" -L"$folder/intel/lib" -lmpi -Wl,-rpath,"$folder/intel/lib" -o "$folder/intel/colon"
"$folder/venv/bin/pip" install -q --prefix "$folder/mpich" mpich==5.0.2
"$folder/mpich/bin/mpicc" "$folder/colon.c" -o "$folder/mpich/colon"
of() { # folder, outcome for a name without a colon, with a prefix, with a colon
  cd "$folder/$1"
  out=$(bin/mpiexec -n 1 ./colon plain.dat ufs:prefix.dat run-10:30.dat "$folder/$1/run-10:31.dat" </dev/null)
  echo "$1: $out, files: $(ls | grep '\.dat$' | xargs)"
  [ "$out" = "$2" ] && [ -e prefix.dat ] || { echo "names are read otherwise now"; exit 1; }
}
of mpich "opened opened opened opened"
[ -e "$folder/mpich/run-10:30.dat" ] || { echo "the file has another name now"; exit 1; }
of intel "opened opened refused refused"
echo "as described"
