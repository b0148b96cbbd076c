#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# A rank is killed in a collective write. usage: killed.py PROGRAM
import os
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    mpiexec = os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec")
    command = [mpiexec, "--continue-on-failure", "-n", "3", sys.argv[1], os.path.join(folder, "data")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=50)
    left = os.listdir(folder)
    if done.stdout.count("survived\n") != 2 or left != ["data"]:
        sys.exit("%sfiles: %s" % (done.stdout, left))
