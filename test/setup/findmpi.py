#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# CMake's find_package(MPI) finds Weft through PATH and by MPI_HOME, Meson's dependency('mpi') through PATH.
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))
CMAKE, NINJA = sys.argv[1:3]


def run(*command, **variables):
    """Runs a command with changed environment variables; returns its output. Raises AssertionError with it on failure."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )
    if done.returncode != 0:
        raise AssertionError("%s: status %d\n%s" % (" ".join(command), done.returncode, done.stdout))
    return done.stdout


class FindMpi(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = os.path.join(folder.name, "build")
        self.source = os.path.join(HERE, "findmpi")

    def configure(self, *options, **variables):
        """Configures the project; returns what CMake prints."""
        ninja = ("-G", "Ninja", "-DCMAKE_MAKE_PROGRAM=" + NINJA)
        return run(CMAKE, *ninja, "-S", self.source, "-B", self.build, *options, **variables)

    def check_programs(self):
        for program in ("hello_c", "hello_cxx"):
            output = run(os.path.join(PREFIX, "bin", "mpiexec"), "-n", "2", os.path.join(self.build, program))
            self.assertEqual(sorted(output.splitlines()), ["0/2 Weft", "1/2 Weft"])

    def test_c_and_cxx(self):
        printed = self.configure()
        self.assertIn("C 5.0 headers %s" % os.path.join(PREFIX, "include"), printed)
        self.assertIn(os.path.join(PREFIX, "lib", "libmpi_abi.so"), printed)
        self.assertIn("mpiexec %s" % os.path.join(PREFIX, "bin", "mpiexec"), printed)
        run(CMAKE, "--build", self.build)
        self.check_programs()

    def test_by_home(self):
        folders = [f for f in os.environ["PATH"].split(":") if not os.path.exists(os.path.join(f, "mpicc"))]
        compiler = os.path.dirname(os.path.realpath(shutil.which("cc")))  # may be beside another mpicc
        printed = self.configure("-DMPI_HOME=" + PREFIX, PATH=":".join([*folders, compiler]))
        self.assertIn("libraries %s" % os.path.join(PREFIX, "lib", "libmpi_abi.so"), printed)
        self.assertIn("mpiexec %s" % os.path.join(PREFIX, "bin", "mpiexec"), printed)

    @unittest.skipUnless(shutil.which("meson"), "no meson here")
    def test_meson(self):
        printed = run("meson", "setup", self.build, self.source, NINJA=NINJA)
        self.assertRegex(printed, r"dependency MPI for c found: YES \d+\.\d+\.\d+")
        self.assertRegex(printed, r"dependency MPI for cpp found: YES \d+\.\d+\.\d+")
        run(NINJA, "-C", self.build)
        self.check_programs()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
