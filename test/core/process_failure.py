#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# A rank of a job is killed. By default the launcher ends the job and names it; with --continue-on-failure the other
# ranks get errors and go on. usage: process_failure.py PROGRAM [RUNS PER OPERATION]
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
RUNS = int(sys.argv.pop(2)) if len(sys.argv) > 2 else 1
from support import PEER as PROGRAM  # noqa: E402
from support import Mark, run  # noqa: E402

RANKS = 4
POINT_TO_POINT = ("send", "ssend", "receive", "any_source", "probe", "test")
COLLECTIVES = ("barrier", "bcast", "allreduce", "alltoall")
# Not bcast: a survivor may wait in MPI_Finalize for capacity at a survivor that has left.
BY_MESSAGES = ("barrier", "allreduce", "alltoall")
MESSAGES = ("bcast_large", "allreduce_large", "alltoall_large", "iallreduce", "iallreduce_large")
SURVIVE_KILL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "network", "survive_kill.sh")


class ProcessFailure(unittest.TestCase):
    def setUp(self):
        self.mark = Mark()

    def run_job(self, *arguments, **variables):
        begin = time.monotonic()
        result = run("-n", RANKS, *arguments, variables={**self.mark.variables, **variables}, timeout=30)
        self.assertEqual(self.mark.processes(), [])
        return *result, time.monotonic() - begin

    def check_survivors(self, operation, **variables):
        for _ in range(RUNS):
            victim, lifetime = random.randrange(RANKS), random.randrange(1000, 60000)
            command = ["--continue-on-failure", PROGRAM, operation, victim, lifetime]
            status, output, errors, _ = self.run_job(*command, **variables)
            context = f"{operation}, victim {victim}, {lifetime} us: {output}{errors}"
            self.assertEqual(output.count("good rank"), RANKS - 1, context)
            self.assertEqual(status, 137, context)
            self.assertIn(f"rank {victim} (pid", errors, context)

    def test_messages(self):
        for operation in POINT_TO_POINT:
            with self.subTest(operation):
                self.check_survivors(operation)

    def test_collectives_in_shared_memory(self):
        for operation in COLLECTIVES:
            with self.subTest(operation):
                self.check_survivors(operation)

    def test_collectives_by_messages(self):
        for operation in BY_MESSAGES:
            with self.subTest(operation):
                self.check_survivors(operation, WEFT_COLL_SHARED="off")
        for operation in MESSAGES:
            with self.subTest(operation):
                self.check_survivors(operation)

    def check_ended(self, handler):
        victim = random.randrange(RANKS)
        status, output, errors, seconds = self.run_job(PROGRAM, "receive", victim, 50000, *handler)
        self.assertEqual(status, 137, errors)
        self.assertIn(f"rank {victim} (pid", errors)
        self.assertIn("was killed by signal 9", errors)
        self.assertNotIn("weft[", errors)  # a survivor's message
        self.assertEqual(output, "")
        self.assertLess(seconds, 4)  # start-up included

    def test_by_default_the_launcher_ends_the_job(self):
        for _ in range(RUNS):
            self.check_ended(())
            self.check_ended(("fatal",))

    def test_survivors_abort_if_the_launcher_does_not_end_the_job(self):
        command = ["sh", SURVIVE_KILL, PROGRAM, "receive", 1, 50000, "fatal"]
        status, _, errors, seconds = self.run_job(*command)
        self.assertGreater(seconds, 2)
        self.assertIn("MPI_Recv failed: process 1 has failed (pid", errors)
        self.assertNotIn(status, (0, 137))


if __name__ == "__main__":
    unittest.main(verbosity=2)
