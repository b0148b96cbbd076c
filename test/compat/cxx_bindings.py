#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Programs and modules that are linked with MPICH's library of C++ bindings, as its mpicxx links all: without that library on
# the machine they run if they do not use it; with it they get it.
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PREFIX = os.environ.get("MPI_PREFIX", "")
NAME = "libmpicxx.so.12"
EMPTY = os.path.join(PREFIX, "lib", "compat", "cxx", NAME, NAME)
OWN = 'extern "C" int number() { return 42; }\nnamespace MPI { int Get_number() { return 43; } }\n'
UNUSED = 'extern "C" int run() { return 7; }\nint main() { return run(); }\n'
USED = "namespace MPI { int Get_number(); }\nint main() { return MPI::Get_number(); }\n"
LOAD = """
import ctypes, re, sys
module = ctypes.CDLL(sys.argv[1])
with open("/proc/self/maps", encoding="utf-8") as maps:
    print(module.run(), re.search(r"/\\S*" + re.escape(sys.argv[2]), maps.read()).group())
"""


def installed():
    """Returns whether the cache of the dynamic linker has such a library."""
    ldconfig = shutil.which("ldconfig", path=os.environ["PATH"] + ":/sbin:/usr/sbin")
    return (
        bool(ldconfig) and NAME in subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    )


class CxxBindings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.own = os.path.join(cls.folder, "own", NAME)
        os.makedirs(os.path.dirname(cls.own))
        cls.compile(OWN, cls.own, "-shared", "-fPIC", "-Wl,-soname," + NAME)
        cls.module = cls.compile(UNUSED, "module.so", "-shared", "-fPIC", cls.own)
        cls.program = cls.compile(UNUSED, "program", cls.own)

    @classmethod
    def compile(cls, text, name, *options):
        path = os.path.join(cls.folder, name)
        command = [
            os.environ.get("CXX", "c++"),
            "-x",
            "c++",
            "-",
            "-x",
            "none",
            "-Wl,--no-as-needed",
            *options,
            "-o",
            path,
        ]
        subprocess.run(command, input=text, text=True, check=True)
        return path

    def run_mpiexec(self, *arguments, status=0, **variables):
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        command = [os.path.join(PREFIX, "bin", "mpiexec"), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, env={**environment, **variables}, check=False
        )
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_without_the_library(self):
        if installed():
            self.skipTest(NAME + " is installed")
        printed = self.run_mpiexec("-n", "2", sys.executable, "-c", LOAD, self.module, NAME)
        self.assertEqual(printed, f"7 {EMPTY}\n" * 2)
        self.run_mpiexec("-n", "1", self.program, status=7)
        printed = self.run_mpiexec("--run-info", self.module)
        self.assertIn(f"linked with {NAME} (MPICH's C++ bindings)\nmpiexec gives it an empty library", printed)

    def test_the_library_of_a_variable(self):
        search = os.path.dirname(self.own)
        printed = self.run_mpiexec("-n", "1", sys.executable, "-c", LOAD, self.module, NAME, LD_LIBRARY_PATH=search)
        self.assertEqual(printed, f"7 {self.own}\n")
        printed = self.run_mpiexec("--run-info", self.module, LD_LIBRARY_PATH=search)
        self.assertIn(f"linked with {NAME} (MPICH's C++ bindings)\nit gets MPICH's own", printed)

    def test_a_program_that_uses_the_library(self):
        """The dynamic linker searches the path in the program after LD_LIBRARY_PATH."""
        program = self.compile(USED, "uses", self.own, "-Wl,--enable-new-dtags,-rpath," + os.path.dirname(self.own))
        self.run_mpiexec("-n", "1", program, status=43)
        self.assertRegex(self.run_mpiexec("--run-info", program), re.escape(NAME) + r" .*\nit gets MPICH's own")


if __name__ == "__main__":
    unittest.main(verbosity=2)
