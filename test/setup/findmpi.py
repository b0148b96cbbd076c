#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Configures, builds and runs a CMake project with find_package(MPI), which finds Weft only through PATH.
import os
import subprocess
import sys
import tempfile
import unittest

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))
CMAKE, NINJA = sys.argv[1:3]


def run(*command):
    """Runs a command; returns its output. Raises AssertionError with the output on failure."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError("%s: status %d\n%s" % (" ".join(command), done.returncode, done.stdout))
    return done.stdout


class FindMpi(unittest.TestCase):
    def test_c_and_cxx(self):
        with tempfile.TemporaryDirectory() as build:
            source = os.path.join(HERE, "findmpi")
            printed = run(CMAKE, "-G", "Ninja", "-DCMAKE_MAKE_PROGRAM=" + NINJA, "-S", source, "-B", build)
            self.assertIn("C 5.0 headers %s" % os.path.join(PREFIX, "include"), printed)
            self.assertIn(os.path.join(PREFIX, "lib", "libmpi_abi.so"), printed)
            run(CMAKE, "--build", build)
            for program in ("hello_c", "hello_cxx"):
                output = run(os.path.join(PREFIX, "bin", "mpiexec"), "-n", "2", os.path.join(build, program))
                self.assertEqual(sorted(output.splitlines()), ["0/2 Weft", "1/2 Weft"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
