#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# `mpiexec -n 4 python -m mpi4py.bench` with mpi4py's binary package, as its documentation prints it. usage: bench.py
# FOLDER of the package; status 77 if it is not there.
import os
import re
import subprocess
import sys
import unittest

FOLDER = sys.argv[1]


class Bench(unittest.TestCase):
    def bench(self, program, *options, **variables):
        command = [os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec"), "-n", "4", sys.executable, "-m"]
        environment = {**os.environ, "PYTHONPATH": FOLDER, **variables}
        done = subprocess.run(
            [*command, "mpi4py.bench", program, *options], env=environment, capture_output=True, text=True, timeout=100
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def test_helloworld(self):
        """Without a setting, and with each interface."""
        for variables in ({}, {"MPI4PY_MPIABI": "mpich"}, {"MPI4PY_MPIABI": "openmpi"}):
            with self.subTest(**variables):
                ranks = re.findall(
                    r"^Hello, World! I am process (\d) of 4 on", self.bench("helloworld", **variables), re.M
                )
                self.assertEqual(sorted(ranks), list("0123"))

    def test_ringtest(self):
        self.assertRegex(self.bench("ringtest", "-n", "100", "-l", "10"), r"^time for 10 loops = ")


if __name__ == "__main__":
    if not os.path.isdir(os.path.join(FOLDER, "mpi4py")):
        print(f"skipped: no binary package of mpi4py in {FOLDER}")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
