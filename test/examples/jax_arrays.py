#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# arrays.py with JAX arrays on the CPU. Fetches JAX into FOLDER if this Python has none (300 MB).
# usage: jax_arrays.py FOLDER_OF_MPI4PY FOLDER; status 77 without mpi4py or JAX.
import importlib.util
import os
import subprocess
import sys

SKIPPED = 77
ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tools", "setup"))
from packages import Missing, Pip  # noqa: E402


def main():
    mpi4py, folder = sys.argv[1:3]
    if not os.path.isdir(os.path.join(mpi4py, "mpi4py")):
        print("skipped: needs mpi4py (the test mpi4py/build makes it)")
        return SKIPPED
    paths = [mpi4py]
    if importlib.util.find_spec("jax") is None:
        paths.append(folder)
        if not os.path.isdir(os.path.join(folder, "jax")):
            try:
                Pip(folder + ".pip").install(["jax"], folder)
            except Missing as error:
                print(f"skipped: {error}")
                return SKIPPED
    mpiexec = os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec")
    program = os.path.join(ROOT, "examples", "python", "arrays.py")
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths), JAX_PLATFORMS="cpu")
    words = [mpiexec, "-n", "2", sys.executable, program, "--library", "jax"]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    good = ["rank %d, cpu, host: all as expected" % rank for rank in range(2)]
    return 0 if done.returncode == 0 and done.stdout.splitlines()[1:] == good else 1


if __name__ == "__main__":
    sys.exit(main())
