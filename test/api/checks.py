#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# WEFT_CHECK=on reports extensions and leaks once, with their arguments; the default reports nothing. An unknown setting
# is refused with the nearest name.
# usage: checks.py PROGRAM
import os
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
# The programs leak objects on purpose, and with them the memory that AddressSanitizer would report.
LEAKS = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def reports(what, **variables):
    """The lines on stderr of a run with one rank, which must succeed."""
    done = subprocess.run(["mpiexec", "-n", "1", PROGRAM, what], env={**os.environ, **variables},
                          capture_output=True, text=True, timeout=50, check=True)  # fmt: skip
    return done.stderr.splitlines()


class Reports(unittest.TestCase):
    def expect(self, what, text):
        self.assertEqual(reports(what, **LEAKS), [])
        lines = reports(what, WEFT_CHECK="on", **LEAKS)
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("WEFT_CHECK: " + text, lines[0])

    def test_extensions(self):
        self.expect("character", "op = MPI_SUM on MPI_CHAR is an extension")
        self.expect("session", "MPI_COMM_WORLD is used without MPI_Init")

    def test_requests(self):
        leak = "MPI_Finalize found a request that leaks: "
        self.expect("receive", leak + "a receive of 1600 bytes from rank any with tag 5 on MPI_COMM_WORLD has not")
        self.expect("combined", leak + "a receive of 1600 bytes from rank 0 with tag 8 on MPI_COMM_SELF has not")
        self.expect("complete", leak + "a receive of 1 bytes from rank 0 with tag 7 on MPI_COMM_SELF is complete")
        self.expect("persistent", leak + "a send to rank 0 with tag 6 on MPI_COMM_WORLD is persistent")
        self.expect("collective", leak + "a nonblocking collective on MPI_COMM_WORLD")

    def test_communicators(self):
        self.expect(
            "communicator", "MPI_Finalize found a communicator that leaks: mine with 1 rank: call MPI_Comm_free"
        )

    def test_windows(self):
        self.expect("window", "MPI_Finalize found a window that leaks: an unnamed window of 1 rank: call MPI_Win_free")
        self.expect(
            "operation", "MPI_Finalize found a request that leaks: the request of a one-sided operation is complete"
        )

    def test_unknown_setting(self):
        for given in ("WEFT_P2P_EAGER", "WEFT_P2P_EAGER_MX"):
            done = subprocess.run([PROGRAM, "nothing"], env={**os.environ, given: "1"}, capture_output=True, text=True,
                                  timeout=50, check=False)  # fmt: skip
            self.assertIn(given + " is not a Weft setting: did you mean WEFT_P2P_EAGER_MAX?", done.stderr)

    def test_nothing(self):
        self.assertEqual(reports("nothing", WEFT_CHECK="on"), [])


if __name__ == "__main__":
    unittest.main()
