#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Ranks that load another MPI and end without MPI_Init of Weft: mpiexec says so and fails. The other MPI is a copy of a
# system library under the name of Open MPI's.
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import run

LOAD = "import ctypes, sys, time; ctypes.CDLL(sys.argv[1]); time.sleep(0.5); sys.exit(int(sys.argv[2]))"


def library_of_this_process():
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return re.search(r"/\S*/libc(-[0-9.]+)?\.so\S*", maps.read()).group()


class OtherMpi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def run_with(self, name, exit_code=0):
        library = os.path.join(self.folder, name)
        shutil.copy(library_of_this_process().replace("libc", "libm"), library)
        return run("-n", 2, sys.executable, "-c", LOAD, library, exit_code)

    def test_open_mpi(self):
        status, output, errors = self.run_with("libmpi.so.40.30.5")
        self.assertEqual((status, output), (1, ""))
        self.assertIn(f"has loaded another MPI ({self.folder}/libmpi.so.40.30.5)", errors)
        self.assertIn("mpicc", errors)
        self.assertEqual(len(errors.splitlines()), 1, errors)

    def test_a_program_that_is_linked_with_another_mpi(self):
        library, program = (os.path.join(self.folder, name) for name in ("libmpi.so.20", "linked"))
        source = program + ".c"
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <unistd.h>\nint f(void);\nint main(void) { usleep(300000); return f(); }\n")
        with open(library + ".c", "w", encoding="utf-8") as file:
            file.write("int f(void) { return 0; }\n")
        compiler = [os.environ.get("CC", "cc")]
        subprocess.run(
            [*compiler, "-shared", "-fPIC", "-Wl,-soname,libmpi.so.20", library + ".c", "-o", library], check=True
        )
        subprocess.run([*compiler, source, library, "-o", program], check=True)
        status, output, errors = run("-n", 2, program)
        self.assertEqual((status, output), (126, ""))
        self.assertIn("is linked with another MPI (libmpi.so.20), on which each rank would run alone", errors)
        self.assertIn("mpicc", errors)
        preload = {"LD_LIBRARY_PATH": self.folder, "LD_PRELOAD": library}
        self.assertEqual(run("-n", 2, program, variables=preload)[0], 1)  # found when they have ended

    def test_exit_code_of_the_program(self):
        status, _, errors = self.run_with("libmpi.so.12", 7)
        self.assertEqual(status, 7)
        self.assertIn("exited with code 7", errors)

    def test_other_libraries(self):
        self.assertEqual(self.run_with("libmpicxx_helper.so.1"), (0, "", ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
