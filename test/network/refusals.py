#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Jobs on several hosts without a common network: the error lists the attempts. usage: refusals.py PROGRAM
import os
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop()


def run(shell=None, **variables):
    environment = dict(os.environ, WEFT_FAKE_HOSTS="2", **variables)
    command = [os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec"), "-n", "2"]
    command += ["sh", "-c", shell, "sh", PROGRAM] if shell else [PROGRAM]
    return subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=50, check=False
    )


class Refusals(unittest.TestCase):
    def test_net_none_is_an_error(self):
        done = run(WEFT_NET="none")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("no network between them", done.stdout)
        self.assertIn("WEFT_NET=none", done.stdout)

    def test_error_lists_failed_networks(self):
        done = run(WEFT_NET="ucx", WEFT_NET_UCX_LIBRARY="/nowhere/libucp.so.0")
        if "loaded" in done.stdout and done.returncode == 0:
            self.skipTest("UCX was already loaded")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ucx: ", done.stdout)
        self.assertIn("/nowhere/libucp.so.0", done.stdout)

    def test_different_networks_are_an_error(self):
        done = run("test $PMI_RANK = 0 && export WEFT_NET=ofi; exec $1", WEFT_NET="ucx")
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
