#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and impi-rt 2021.17.2 (with impi-devel) from the Python package index, a C compiler.
# Behaviour: both have a header and a library of the standard ABI, and both headers say that it is version 1.0. A program is built with
#   MPICH's header and runs with either library; it seeks to the end of a file of ten bytes, then sends to a rank that does not exist.
# A good guess: the constants of the headers are the same, and the program does the same with both libraries, for which the ABI was made.
# Seen: twelve constants differ, among them MPI_SEEK_SET, MPI_SEEK_CUR, MPI_SEEK_END, MPI_CHARACTER and MPI_APPNUM;
#   MPI_ERRORS_RETURN and MPI_ERRORS_ABORT are exchanged. With Intel's library the program stays at the begin of the file, without an
#   error, and is aborted by the send. MPI_Abi_get_version gives 1.0 in both.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/both.c" <<'C'
#include <mpi_abi.h>
#include <stdio.h>
int main(int argc, char** argv) {
  int major, minor, class, value = 0;
  char bytes[10] = {0};
  MPI_File file;
  MPI_Offset position;
  MPI_Init(&argc, &argv);
  MPI_Abi_get_version(&major, &minor);
  MPI_File_open(MPI_COMM_SELF, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file);
  MPI_File_write_at(file, 0, bytes, 10, MPI_BYTE, MPI_STATUS_IGNORE);
  const int code = MPI_File_seek(file, 0, MPI_SEEK_END);
  MPI_File_get_position(file, &position);
  MPI_File_close(&file);
  printf("%d.%d, %s, at %d\n", major, minor, code == MPI_SUCCESS ? "success" : "error", (int)position);
  fflush(stdout);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Error_class(MPI_Send(&value, 1, MPI_INT, 99, 0, MPI_COMM_WORLD), &class);
  puts(class == MPI_ERR_RANK ? "returned" : "other class");
  return MPI_Finalize();
}
C
export I_MPI_FABRICS=shm I_MPI_ROOT="$folder/impi-rt"
"$folder/venv/bin/pip" install -q --prefix "$folder/mpich" mpich==5.0.2
"$folder/venv/bin/pip" install -q --prefix "$folder/impi-rt" impi-rt==2021.17.2 impi-devel==2021.17.2
differing=$(
  python3 - "$folder/mpich/include/mpi_abi.h" "$folder/impi-rt/include/mpi_abi.h" <<'P'
import re
import sys

headers = []
for path in sys.argv[1:]:
    with open(path) as file:
        text = file.read()
    found = re.findall(r"#define\s+(MPI_\w+)\s+\(??(?:\(\w+\)\s*)?(-?\w+)", text) + re.findall(r"(MPI_\w+)\s*=\s*(-?\w+)", text)
    headers.append({name: int(value, 0) for name, value in found if re.fullmatch(r"-?(0x[0-9a-fA-F]+|[0-9]+)", value)})
print(*sorted(name for name in headers[0] if headers[1].get(name, headers[0][name]) != headers[0][name]))
P
)
echo "constants that differ: $differing"
[ "$differing" = "MPI_APPNUM MPI_CHARACTER MPI_COMBINER_F90_COMPLEX MPI_COMBINER_F90_INTEGER MPI_COMBINER_F90_REAL MPI_ERRORS_ABORT \
MPI_ERRORS_RETURN MPI_LASTUSEDCODE MPI_SEEK_CUR MPI_SEEK_END MPI_SEEK_SET MPI_UNIVERSE_SIZE" ] ||
  { echo "these are other constants now"; exit 1; }
cc "$folder/both.c" -I"$folder/mpich/include" -L"$folder/mpich/lib" -lmpi_abi -o "$folder/both"
of() { # package, outcome
  out=$(LD_LIBRARY_PATH="$folder/$1/lib" "$folder/$1/bin/mpiexec" -n 1 "$folder/both" "$folder/$1/file" </dev/null 2>&1 || true)
  out=$(printf '%s\n' "$out" | grep -oE '^(1\.0.*|returned|other class|Abort)' | xargs)
  echo "$1: $out"
  [ "$out" = "$2" ] || { echo "this is another outcome now"; exit 1; }
}
of mpich "1.0, success, at 10 returned"
of impi-rt "1.0, success, at 0 Abort"
echo "as described"
