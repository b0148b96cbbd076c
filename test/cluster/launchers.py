#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# weft::launch on several hosts under Hydra. Argument: the program test/launch/peer.cpp.
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "launch"))
from support import PEER, clean_environment, hydras  # noqa: E402

HOSTS = os.path.join(HERE, "hosts")


def launchers():
    """(name, command that takes -n N PROGRAM) of each launcher here."""
    return [("hydra", [path]) for path in hydras()]


def on_hosts(hosts, *command, options=(), timeout=60):
    """(exit code, output, errors) of a command on the first of some hosts."""
    done = subprocess.run(
        [HOSTS, *options, str(hosts), "--", *map(str, command)],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr


class Jobs(unittest.TestCase):
    def test_values_reach_every_host(self):
        for name, command in launchers():
            for hosts, ranks in ((2, 4), (3, 6)):
                with self.subTest(launcher=command[0], hosts=hosts):
                    status, output, errors = on_hosts(hosts, *command, "-n", ranks, PEER, "exchange")
                    self.assertEqual((status, errors), (0, ""))
                    found = re.findall(r"rank (\d+)/(\d+) local (\d+)/2 hosts (\d+) by (.+) id (.+)", output)
                    self.assertEqual(len(found), ranks, output)
                    for rank, size, local, known, by, _ in found:
                        self.assertEqual((int(size), int(known), by), (ranks, ranks, name))
                        self.assertEqual(int(local), int(rank) % 2)
                    self.assertEqual(len({line[-1] for line in found}), 1)

    def test_abort_ends_the_job_on_every_host(self):
        for _, command in launchers():
            with self.subTest(launcher=command[0]):
                self.assertEqual(on_hosts(2, *command, "-n", 4, PEER, "abort", 42)[0], 42)


if __name__ == "__main__":
    status, _, errors = on_hosts(1, "true")
    if status == 77 or not launchers():
        print(errors.strip() or "skipped: needs mpiexec.hydra (package mpich)")
        sys.exit(77)
    print("launchers:", ", ".join(command[0] for _, command in launchers()), flush=True)
    unittest.main(verbosity=2)
