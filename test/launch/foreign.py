#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# A program built with MPICH's mpicc_abi, which sets a RUNPATH to MPICH's library, runs on Weft: under Weft's mpiexec
# unchanged, under Hydra with LD_LIBRARY_PATH. MPICH's own library gets its PMI from Weft's mpiexec. Argument:
# installation folder of MPICH.
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import MPIEXEC, hydras, run
from support import PEER as MPICH

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(MPIEXEC))), "lib")


class Foreign(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def build(self, *options, compiler="mpicc_abi"):
        program = os.path.join(self.folder, "program." + compiler)
        wrapper = os.path.join(MPICH, "bin", compiler)
        subprocess.run([wrapper, os.path.join(HERE, "foreign.c"), "-o", program, *options], check=True)
        return program

    def check(self, *arguments, **options):
        status, output, errors = run("-n", 4, *arguments, **options)
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(sorted(output.splitlines()), [f"{rank} 4 6 Weft" for rank in range(4)])

    def test_under_weft_mpiexec(self):
        self.check(self.build())

    def test_with_rpath(self):
        options = subprocess.run(
            [os.path.join(MPICH, "bin", "mpicc_abi"), "-show"], stdout=subprocess.PIPE, text=True, check=True
        ).stdout.split()[1:]
        program = os.path.join(self.folder, "old")
        options = ["-Wl,--disable-new-dtags" if option == "-Wl,--enable-new-dtags" else option for option in options]
        subprocess.run(["cc", os.path.join(HERE, "foreign.c"), "-o", program, *options], check=True)
        self.check(program)

    def test_under_hydra(self):
        program = self.build()
        for launcher in [*hydras(), os.path.join(MPICH, "bin", "mpiexec.hydra")]:
            with self.subTest(launcher=launcher):
                self.check(program, launcher=(launcher,), variables={"LD_LIBRARY_PATH": LIBRARY})

    def test_its_own_library_under_weft_mpiexec(self):
        """In a script, which uses descriptor 3 and runs two programs, one after the other."""
        program = self.build(compiler="mpicc")
        script = f"unset LD_LIBRARY_PATH; exec 3>&1; {program} >&3 && {program}"
        status, output, errors = run("-n", 2, "sh", "-c", script)
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(sorted(output.splitlines()), ["0 2 1 MPIC"] * 2 + ["1 2 1 MPIC"] * 2)

    def test_two_programs_of_its_own_library_at_once(self):
        program = self.build(compiler="mpicc")
        script = (
            f"unset LD_LIBRARY_PATH; {program} {self.folder}/held & while ! test -e {self.folder}/held; do sleep 0.01; done; "
            f"{program}"
        )
        status, _, errors = run("-n", 1, "sh", "-c", script)
        self.assertEqual(status, 1)
        self.assertRegex(errors, r"rank 0 \(.*\) has started two MPI programs at once \(pids \d+ and \d+\)")


if __name__ == "__main__":
    if not os.path.exists(os.path.join(MPICH, "bin", "mpicc_abi")):
        print("skipped: there is no MPICH at", MPICH)
        sys.exit(77)
    unittest.main(verbosity=2)
