#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# On a machine with GPUs: every program validates every combination of host, pinned, device and managed memory.
import os
import subprocess
import unittest

PREFIX = os.environ["MPI_PREFIX"]
COMBINATIONS = 16


class Kinds(unittest.TestCase):
    def check(self, program, sizes):
        words = [os.path.join(PREFIX, "bin", "weft"), "bench", program, "-n", "2", "-s", "all", "-m", sizes]
        words += ["-c", "-i", "5", "-x", "1"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        low, high = (int(size).bit_length() for size in sizes.split(":"))
        self.assertEqual(done.stdout.count("Pass"), COMBINATIONS * (high - low + 1), done.stdout)

    def test_latency(self):
        self.check("latency", "1:67108864")

    def test_bw(self):
        self.check("bw", "1:16777216")

    def test_bibw(self):
        self.check("bibw", "1:16777216")

    def test_alltoall(self):
        self.check("alltoall", "1:4194304")

    def test_allreduce(self):
        self.check("allreduce", "4:16777216")


if __name__ == "__main__":
    unittest.main()
