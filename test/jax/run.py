#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# weft_mpi.jax with JAX of PyPI on CPUs: the checks of collectives.py with 1 to 4 processes, on two simulated hosts, with a cache
# of compiled functions, beside mpi4py's wheel, and the blocks of docs/jax.md.
# usage: run.py PREFIX FOLDER [TEST ...]; FOLDER: environment that is kept, or `present`: JAX of this Python. Status 77 without
# JAX.
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tools", "docs"))
import blocks

SKIPPED = 77
PACKAGES = ["jax", "numpy", "mpi4py==4.1.2"]
PREFIX, FOLDER = (os.path.abspath(sys.argv[1]), sys.argv[2])
PRESENT = FOLDER == "present"  # quick: a part of the checks
PYTHON = sys.executable if PRESENT else os.path.join(os.path.abspath(FOLDER), "bin", "python")


class Jax(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        if not PRESENT:
            if not os.path.exists(PYTHON):
                subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True)
            install = [PYTHON, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES]
            done = subprocess.run(install, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise unittest.SkipTest(f"JAX can't be installed: {done.stderr.strip()[-300:]}")
        elif importlib.util.find_spec("jax") is None:
            raise unittest.SkipTest("this Python has no JAX")

    def command(self, processes, *arguments, status=0, **variables):
        """Runs a Python program with mpiexec; returns its output."""
        environment = {**os.environ, "PYTHONPATH": os.path.join(PREFIX, "share", "weft", "python"), "JAX_PLATFORMS": "cpu",
                       **variables}  # fmt: skip
        command = [os.path.join(PREFIX, "bin", "mpiexec"), "-n", str(processes), PYTHON, *arguments]
        done = subprocess.run(command, env=environment, cwd=self.folder, timeout=600, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
        self.assertEqual(done.returncode, status, "%s:\n%s" % (" ".join(command), done.stdout))
        return done.stdout

    def check(self, processes, name, **options):
        with self.subTest(check=name, processes=processes):
            return self.command(processes, os.path.join(HERE, "collectives.py"), name, **options)

    def test_after_error(self):
        for arguments in (("call", "weft"), ("call", "jax"), ("callback", "weft"), ("unseen", "weft")):
            with self.subTest(arguments=arguments):
                self.command(3, os.path.join(HERE, "after_error.py"), *arguments)

    def test_checks(self):
        names = (
            ("values", "order", "jit", "lowering")
            if PRESENT
            else ("values", "gradients", "batches", "order", "jit", "lowering", "errors")
        )
        for name in names:
            for processes in (2,) if PRESENT else (1, 2, 3, 4):
                self.check(processes, name)

    @unittest.skipIf(PRESENT, "nightly")
    def test_communicators(self):
        for processes in (1, 2, 4):
            self.check(processes, "communicators")

    @unittest.skipIf(PRESENT, "nightly")
    def test_hosts(self):
        self.check(4, "values", WEFT_FAKE_HOSTS="2")

    @unittest.skipIf(PRESENT, "nightly")
    def test_cache(self):
        """Compiled functions that another process has kept have no handles of it."""
        cache = {"JAX_COMPILATION_CACHE_DIR": os.path.join(self.folder, "cache"),
                 "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                 "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}  # fmt: skip
        for _ in range(2):
            self.check(2, "order", **cache)
        self.assertTrue(os.listdir(cache["JAX_COMPILATION_CACHE_DIR"]))

    @unittest.skipIf(PRESENT, "nightly")
    def test_exit(self):
        self.check(3, "exit")
        printed = self.check(2, "failure", status=1)
        self.assertIn("RuntimeError: the program fails", printed)
        self.assertNotIn("not ended", printed)

    @unittest.skipIf(PRESENT, "nightly")
    def test_page(self):
        """The blocks of docs/jax.md."""
        for line in blocks.lines_of("test/jax/run.py", SOURCE, "docs/jax.md", self.folder):
            words = line.split("#")[0].split()
            if words[:2] == ["mpiexec", "-n"] and words[3] == "python":
                self.command(int(words[2]), *words[4:])

    @unittest.skipIf(PRESENT, "nightly")
    def test_speed(self):
        print(self.check(2, "speed"))


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False, argv=[sys.argv[0], *sys.argv[3:]]).result
    skipped = sorted({reason for _, reason in result.skipped if reason != "nightly"})
    if skipped:
        print("skipped: " + "; ".join(skipped))
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if skipped else 0)
