#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Two builds of one version do not join one job: the second is a copy of the library with another commit in its text.
import os
import re
import shutil
import sys
import tempfile
import unittest

from support import run

LIBRARY = os.path.join(os.environ["MPI_PREFIX"], "lib", "libmpi_abi.so.1")
START = (
    "import ctypes, sys; mpi = ctypes.CDLL(sys.argv[1]); mpi.MPI_Init(None, None); mpi.MPI_Finalize(); print('joined')"
)


class TwoBuilds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        with open(LIBRARY, "rb") as file:
            code = file.read()
        found = set(re.findall(rb"\d+\.\d+\.\d+ \(commit [0-9a-z+]+\)", code))
        assert len(found) == 1, found
        (own,) = found
        other = own.replace(b"(commit " + own[own.index(b"commit ") + 7 :][:6], b"(commit 012345")
        cls.own, cls.other = own.decode(), other.decode()
        cls.changed = os.path.join(cls.folder, "libmpi_abi.so.1")
        with open(cls.changed, "wb") as file:
            file.write(code.replace(own, other))

    def start(self, *libraries):
        words = []
        for library in libraries:
            words += [":", "-n", 1, sys.executable, "-c", START, library]
        return run(*words[1:])

    def test_two_processes_of_one_build_join(self):
        for library in (LIBRARY, self.changed):
            self.assertEqual(self.start(library, library)[:2], (0, "joined\njoined\n"))

    def test_two_builds_are_refused_and_both_are_named(self):
        status, output, errors = self.start(LIBRARY, self.changed)
        self.assertNotEqual(status, 0)
        self.assertEqual(output, "")
        wanted = f"process 1 runs Weft {self.other}, but process 0 runs Weft {self.own}: use one Weft in all processes"
        self.assertIn(wanted, errors)


if __name__ == "__main__":
    unittest.main()
