#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Backtraces of ranks that end by a signal. Arguments: the program.
import os
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


def run(*words, cores=False, ranks=1, **variables):
    def limit():
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2 if cores else (0, 0))

    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["mpiexec", "-n", str(ranks), PROGRAM, *words], capture_output=True, text=True, timeout=60, check=False,
            cwd=folder, preexec_fn=limit, env={**os.environ, **variables},
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr, os.listdir(folder)


class Crash(unittest.TestCase):
    def check(self, how, number, *texts):
        status, _, errors, _ = run(how)
        self.assertEqual(status, 128 + number, errors)
        for text in ("weft: rank 0 (pid ", "got " + signal.Signals(number).name, "  #0 ", " main (", "crash_here ("):
            self.assertIn(text, errors)
        for text in texts:
            self.assertIn(text, errors)
        self.assertIn("was killed by signal %d" % number, errors)

    def test_each_signal(self):
        self.check(
            "segv", signal.SIGSEGV, "SIGSEGV at address 0x10 outside MPI, after MPI_Barrier:\n  #0  crash_here ("
        )
        self.check("bus", signal.SIGBUS, "outside MPI, after MPI_Barrier")
        self.check("fpe", signal.SIGFPE)
        self.check("abort", signal.SIGABRT)

    def test_inside_of_mpi(self):
        self.check("reduce", signal.SIGSEGV, " in MPI_Reduce_local:\n", "MPI_Reduce_local (")

    def test_stack_overflow(self):
        status, _, errors, _ = run("stack")
        self.assertEqual(status, 128 + signal.SIGSEGV, errors)
        self.assertIn("\n  #0  recurse (", errors)

    @unittest.skipUnless(os.access("/usr/bin/addr2line", os.X_OK), "needs addr2line")
    def test_source_lines(self):
        self.assertRegex(run("segv")[2], r"source lines:\n.*crash_here at crash.c:\d+")

    def test_off(self):
        status, _, errors, _ = run("segv", WEFT_ERRORS_BACKTRACE="off")
        self.assertEqual(status, 128 + signal.SIGSEGV)
        self.assertNotIn("#0", errors)

    def test_handlers_of_the_program_stay(self):
        for when in ("before", "after"):
            status, output, errors, _ = run(when, "segv")
            self.assertEqual((status, output), (signal.SIGSEGV, "own handler\n"), errors)
            self.assertNotIn("#0", errors)

    def test_core_file(self):
        with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
            if file.read().strip() not in ("core", "core.%p"):
                self.skipTest("core files have other names here")
        _, _, errors, files = run("segv", cores=True)
        self.assertEqual(len(files), 1, (files, errors))
        self.assertRegex(errors, rf"core dumped to /.*/{files[0]}\)")
        _, _, errors, files = run("segv")
        self.assertEqual((files, "core" in errors), ([], False), errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
