# SPDX-License-Identifier: BSD-3-Clause
# examples/fortran/jacobi.F90 computes what a solver in one process does, with any number of ranks.
import os
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "fortran", "jacobi.F90")
POINTS, ITERATIONS = 21, 40


def reference():
    """(largest change, mean) after the iterations."""
    grid = [[1.0] * (POINTS + 2)] + [[0.0] * (POINTS + 2) for _ in range(POINTS + 1)]
    change = 0.0
    for _ in range(ITERATIONS):
        new = [row[:] for row in grid]
        for i in range(1, POINTS + 1):
            for j in range(1, POINTS + 1):
                new[i][j] = (grid[i - 1][j] + grid[i + 1][j] + grid[i][j - 1] + grid[i][j + 1]) / 4
        change = max(abs(a - b) for old_row, row in zip(grid, new) for a, b in zip(old_row, row))
        grid = new
    return change, sum(sum(row[1:-1]) for row in grid[1:-1]) / POINTS**2


def main():
    if not shutil.which("gfortran"):
        print("skipped: there is no gfortran")
        return 77
    wanted = reference()
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "jacobi")
        subprocess.run(["mpifort", "-O2", "-Wall", "-Werror", SOURCE, "-o", program], cwd=folder, check=True)
        for ranks in (1, 2, 3, 4):
            command = ["mpiexec", "-n", str(ranks), program, str(POINTS), str(ITERATIONS)]
            output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout
            found = re.search(r"largest change +(\S+), mean +(\S+)", output)
            assert all(abs(float(a) - b) < 1e-5 * b for a, b in zip(found.groups(), wanted)), (output, wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
