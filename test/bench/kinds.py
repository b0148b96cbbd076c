#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Every program validates every combination of host, pinned, device and managed memory, on GPUs or on the emulated
# driver. KINDS_MIN, KINDS_MAX: smallest and largest size in bytes; KINDS_ITERATIONS: iterations per size;
# KINDS_WINDOW: messages of a window.
import os
import subprocess
import unittest

PREFIX = os.environ["MPI_PREFIX"]
COMBINATIONS = 16
SMALLEST = int(os.environ.get("KINDS_MIN", "1"))
LARGEST = int(os.environ.get("KINDS_MAX", str(64 << 20)))
ITERATIONS = os.environ.get("KINDS_ITERATIONS", "5")
WINDOW = ["-W", os.environ.get("KINDS_WINDOW", "64")]


class Kinds(unittest.TestCase):
    def check(self, program, low, high, *options, ranks=2):
        low, high = max(low, SMALLEST), min(high, LARGEST)
        words = [os.path.join(PREFIX, "bin", "weft"), "bench", program, "-n", str(ranks), "-s", "all", "--share-gpus"]
        words += ["-m", "%d:%d" % (low, high), "-c", "-i", ITERATIONS, "-x", "1", *options]
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        sizes = high.bit_length() - low.bit_length() + 1
        self.assertEqual(done.stdout.count("Pass"), COMBINATIONS * sizes, done.stdout)

    def test_latency(self):
        self.check("latency", 1, 64 << 20)

    def test_bw(self):
        self.check("bw", 1, 16 << 20, *WINDOW)

    def test_bibw(self):
        self.check("bibw", 1, 16 << 20, *WINDOW)

    def test_multi_lat(self):
        self.check("multi_lat", 8 << 10, 64 << 10, ranks=4)

    def test_mbw_mr(self):
        self.check("mbw_mr", 8 << 10, 64 << 10, *WINDOW, ranks=4)

    def test_alltoall(self):
        self.check("alltoall", 1, 4 << 20)

    def test_allreduce(self):
        self.check("allreduce", 4, 16 << 20)

    def test_types(self):
        self.check("allreduce", 8 << 10, 16 << 10, "-T", "mpi_char")
        self.check("allreduce", 8 << 10, 16 << 10, "-T", "mpi_int", "-I")

    def test_derived_datatypes(self):
        self.check("latency", 16 << 10, 64 << 10, "-T", "mpi_float", "-D", "vect:9:2")
        self.check("bw", 8 << 10, 16 << 10, "-D", "vect:24:8", "-W", "8", "-I")
        self.check("alltoallv", 1 << 10, 8 << 10, "-T", "mpi_int", "-D", "vect:3:1")


if __name__ == "__main__":
    unittest.main()
