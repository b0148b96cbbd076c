#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Python objects by MPI: lower-case methods accept any object that can be pickled. mpiexec -n 4 python3 hello.py
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.Get_rank(), comm.Get_size()

right, left = (rank + 1) % size, (rank - 1) % size
note = comm.sendrecv({"from": rank, "words": ["hello"] * rank}, dest=right, source=left)
assert note == {"from": left, "words": ["hello"] * left}

notes = comm.gather("rank %d received from rank %d" % (rank, note["from"]), root=0)
if rank == 0:
    print(MPI.Get_library_version().splitlines()[0])
    print("\n".join(notes))
