#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs the first commands of a new user in a copy of the tree without build/, CUDA toolkit and compiler cache:
# `make demo`, then `make` and `pip install .` in a new virtual environment, which compiles nothing again.
# Times are CPU times, which other load lengthens less. Needs a network: set-up downloads its tools.
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tools", "setup"))
from packages import Pip  # noqa: E402

MAX_DEMO_S, MAX_INSTALL_S = 360, 60


def cpu_seconds():
    """Returns the CPU time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment():
    """Returns the environment without CUDA toolkits and compiler caches."""
    removed = ("CUDA", "CMAKE_", "CCACHE_", "WEFT_", "MAKE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
    folders = [path for path in kept["PATH"].split(":") if not os.path.exists(os.path.join(path, "nvcc"))]
    return {**kept, "PATH": ":".join(folders)}


class FirstBuild(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        self.tree, self.environment = os.path.join(folder, "weft"), os.path.join(folder, "venv")
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"]
        listed = subprocess.run(command, cwd=SOURCE, stdout=subprocess.PIPE, text=True, check=True).stdout
        for name in listed.splitlines():
            os.makedirs(os.path.dirname(os.path.join(self.tree, name)), exist_ok=True)
            shutil.copy(os.path.join(SOURCE, name), os.path.join(self.tree, name), follow_symlinks=False)

    def run_here(self, *command):
        """Runs a command in the copy; returns its output and its CPU time."""
        begin = cpu_seconds()
        done = subprocess.run(
            command,
            cwd=self.tree,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, "%s:\n%s" % (" ".join(command), done.stdout[-4000:]))
        return done.stdout, cpu_seconds() - begin

    def test_demo_and_installation(self):
        printed, seconds = self.run_here("make", "demo")
        print(f"make demo: {seconds:.0f} s of CPU time", flush=True)
        self.assertRegex(printed, r"picture of the solution: \S+jacobi\.png")
        with open(os.path.join(self.tree, "build", "release", "CMakeCache.txt"), encoding="utf-8") as file:
            settings = dict(re.findall(r"^(WEFT_\w+):BOOL=(\w+)", file.read(), re.MULTILINE))
        found = [settings[name] for name in ("WEFT_TESTS", "WEFT_PRECOMPILE", "WEFT_GROUPS")]
        self.assertEqual(found, ["OFF", "ON", "ON"])
        self.assertLess(seconds, MAX_DEMO_S)
        self.run_here("make")
        pip = Pip(os.path.join(SOURCE, "build", "tools", "pip")).find()
        self.run_here(sys.executable, "-m", "venv", "--without-pip", self.environment)
        _, seconds = self.run_here(*pip, "--python", os.path.join(self.environment, "bin", "python"), "install", ".")
        print(f"pip install . after make: {seconds:.0f} s of CPU time", flush=True)
        self.assertLess(seconds, MAX_INSTALL_S)
        self.run_here(os.path.join(self.environment, "bin", "weft"), "info")


if __name__ == "__main__":
    unittest.main(verbosity=2)
