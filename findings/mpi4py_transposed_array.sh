#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpi4py 4.1.2, mpich 5.0.2 and numpy 2.4.6 from the Python package index.
# Behaviour: Send of a transposed array (a.T), whose elements lie in the order of Fortran, and Recv into a new array of the same shape.
# A good guess: the array arrives, or it is refused, as mpi4py refuses a[:, ::2] ("buffer is not contiguous"): neither array can be
#   passed as it is shown.
# Seen: the memory is sent: element [0, 1] arrives as [1, 0] of a square array. send, which pickles, keeps the elements in place.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mpi4py==4.1.2 mpich==5.0.2 numpy==2.4.6
cat >"$folder/transpose.py" <<'P'
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
a = numpy.arange(4.0).reshape(2, 2)
shown = a.T
if comm.rank == 0:
    comm.Send(shown, dest=1)
    comm.send(shown, dest=1)
    try:
        comm.Send(numpy.zeros((2, 4))[:, ::2], dest=1)
    except (BufferError, ValueError):
        comm.send("refused", dest=1)
else:
    got = numpy.empty_like(numpy.ascontiguousarray(shown))
    comm.Recv(got, source=0)
    pickled = comm.recv(source=0)
    print("sent", shown.tolist(), "Recv", got.tolist(), "recv", pickled.tolist(), "strided", comm.recv(source=0))
P
found=$("$folder/venv/bin/mpiexec" -n 2 "$folder/venv/bin/python" "$folder/transpose.py" </dev/null)
echo "mpi4py 4.1.2: $found"
expected="sent [[0.0, 2.0], [1.0, 3.0]] Recv [[0.0, 1.0], [2.0, 3.0]] recv [[0.0, 2.0], [1.0, 3.0]] strided refused"
[ "$found" = "$expected" ] || { echo "other elements now"; exit 1; }
echo "as described"
