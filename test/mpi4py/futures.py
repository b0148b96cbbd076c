#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# A pool of workers as docs/python.md starts it. usage: futures.py FOLDER; status 77 if mpi4py is not built. Starts
# itself with 3 ranks.
import os
import subprocess
import sys

SKIPPED = 77


def square(number):
    return number * number


def main():
    if len(sys.argv) == 1:
        from mpi4py.futures import MPIPoolExecutor

        with MPIPoolExecutor() as pool:
            print("sum", sum(pool.map(square, range(10))), "workers", pool.num_workers)
        return 0
    folder = os.path.abspath(sys.argv[1])
    if not os.path.exists(os.path.join(folder, "stamp")):
        print("skipped: mpi4py was not built")
        return SKIPPED
    command = [os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec"), "-n", "3", "--timeout", "60"]
    done = subprocess.run(
        [*command, sys.executable, "-m", "mpi4py.futures", os.path.abspath(__file__)],
        stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, "PYTHONPATH": folder},
    )  # fmt: skip
    print(done.stdout)
    return 0 if (done.returncode, done.stdout) == (0, "sum 285 workers 2\n") else 1


if __name__ == "__main__":
    sys.exit(main())
