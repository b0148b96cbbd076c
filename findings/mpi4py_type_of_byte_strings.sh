#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpi4py 4.1.2, mpich 5.0.2 and numpy 2.4.6 from the Python package index.
# Behaviour: mpi4py.util.dtlib.from_numpy_dtype of a structure with a field of five bytes (S5); one record is sent with this type.
# A good guess: the record arrives, or the function refuses the field, as it refuses fields of type V5 and other byte orders.
# Seen: the type holds one character of the field: b'alpha' arrives as b'a'. The extent is right, so that nothing else shows it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mpi4py==4.1.2 mpich==5.0.2 numpy==2.4.6
cat >"$folder/record.py" <<'P'
import numpy
from mpi4py import MPI
from mpi4py.util import dtlib

record = numpy.dtype([("name", "S5"), ("value", "f8")])
datatype = dtlib.from_numpy_dtype(record).Commit()
sent = numpy.array([(b"alpha", 1.0)], record)
received = numpy.zeros(1, record)
MPI.COMM_SELF.Sendrecv([sent, 1, datatype], 0, 0, [received, 1, datatype], 0, 0)
print(received["name"][0].item(), received["value"][0].item(), "extent", datatype.extent, "of", record.itemsize)
P
seen=$("$folder/venv/bin/mpiexec" -n 1 "$folder/venv/bin/python" "$folder/record.py" </dev/null)
echo "mpi4py 4.1.2: $seen"
[ "$seen" = "b'a' 1.0 extent 13 of 13" ] || { echo "something else arrives now"; exit 1; }
echo "as described"
