#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# lib/compat/bin/ompi_info has the lines that scripts look for.
import os
import subprocess
import unittest

PREFIX = os.environ["MPI_PREFIX"]
PATH = os.path.join(PREFIX, "lib", "compat", "bin") + ":" + os.environ["PATH"]


def shell(command):
    done = subprocess.run(
        command, shell=True, env={**os.environ, "PATH": PATH}, stdout=subprocess.PIPE, text=True, check=False
    )
    return done.returncode, done.stdout


class Information(unittest.TestCase):
    def test_the_commands_of_manuals(self):
        status, printed = shell("ompi_info --parsable --all | grep mpi_built_with_cuda_support:value")
        self.assertEqual((status, printed), (0, "mca:mpi:base:param:mpi_built_with_cuda_support:value:true\n"))
        printed = shell("ompi_info --parsable -l 9 --all")[1].splitlines()
        self.assertIn(f"path:prefix:{PREFIX}", printed)
        self.assertEqual(
            [line.split(":")[6] for line in printed if "mpi_built_with_cuda_support:value" in line], ["true"]
        )
        printed = shell("ompi_info")[1]
        self.assertRegex(printed, "MPI extensions: cuda\n")
        self.assertRegex(printed, "Thread support: posix .*MPI_THREAD_MULTIPLE: yes")
        self.assertRegex(shell("ompi_info --version")[1], r"^Open MPI v5\.\d+ .*weft \d")


if __name__ == "__main__":
    unittest.main(verbosity=2)
