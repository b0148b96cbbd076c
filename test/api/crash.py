#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Backtraces of ranks that end by a signal. Arguments: the program.
import os
import re
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
        for text in ("weft[0]: rank 0 (pid ", "got " + signal.Signals(number).name, "  #0 ", " main (", "crash_here ("):
            self.assertIn(text, errors)
        for text in texts:
            self.assertIn(text, errors)
        self.assertIn("was killed by signal %d" % number, errors)

    def test_each_signal(self):
        self.check("segv", signal.SIGSEGV, "SIGSEGV at address 0x10 outside MPI, after MPI_Barrier, Weft ")
        self.assertRegex(run("segv")[2], r", Weft \d+\.\d+\.\d+ \(commit \S+\):\nweft\[0\]:   #0  crash_here \(")
        self.check("bus", signal.SIGBUS, "outside MPI, after MPI_Barrier")
        self.check("fpe", signal.SIGFPE)
        self.check("abort", signal.SIGABRT)

    def test_inside_of_mpi(self):
        self.check("reduce", signal.SIGSEGV, " in MPI_Reduce_local, Weft ", "MPI_Reduce_local (")

    def test_stack_overflow(self):
        status, _, errors, _ = run("stack")
        self.assertEqual(status, 128 + signal.SIGSEGV, errors)
        self.assertIn("\nweft[0]:   #0  recurse (", errors)

    @unittest.skipUnless(os.access("/usr/bin/addr2line", os.X_OK), "needs addr2line")
    def test_source_lines(self):
        self.assertRegex(run("segv")[2], r"source lines:\nweft\[0\]:     #0  crash_here at crash.c:\d+")

    @unittest.skipUnless(os.access("/usr/bin/addr2line", os.X_OK), "needs addr2line")
    def test_a_library_and_names_of_cpp(self):
        """The function of a library has its name as written and its line, also if the heap is damaged."""
        for how in ("library", "heap"):
            errors = run(how)[2]
            self.assertRegex(errors, r"\nweft\[0\]:   #\d+ +deep::below\(std::vector<int.*\) \(/\S*\.so\+0x")
            self.assertRegex(errors, r"\nweft\[0\]:     #0  deep::below\(.*\) at crash_library.cpp:\d+")
            frames = [int(frame) for frame in re.findall(r"\n\S+     #(\d+) ", errors)]
            self.assertEqual(frames, sorted(frames), errors)

    def test_ranks_one_after_another(self):
        """Each line has its rank, and the lines of a rank are together."""
        errors = run("together", ranks=4)[2]
        ranks = [int(rank) for rank in re.findall(r"(?m)^weft\[(\d)\]: ", errors)]
        self.assertGreater(len(ranks), 3, errors)
        starts = [rank for at, rank in enumerate(ranks) if at == 0 or ranks[at - 1] != rank]
        self.assertEqual(len(starts), len(set(starts)), errors)
        self.assertNotRegex(errors, r"(?m)^ +#\d")

    @unittest.skipUnless(os.access("/usr/bin/addr2line", os.X_OK), "needs addr2line")
    def test_line_of_an_mpi_error(self):
        status, _, errors, _ = run("error", WEFT_ERRORS_BACKTRACE="errors")
        self.assertNotEqual(status, 0)
        self.assertRegex(errors, r"weft\[0\]: called by:\nweft\[0\]:   #0  crash_here \(")
        self.assertRegex(errors, r"\nweft\[0\]:     #0  crash_here at crash.c:\d+")
        self.assertNotIn("called by", run("error")[2])

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
        self.assertIn("gdb PROGRAM CORE", errors)
        self.assertNotIn("ulimit", errors)
        _, _, errors, files = run("segv")
        self.assertEqual((files, "core dumped" in errors, "ulimit -c unlimited" in errors), ([], False, True), errors)


if __name__ == "__main__":
    unittest.main(verbosity=2)
