#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: maybempi 0.1.2, mpi4py 4.1.2 and mpich 5.0.2 from the Python package index.
# Behaviour: maybempi gives mpi4py's module in a job of MPI and a stand-in for one process otherwise, whose results are those of MPI on
#   one process by its documentation. A list goes through bcast, allgather and allreduce, and its original is changed then.
# A good guess: the results do not change, as those of mpi4py, which copies objects through pickle also on one process.
# Seen: the stand-in returns the object itself, so that the results change with it: a program that is right with
#   `mpiexec -n 1` gives something else without mpiexec. A message from recv is a copy in both.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q maybempi==0.1.2 mpi4py==4.1.2 mpich==5.0.2
cat >"$folder/share.py" <<'P'
from maybempi import MPI

comm = MPI.COMM_WORLD
original = [1]
request = comm.isend(original, 0, 0)
results = [comm.bcast(original), comm.allgather(original)[0], comm.allreduce(original), comm.recv(source=0, tag=0)]
request.wait()
original.append(2)
print(*results)
P
with=$("$folder/venv/bin/mpiexec" -n 1 "$folder/venv/bin/python" "$folder/share.py" </dev/null)
without=$("$folder/venv/bin/python" "$folder/share.py" </dev/null)
echo "maybempi 0.1.2, bcast, allgather, allreduce, recv: with mpiexec $with, without $without"
[ "$with" = "[1] [1] [1] [1]" ] || { echo "mpi4py gives something else now"; exit 1; }
[ "$without" = "[1, 2] [1, 2] [1, 2] [1]" ] || { echo "the stand-in gives something else now"; exit 1; }
echo "as described"
