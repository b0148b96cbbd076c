#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Kills ranks of the elastic examples: the Jacobi field is that of the undisturbed run, training goes on.
# usage: elastic.py FOLDER_OF_MPI4PY [RUNS]; status 77 without a compiler. MPI_PREFIX names Weft's prefix.
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

PREFIX = os.environ["MPI_PREFIX"]
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "elastic")
MPI4PY = os.path.abspath(sys.argv.pop(1))
RUNS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 2
RANKS = 4
KILLED = 128 + signal.SIGKILL
KILLS = 20 if RUNS > 2 else 6  # in a run that replaces processes


def children_of(program):
    """Pids of the running processes of a program."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if program.encode() in file.read().split(b"\0")[:2]:
                    found.append(int(pid))
        except OSError:
            continue
    return found


def kill_one(program, job):
    ranks = [pid for pid in children_of(program) if pid != job.pid]
    if ranks:
        os.kill(random.choice(ranks), signal.SIGKILL)


def kill_and_wait(program, job, kills):
    """Kills one or two of the processes whenever all are there; returns the output."""
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(job.stdout))
    reader.start()
    left = kills
    while left > 0 and job.poll() is None:
        time.sleep(random.choice((0.02, 0.1, 0.3)))
        # After a death there are fewer processes until the next is started, which the job announces before.
        if len(children_of(program)) < RANKS or not re.search("are back|have begun", "".join(lines[-1:])):
            continue
        for delay in random.choice(((0.0,), (0.0,), (0.0, 0.02), (0.0, 0.2))):
            time.sleep(delay)
            kill_one(program, job)
            left -= 1
    job.wait()
    reader.join()
    print(f"{kills - left} kills", file=sys.stderr)
    return "".join(lines)


def read_until(job, text):
    """Returns the lines of output up to one with the text, or to the end."""
    lines = [""]
    while text not in lines[-1] and (line := job.stdout.readline()):
        lines.append(line)
    return "".join(lines)


def run(program, arguments, delays, **variables):
    """Runs a program, and kills a random rank after each delay in seconds since the one before, or after a line of
    output with a text. A number instead of delays: kills of a program that replaces its processes."""
    mpiexec = os.path.join(PREFIX, "bin", "mpiexec")
    command = [mpiexec, "--continue-on-failure", "-n", str(RANKS), "--timeout", "200", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **variables}) as job:  # fmt: skip
        if isinstance(delays, int):
            output = kill_and_wait(program, job, delays)
        else:
            output = ""
            for delay in delays:
                if isinstance(delay, str):
                    output += read_until(job, delay)
                else:
                    time.sleep(delay)
                kill_one(program, job)
            output += job.stdout.read()
        errors = job.stderr.read()
    return job.returncode, output, errors


class Elastic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.jacobi = os.path.join(cls.folder, "elastic_jacobi")
        mpicc = os.path.join(PREFIX, "bin", "mpicc")
        subprocess.run([mpicc, "-O2", os.path.join(EXAMPLES, "jacobi.c"), "-o", cls.jacobi], check=True)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def checksum(self, delays, *mode, iterations=20000, **variables):
        command = [self.jacobi, "256", "200", str(iterations), "10", *mode]
        status, output, errors = run(self.jacobi, command, delays, **variables)
        self.assertIn(status, (0, KILLED), output + errors)
        found = re.search(rf"checksum (\w+) after {iterations} iterations", output)
        self.assertTrue(found, output + errors)
        return found.group(1), output.count("have died"), errors

    def test_jacobi(self):
        began = time.monotonic()
        undisturbed, deaths, _ = self.checksum(())
        whole = time.monotonic() - began
        self.assertEqual(deaths, 0)
        survived = 0
        for _ in range(RUNS):
            later = (random.choice((0.0, 0.01, 0.2)) for _ in range(random.randrange(3)))
            delays = [random.uniform(0.3, 0.7) * whole, *later]
            field, deaths, errors = self.checksum(delays)
            self.assertEqual(field, undisturbed, errors)
            survived += deaths
        self.assertGreater(survived, 0)

    def test_jacobi_that_replaces_processes(self):
        """Kills in one run, also while processes are being replaced."""
        modes = {"respawn": {}}
        if driver := os.environ.get("TEST_CUDA_DRIVER"):  # a path, or "system"
            modes["respawn cuda:device"] = {} if driver == "system" else {"WEFT_CUDA_DRIVER": driver}
        for mode, variables in modes.items():
            with self.subTest(mode=mode):
                began = time.monotonic()
                self.checksum((), *mode.split(), iterations=1000, **variables)
                iterations = int(1000 * max(1, KILLS / 5 / (time.monotonic() - began)))
                undisturbed, _, _ = self.checksum((), iterations=iterations)
                field, deaths, errors = self.checksum(KILLS, *mode.split(), iterations=iterations, **variables)
                print(f"{mode}: {deaths} times processes were lost, {iterations} iterations", file=sys.stderr)
                self.assertEqual(field, undisturbed, errors)
                self.assertGreater(deaths, KILLS // 8, errors)

    def train(self, delays, expected, *options):
        if not os.path.exists(os.path.join(MPI4PY, "stamp")):
            self.skipTest("mpi4py was not built")
        path = os.pathsep.join(filter(None, [MPI4PY, os.environ.get("TEST_NUMPY")]))
        variables = {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
        if subprocess.run([sys.executable, "-c", "import numpy"], env={**os.environ, **variables},
                          stderr=subprocess.DEVNULL, check=False).returncode:  # fmt: skip
            self.skipTest("no NumPy")
        train = os.path.join(EXAMPLES, "train.py")
        command = [sys.executable, train, "--steps", "600", *options]
        status, output, errors = run(train, command, delays, **variables)
        self.assertRegex(output, expected, errors)
        self.assertRegex(output, r"workers, loss 0\.0", errors)
        self.assertIn(status, (0, KILLED))

    def test_training(self):
        self.train(("step 100:", "go on"), r"finished with 2 workers")

    def test_training_that_replaces_workers(self):
        self.train(("step 100:", "are back", "go on"), r"(?s)4 workers are back.*finished with 4 workers", "--respawn")


if __name__ == "__main__":
    unittest.main(verbosity=2)
