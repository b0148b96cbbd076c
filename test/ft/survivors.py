#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs the cases of survivors.cpp. usage: survivors.py PROGRAM
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
from support import PEER as PROGRAM  # noqa: E402
from support import Mark, run  # noqa: E402

OPTIONS = ("--continue-on-failure", "--enable-recovery", "--with-ft=ulfm")


class Survivors(unittest.TestCase):
    def check(self, case, ranks=4, dead=1, option=OPTIONS[0], variables=None):
        mark = Mark()
        arguments = option.split("=")
        status, output, errors = run(*arguments, "-n", ranks, PROGRAM, case, variables={**mark.variables, **(variables or {})},
                                     timeout=60)  # fmt: skip
        self.assertEqual(output.count("good rank"), ranks - dead, output + errors)
        self.assertEqual(status, 137 if dead else 0, errors)
        self.assertEqual(mark.processes(), [])
        self.assertNotIn("Sanitizer", errors)
        if dead:
            self.assertIn("mpiexec: rank 1 (pid", errors)
            self.assertIn("was killed by signal 9", errors)

    def test_receive_from_any_source(self):
        self.check("any_source")

    def test_acknowledged_failures(self):
        for option in OPTIONS:
            self.check("acknowledge", option=option)
        self.check("acknowledge", ranks=2)

    def test_a_stopped_process_is_alive(self):
        self.check("stopped", dead=0)

    def test_window(self):
        self.check("windows")

    def test_created_window(self):
        for slots in ("on", "off"):
            for _ in range(5):
                self.check("created", variables={"WEFT_RMA_OPERATION_SLOTS": slots})

    def test_fence_of_a_created_window(self):
        for slots in ("on", "off"):
            self.check("fence", variables={"WEFT_RMA_OPERATION_SLOTS": slots})

    def test_locks_of_a_window(self):
        for variables in ({}, {"WEFT_SHM_SINGLE_COPY": "off"}):
            self.check("locks", variables=variables)

    def test_intercommunicator(self):
        self.check("inter")

    def test_time_of_detection(self):
        self.check("detection")

    def test_two_deaths(self):
        self.check("two", ranks=5, dead=2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
