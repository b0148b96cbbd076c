#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Programs in unusual conditions: resource limits, fork, signals, a rank that exits early.
import resource
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop(1)
SANITIZED = sys.argv.pop(1) == "sanitized"


def run(ranks, what, limit=None, program=(PROGRAM,), **options):
    def set_limit():
        if limit:
            resource.setrlimit(limit[0], (limit[1], limit[1]))

    done = subprocess.run(
        ["mpiexec", "-n", str(ranks), *program, what],
        capture_output=True, text=True, timeout=50, check=False, preexec_fn=set_limit, **options,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


class Limits(unittest.TestCase):
    @unittest.skipIf(SANITIZED, "sanitizers reserve terabytes of address space")
    def test_small_address_space(self):
        self.assertEqual(run(4, "exchange", (resource.RLIMIT_AS, 150 << 20)), (0, "", ""))

    @unittest.skipIf(SANITIZED, "sanitizers reserve terabytes of address space")
    def test_exhausted_requests(self):
        self.assertEqual(run(1, "requests", (resource.RLIMIT_AS, 150 << 20)), (0, "", ""))

    @unittest.skipIf(SANITIZED, "sanitizers reserve terabytes of address space")
    def test_failed_sends_send_no_message(self):
        self.assertEqual(run(2, "sends", (resource.RLIMIT_AS, 150 << 20)), (0, "", ""))

    def test_small_file_size_limit(self):
        status, output, errors = run(2, "exchange", (resource.RLIMIT_FSIZE, 1 << 20))
        self.assertEqual((status, output), (16, ""))
        self.assertIn("ulimit -f", errors)

    def test_few_file_descriptors(self):
        status, output, errors = run(2, "exchange", (resource.RLIMIT_NOFILE, 40))
        self.assertEqual((status, output), (0, ""))
        for line in errors.splitlines():  # ranks are watched from their first long wait on
            self.assertIn("core.unwatched_processes", line)

    @unittest.skipIf(SANITIZED, "sanitizers open files themselves")
    def test_fewer_file_descriptors_than_start_up_needs(self):
        failures = 0
        for limit in range(5, 9):
            limited = ("sh", "-c", 'ulimit -n %d; exec "%s" "$0"' % (limit, PROGRAM))
            status, _, errors = run(2, "exchange", program=limited)
            self.assertIn(status, (0, 16), errors)
            if status:
                self.assertIn("shared memory: ", errors)  # from the rank without descriptors or from its peer
                failures += 1
        self.assertIn(failures, range(1, 4))

    def test_no_locked_memory(self):
        self.assertEqual(run(2, "exchange", (resource.RLIMIT_MEMLOCK, 0)), (0, "", ""))


class Programs(unittest.TestCase):
    def test_mpi_in_forked_children(self):
        status, output, errors = run(2, "children")
        self.assertEqual((status, output), (0, ""))
        self.assertEqual(errors.count("MPI_Barrier was called in a child of fork()"), 2, errors)

    def test_frequent_signals(self):
        for _ in range(5):
            self.assertEqual(run(3, "timer"), (0, "", ""))

    def test_finalize_does_not_complete_a_barrier_of_other_ranks(self):
        status, output, errors = run(2, "early")
        self.assertEqual((status, output), (5, "still waiting\n"), errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
