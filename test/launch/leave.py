#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Processes that MPIX_Job_allow_exit lets end one by one: which ends are failures of the job. usage: leave.py PROGRAM
import ctypes
import os
import time
import unittest

from support import MPIEXEC, PEER, hydras, run, time_limit

RANKS = 3
HOSTS = 6  # with a rank each, of which rank 0 exchanges no messages with all in a collective
ON = ["rank 1 goes on", "rank 2 goes on"]
NETWORKS = {"ucx": "libucp.so.0", "ofi": "libfabric.so.1"}
PRTERUN = os.environ.get("TEST_PRTERUN", "")
PREFIX = os.path.dirname(os.path.dirname(PRTERUN))
OTHERS = [(path,) for path in hydras()]
if os.path.exists(PRTERUN):
    OTHERS.append((PRTERUN, "--allow-run-as-root", "--prefix", PREFIX, "--map-by", "slot:OVERSUBSCRIBE"))
WITHOUT_FINALIZE = "exited without calling MPI_Finalize, which is required after MPI_Init"


class Leave(unittest.TestCase):
    def job(self, how, launcher=(MPIEXEC,), ranks=RANKS, **variables):
        """(exit code, lines of output, errors)"""
        status, output, errors = run("-n", ranks, PEER, how, launcher=launcher, variables=variables)
        return status, sorted(output.splitlines()), errors

    def check_ended(self, how, code, text):
        """The end of rank 0 is a failure, which ends the others, who would run for a minute."""
        begin = time.monotonic()
        status, lines, errors = self.job(how)
        self.assertEqual((status, lines), (code, []), errors)
        self.assertIn(text, errors)
        self.assertLess(time.monotonic() - begin, time_limit(20))

    def test_others_go_on(self):
        self.assertEqual(self.job("leave"), (0, ON, ""))

    def test_other_launchers(self):
        for launcher in OTHERS:
            for how in ("leave", "needed"):
                with self.subTest(launcher=launcher[0], how=how):
                    self.assertEqual(self.job(how, launcher), (0, ON, ""))

    def test_who_needs_it_gets_an_error(self):
        self.assertEqual(self.job("needed"), (0, ON, ""))

    def test_what_it_has_sent_arrives(self):
        self.assertEqual(self.job("sent"), (0, ON, ""))

    def test_others_make_a_communicator(self):
        self.assertEqual(self.job("regrouped"), (0, ON, ""))

    def test_what_it_has_completed_completes(self):
        self.assertEqual(self.job("last"), (0, ["rank 0 goes on", *ON], ""))

    def test_between_hosts(self):
        for name, library in NETWORKS.items():
            try:
                ctypes.CDLL(library)
            except OSError:
                print(f"without {name}: {library} is not installed")
                continue
            network = {"WEFT_NET": name, "UCX_TLS": "tcp", "FI_PROVIDER": "tcp", "WEFT_FAKE_HOSTS": str(HOSTS)}
            network["UCX_LOG_LEVEL"] = "fatal"  # UCX logs connections that it was making to a process that has ended
            for how in ("needed", "awaited", "reduced", "copied", "regrouped", "first", "last"):
                with self.subTest(network=name, how=how):
                    status, lines, errors = self.job(how, ranks=HOSTS, **network)
                    on = [f"rank {rank} goes on" for rank in range(0 if how == "last" else 1, HOSTS)]
                    self.assertEqual((status, lines), (0, on), errors)

    def test_another_status_is_a_failure(self):
        self.check_ended("status", 3, "rank 0")

    def test_a_signal_is_a_failure(self):
        self.check_ended("signal", 128 + 9, "rank 0")

    def test_a_child_does_not_leave(self):
        self.check_ended("child", 128 + 9, "rank 0")

    def test_exit_at_once_is_a_failure(self):
        self.check_ended("immediate", 1, WITHOUT_FINALIZE)

    def test_initialized_programs_finalize(self):
        self.check_ended("init", 1, WITHOUT_FINALIZE)

    def test_without_the_function_it_is_a_failure(self):
        self.check_ended("forbidden", 1, WITHOUT_FINALIZE)


if __name__ == "__main__":
    unittest.main()
