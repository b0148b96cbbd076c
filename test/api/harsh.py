#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Programs and surroundings that MPI cannot choose: limits, children, a rank that ends early.
import resource
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
SANITIZED = sys.argv.pop(1) == "sanitized"


def run(ranks, what, limit=None, program=(PROGRAM,), **options):
    def before():
        if limit:
            resource.setrlimit(limit[0], (limit[1], limit[1]))

    done = subprocess.run(
        ["mpiexec", "-n", str(ranks), *program, what],
        capture_output=True, text=True, timeout=50, check=False, preexec_fn=before, **options,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


class Limits(unittest.TestCase):
    @unittest.skipIf(SANITIZED, "sanitizers take terabytes of address space")
    def test_little_address_space(self):
        self.assertEqual(run(4, "talk", (resource.RLIMIT_AS, 150 << 20)), (0, "", ""))

    @unittest.skipIf(SANITIZED, "sanitizers take terabytes of address space")
    def test_requests_that_are_never_completed(self):
        self.assertEqual(run(1, "requests", (resource.RLIMIT_AS, 150 << 20)), (0, "", ""))

    @unittest.skipIf(SANITIZED, "sanitizers take terabytes of address space")
    def test_messages_of_requests_that_are_refused_do_not_leave(self):
        self.assertEqual(run(2, "sends", (resource.RLIMIT_AS, 150 << 20)), (0, "", ""))

    def test_small_files(self):
        status, output, errors = run(2, "talk", (resource.RLIMIT_FSIZE, 1 << 20))
        self.assertEqual((status, output), (16, ""))
        self.assertIn("ulimit -f", errors)

    def test_few_descriptors(self):
        self.assertEqual(run(2, "talk", (resource.RLIMIT_NOFILE, 40)), (0, "", ""))

    @unittest.skipIf(SANITIZED, "sanitizers open files of their own")
    def test_as_few_descriptors_as_start_up_takes_or_fewer(self):
        refused = 0
        for most in range(5, 9):
            limited = ("sh", "-c", 'ulimit -n %d; exec "%s" "$0"' % (most, PROGRAM))
            status, _, errors = run(2, "talk", program=limited)
            self.assertIn(status, (0, 16), errors)
            if status:
                self.assertIn("shared memory: ", errors)  # of the rank that has none left, or of the one it refuses
                refused += 1
        self.assertIn(refused, range(1, 4))

    def test_no_locked_memory(self):
        self.assertEqual(run(2, "talk", (resource.RLIMIT_MEMLOCK, 0)), (0, "", ""))


class Programs(unittest.TestCase):
    def test_children_leave_mpi_alone(self):
        status, output, errors = run(2, "children")
        self.assertEqual((status, output), (0, ""))
        self.assertEqual(errors.count("MPI_Barrier was called in a child of fork()"), 2, errors)

    def test_signals_all_the_time(self):
        for _ in range(5):
            self.assertEqual(run(3, "timer"), (0, "", ""))

    def test_finalize_is_no_barrier_of_the_others(self):
        status, output, errors = run(2, "early")
        self.assertEqual((status, output), (5, "still waiting\n"), errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
