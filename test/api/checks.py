#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# WEFT_CHECK=on reports extensions and leaks once, with their arguments; the default reports nothing. An unknown setting
# is refused with the nearest name, and errors of settings name them.
# usage: checks.py PROGRAM
import os
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
# The programs leak objects on purpose, and with them the memory that AddressSanitizer would report.
LEAKS = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def reports(what, ranks=1, **variables):
    """The lines on stderr of a run, which must succeed."""
    done = subprocess.run(["mpiexec", "-n", str(ranks), PROGRAM, what], env={**os.environ, **variables},
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

    def test_messages(self):
        for what, ranks, text in (
            ("sent", (0, 1), "request that leaks: a send of 40 bytes to rank %d with tag 4 on MPI_COMM_WORLD is complete"),
            ("unreceived", (0,), "message that was never received: from rank 0 with tag 3, 40 bytes on MPI_COMM_WORLD"),
        ):  # fmt: skip
            self.assertEqual(reports(what, 2, **LEAKS), [])
            lines = reports(what, 2, WEFT_CHECK="1", **LEAKS)
            found = [text % rank if "%d" in text else text for rank in ranks]
            self.assertEqual(len(lines), len(found), lines)
            for one in found:
                self.assertEqual(sum("MPI_Finalize found a " + one in line for line in lines), 1, lines)

    def test_different_collectives(self):
        """Without the check no text blames a count that is right."""
        command = ["mpiexec", "--timeout", "2", "-n", "2", PROGRAM, "mismatch"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertNotIn("larger count", done.stderr)
        self.assertRegex(done.stderr, "make collectives, counts and types|mismatched collectives on MPI_COMM_WORLD")
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "WEFT_CHECK": "on"})  # fmt: skip
        self.assertIn("rank 0 calls MPI_Bcast, rank 1 calls MPI_Barrier", done.stderr)

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

    def test_values_of_the_abi(self):
        self.expect("darray", "MPI_Type_create_darray: array_of_dargs[0] = 19 is MPI_DISTRIBUTE_DFLT_DARG")

    def test_settings_are_named(self):
        for setting, value, why in (
            ("WEFT_CUDA_DRIVER", "/nonexistent.so", "cannot be loaded"),
            ("WEFT_PROFILE", "/dev/zero", "is larger than 16777216 bytes"),
            ("WEFT_PROFILE", "/", "cannot be read"),
        ):
            variables = {name: given for name, given in os.environ.items() if name != "WEFT_CUDA"}
            done = subprocess.run([PROGRAM, "nothing"], env={**variables, setting: value}, capture_output=True,
                                  text=True, timeout=50, check=False)  # fmt: skip
            self.assertNotEqual(done.returncode, 0)
            self.assertRegex(done.stderr, f"{setting}: .*{value}.* {why}")
        lines = reports("copies", ranks=2, WEFT_SHM_SINGLE_COPY="off", WEFT_CUDA="off")
        self.assertEqual([line for line in lines if "disabled by WEFT_SHM_SINGLE_COPY=off" not in line], [])
        self.assertGreater(len(lines), 0)

    def test_nothing(self):
        self.assertEqual(reports("nothing", WEFT_CHECK="on"), [])


if __name__ == "__main__":
    unittest.main()
