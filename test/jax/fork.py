#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# A child of fork() of a Python program of Weft ends like one without MPI. usage: mpiexec -n N fork.py PREFIX
import os
import sys

sys.path.insert(0, os.path.join(sys.argv[1], "share", "weft", "python"))
from weft_mpi import processes  # noqa: E402

job = processes.current()
job.open()
child = os.fork()
if child == 0:
    sys.exit(5)
status = os.waitpid(child, 0)[1]
assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 5, status
