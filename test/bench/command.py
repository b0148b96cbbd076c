#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# weft bench: finds the programs, passes on options and exit status, refuses unknown programs.
import os
import re
import subprocess
import unittest

PREFIX = os.environ["MPI_PREFIX"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def bench(*options):
    """Returns (status, output, errors) of `weft bench ...`."""
    words = [os.path.join(PREFIX, "bin", "weft"), "bench", *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=50, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


class Bench(unittest.TestCase):
    def test_runs(self):
        status, out, err = bench("latency", "-m", "8:8", "-i", "10", "-x", "1", "-c")
        self.assertEqual(status, 0, err)
        self.assertIn("# Weft MPI Latency Test", out)
        self.assertIn("Pass", out)
        status, out, err = bench("alltoall", "-n", "3", "-m", "1:4", "-i", "2", "--mpiexec", "--bind-to none")
        self.assertEqual(status, 0, err)
        self.assertEqual(len(out.splitlines()), 5)
        status, out, err = bench("mbw_mr", "-m", "8:8", "-i", "2")  # one rank per core, at least two cores
        self.assertEqual(status, 0, err)
        self.assertIn("# [ pairs: %d ]" % max(1, len(os.sched_getaffinity(0)) // 2), out)

        options = ("-n", "2", "-m", "8:32", "-i", "2", "-c", "-T", "mpi_int", "-D", "vect:4:2", "-I")
        status, out, err = bench("allgather", *options)
        self.assertEqual(status, 0, err)
        self.assertIn("# Datatype: MPI_INT.\n# Derived datatype: vect:4:2, 2 of 4 elements", out)

    def test_passes_the_status_on(self):
        self.assertEqual(bench("latency", "-m", "8:4")[0], 2)
        status, _, err = bench("latency", "-n", "3")
        self.assertEqual(status, 2)
        self.assertIn("needs exactly 2 ranks, not 3", err)

    def test_documented_settings_exist(self):
        # Every setting of Weft named on the pages about GPU memory exists in this build.
        words = [os.path.join(PREFIX, "bin", "weft"), "info", "--config", "--all"]
        listed = subprocess.run(words, capture_output=True, text=True, check=True, timeout=50).stdout
        known = set(re.findall(r"^(WEFT_[A-Z0-9_]+) = ", listed, re.MULTILINE))
        for page, least in (("gpu.md", 15), ("gpu-internals.md", 10)):
            with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as file:
                named = set(re.findall(r"`(WEFT_[A-Z0-9_]*[A-Z0-9])(?:=\w+)?`", file.read()))
            self.assertGreater(len(named), least)
            self.assertEqual(named - known, set())

    def test_refusals(self):
        for options in (("-n", "0"), ("-n", "x"), ("-n",), ("--mpiexec",)):
            status, _, err = bench("latency", *options)
            self.assertEqual(status, 2)
            self.assertIn(f"weft bench: {options[0]}", err)
        self.assertEqual(bench("nonsense")[0], 2)


if __name__ == "__main__":
    unittest.main()
