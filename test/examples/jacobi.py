#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The Jacobi solver under mpiexec: every variant gives the single-device result, whatever the split of the rows;
# options are refused with their range. JACOBI_PROGRAM and MPIEXEC may name other builds.
import os
import re
import shlex
import subprocess
import unittest

PREFIX = os.environ.get("MPI_PREFIX", "")
PROGRAM = os.environ.get("JACOBI_PROGRAM") or os.path.join(PREFIX, "libexec", "weft", "jacobi")
MPIEXEC = shlex.split(os.environ.get("MPIEXEC", "")) or [os.path.join(PREFIX, "bin", "mpiexec")]
RANKS = int(os.environ.get("JACOBI_RANKS", "2"))
SIMULATED = os.environ.get("JACOBI_SIMULATED")  # a driver that needs no GPU
DEVICE = os.environ.get("JACOBI_DEVICE", "host")
ITERATIONS = int(os.environ.get("JACOBI_NITER", "57"))
VARIANTS = ("cuda_aware", "host_staged", "overlap")
UNIT = "GPU" if DEVICE == "cuda" else "rank"


def jacobi(*options, device=DEVICE):
    """(status, output, errors) of a run."""
    preload = ["env", "LD_PRELOAD=" + SIMULATED, "JACOBI_CUDA_DRIVER=" + SIMULATED] if SIMULATED else []
    words = [*MPIEXEC, "-n", str(RANKS), *preload, PROGRAM, *map(str, options)]
    if device:
        words += ["-device", device]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def several(count, unit):
    return "%d %s%s" % (count, unit, "" if count == 1 else "s")


class Jacobi(unittest.TestCase):
    def check(self, *options):
        status, out, err = jacobi(*options)
        self.assertEqual(status, 0, "%s\n%s%s" % (options, out, err))
        found = re.search(r"Largest difference to the result of one \w+: (\S+) \((\d+) and (\d+) iterations\): ok", out)
        self.assertIsNotNone(found, out)
        self.assertEqual(float(found.group(1)), 0.0, out)  # the same arithmetic for each cell: no rounding apart
        self.assertEqual(found.group(2), found.group(3))
        return out, int(found.group(2))

    def test_equals_one_device(self):
        for variant in VARIANTS:
            for nx, ny in ((64, RANKS + 2), (132, 21), (257, 12), (3, 9)):  # one row a rank; uneven; odd width
                self.check("-nx", nx, "-ny", ny, "-niter", ITERATIONS, "-variant", variant)

    def test_checks_of_the_norm_do_not_change_the_result(self):
        for variant in VARIANTS:
            for every in (1, 7, 1000):
                size = ("-nx", 96, "-ny", 17, "-niter", ITERATIONS)
                _, iterations = self.check(*size, "-nccheck", every, "-variant", variant)
                self.assertEqual(iterations, ITERATIONS)

    def test_stops_at_the_tolerance(self):
        counts = set()
        for variant in VARIANTS:
            _, iterations = self.check("-nx", 10, "-ny", 12, "-niter", 100000, "-variant", variant)
            counts.add(iterations)
        self.assertEqual(len(counts), 1)
        self.assertLess(counts.pop(), 5000)

    def test_output(self):
        out, _ = self.check("-nx", 64, "-ny", 32, "-niter", 101)
        self.assertRegex(out, r"(?m)^ +0, \d+\.\d{6}$")
        self.assertRegex(out, r"(?m)^ +100, \d+\.\d{6}$")
        self.assertIn("Num %ss: %d." % (UNIT, RANKS), out)
        times = r"(?m)^64x32: 1 %s: +[\d.]+ s, %s: +[\d.]+ s, speedup: +[\d.]+, efficiency: +[\d.]+$"
        self.assertRegex(out, times % (UNIT, several(RANKS, UNIT)))
        self.assertEqual("no GPU: host memory" in out, DEVICE == "host")

    def test_csv_and_skip(self):
        status, out, err = jacobi("-nx", 64, "-ny", 32, "-niter", 5, "-csv")
        self.assertEqual(status, 0, err)
        self.assertRegex(out, r"^mpi, 64, 32, 5, 1, %d, 1, \d+\.\d+, \d+\.\d+\n$" % RANKS)
        status, out, err = jacobi("-nx", 64, "-ny", 32, "-niter", 5, "-csv", "-skip_single_gpu", "-variant", "overlap")
        self.assertEqual(status, 0, err)
        self.assertRegex(out, r"^mpi_overlap, 64, 32, 5, 1, %d, 1, \d+\.\d+, nan\n$" % RANKS)
        status, out, _ = jacobi("-nx", 64, "-ny", 32, "-niter", 5, "-skip_single_gpu")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"(?m)^64x32: %s: +[\d.]+ s$" % several(RANKS, UNIT))

    def test_refusals(self):
        for options, says in (
            (("-nx", 2), "-nx 2: expected a whole number from 3 to 1073741824"),
            (("-ny", "x"), "-ny x: expected a whole number from 3 to 1073741824"),
            (("-niter", 0), "-niter 0: expected a whole number from 1 to 1000000000"),
            (("-nccheck", "1.5"), "-nccheck 1.5: expected a whole number from 1 to 1000000000"),
            (("-variant", "fast"), "-variant fast: expected one of cuda_aware, host_staged, overlap"),
            (("-device", "rocm"), "-device rocm: expected one of auto, cuda, host"),
            (("-size", 5), "-size: unknown option"),
            (("12",), "12: unexpected argument"),
            (("-nx",), "-nx: its value is missing"),
        ):
            status, out, err = jacobi(*options, device=None)
            self.assertNotEqual(status, 0, options)
            self.assertIn("jacobi: " + says, err)
            self.assertNotIn("speedup", out)
        if RANKS > 1:
            status, _, err = jacobi("-ny", RANKS + 1)
            self.assertNotEqual(status, 0)
            self.assertIn("ranks need at least %d rows" % (RANKS + 2), err)


if __name__ == "__main__":
    unittest.main()
