#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Makes each system call of mpiexec --mps on, and of the monitor of its daemon, fail once: the job succeeds or ends with
# an error text, and no process and no folder is left.
# usage: mps_failing_calls.py PEER FAIL_CALL_LIBRARY RING EMULATOR
import os
import subprocess
import unittest

from failing_calls import CALLS, FAIL_CALL, MAX_CALLS  # takes the first three arguments
from mps_support import Site
from support import run, time_limit

SECONDS = 60  # the daemon has 20 to answer


class FailingCallsOfMps(unittest.TestCase):
    def fail_once(self, site, name, at):
        """False when the run makes fewer calls of the function."""
        made = os.path.join(site.root.name, f"{name}.{at}")
        variables = site.variables(LD_PRELOAD=FAIL_CALL, FAIL_CALL=name, FAIL_AT=str(at), FAIL_MARK=made,
                                   FAIL_ERRNO=str(CALLS[name]))  # fmt: skip
        try:
            status, output, errors = run(
                "--mps", "on", "-n", 2, "mps-client", variables=variables, timeout=time_limit(SECONDS)
            )
        except subprocess.TimeoutExpired:
            self.fail("mpiexec hangs")
        site.mark.wait_until_gone(time_limit(5))
        self.assertEqual(site.folders(), [], errors)
        if status == 0:
            self.assertEqual(len(output.splitlines()), 2, errors)
        elif name != "write":  # of the message itself
            self.assertIn("mpiexec: ", errors)
        return os.path.exists(made)

    def test_each_call(self):
        site = Site()
        self.addCleanup(site.close)
        for name in CALLS:
            for at in range(1, MAX_CALLS + 1):
                with self.subTest(call=name, at=at):
                    if not self.fail_once(site, name, at):
                        self.assertGreater(at, 1, "the function is not called, or not intercepted")
                        break


if __name__ == "__main__":
    unittest.main(verbosity=2)
