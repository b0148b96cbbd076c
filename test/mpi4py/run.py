#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs one module of mpi4py's tests with n ranks; fails as well when fewer tests ran than the module has.
# usage: run.py SOURCE FOLDER RANKS MODULE; status 77 when mpi4py could not be built.
import os
import re
import subprocess
import sys

SKIPPED = 77


def main():
    source, folder, ranks, module = sys.argv[1:5]
    if not os.path.exists(os.path.join(folder, "stamp")):
        print("skipped: mpi4py was not built")
        return SKIPPED
    mpiexec = os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec")
    runner = [sys.executable, os.path.join(source, "test", "main.py"), "--no-builddir", "--path", folder]
    command = [mpiexec, "-n", ranks, *runner, "-f", "-i", module + r"\.py$"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout)
    ran = [int(count) for count in re.findall(r"Ran (\d+) tests?", done.stdout)]
    if done.returncode == 0 and (len(ran) != int(ranks) or min(ran) == 0):
        print("not every rank ran tests: %s" % ran)
        return 1
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
