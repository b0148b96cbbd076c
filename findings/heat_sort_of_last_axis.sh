#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: heat 1.8.0, torch 2.15.0, mpi4py 4.1.2 and mpich 5.0.2 from the Python package index.
# Behaviour: heat.sort of a vector that is distributed over three processes (split=0), with its default axis, -1, which its
#   documentation calls the last one, and with axis=0, the same axis of a vector.
# A good guess: both sort the vector.
# Seen: with the default axis each process sorts its own part alone, and the vector is not sorted, without an error or a
#   warning; a vector on one process is. The axis is made positive, but the result of that is not used where the axis is
#   compared with the one that is distributed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q heat==1.8.0 torch==2.15.0 mpi4py==4.1.2 mpich==5.0.2
cat >"$folder/sort.py" <<'PYTHON'
import heat
import numpy
from mpi4py import MPI

values = numpy.random.RandomState(1).rand(1000).astype("f4")
found = []
for options in ({}, {"axis": 0}):
    result = heat.sort(heat.array(values, split=0), **options)[0].numpy()
    found.append("sorted" if (result == numpy.sort(values)).all() else "not sorted")
if MPI.COMM_WORLD.rank == 0:
    print(", ".join(found))
PYTHON
export OMP_NUM_THREADS=1
run() { MPI4PY_MPIABI=mpich "$folder/venv/bin/mpiexec" -n "$1" "$folder/venv/bin/python" "$folder/sort.py" </dev/null; }
one=$(run 1)
three=$(run 3)
echo "default axis, axis 0: one process: $one; three: $three"
[ "$one" = "sorted, sorted" ] && [ "$three" = "not sorted, sorted" ] || { echo "the results are others now"; exit 1; }
echo "as described"
