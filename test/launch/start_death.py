#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# A rank dies in MPI_Init, after its addresses have been exchanged and before it has the shared memory: the others do
# not wait for it. usage: start_death.py PROGRAM
import re
import sys
import unittest

from support import PEER as PROGRAM
from support import run, time_limit

# Speaks PMI-1 as MPI_Init does, until the exchange is over.
DYING = """
import os, signal, socket
launcher = socket.socket(fileno=int(os.environ["PMI_FD"]))
for command in ("init pmi_version=1 pmi_subversion=1", "barrier_in"):
    launcher.sendall(f"cmd={command}\\n".encode())
    assert launcher.recv(4096).endswith(b"\\n")
os.kill(os.getpid(), signal.SIGKILL)
"""


class StartDeath(unittest.TestCase):
    def check(self, dead, *options):
        words = []
        for rank in range(3):
            program = (sys.executable, "-c", DYING) if rank == dead else (PROGRAM, "error")
            words += [":"] * (rank > 0) + ["-n", 1, *program]
        status, output, errors = run(*options, *words)
        self.assertEqual(status, 128 + 9, errors)
        return output, errors

    def test_the_job_continues(self):
        for dead in (1, 2):
            output, errors = self.check(dead, "--continue-on-failure")
            texts = re.findall(rf"after (\d+) s: .*process {dead} has ended before all processes", output)
            self.assertEqual(len(texts), 2, output + errors)
            for seconds in texts:
                self.assertLess(int(seconds), time_limit(10))

    def test_the_job_ends(self):
        _, errors = self.check(2)
        self.assertIn("was killed by signal 9", errors)


if __name__ == "__main__":
    unittest.main()
