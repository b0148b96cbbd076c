#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Jobs whose ranks are killed at random. usage: kills.py PROGRAM [JOBS PER TEST]; TEST_SEED: of the first job.
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
JOBS = int(sys.argv.pop(2)) if len(sys.argv) > 2 else 13
from support import PEER as PROGRAM  # noqa: E402
from support import Mark, run  # noqa: E402

RANKS, SURVIVORS = 8, 2
# On two simulated hosts, with the network of this name.
NET = os.environ.get("TEST_HOSTS_OF")
HOSTS = {"WEFT_FAKE_HOSTS": "2", "WEFT_NET": NET, "UCX_TLS": "tcp", "FI_PROVIDER": "tcp"} if NET else {}
SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 20)))
ON_GPU = {"TEST_MEMORY": "device", "WEFT_CUDA_DRIVER": os.environ.get("TEST_EMULATED_DRIVER", ""), "EMUCUDA_STRICT": "1",
          "EMUCUDA_DEVICES": "8", "WEFT_COLL_SHARED_MIN_CALLS": "0"}  # fmt: skip


class Kills(unittest.TestCase):
    def check(self, **variables):
        kills = 0
        for job in range(JOBS):
            mark = Mark()
            seed = SEED + job
            command = ["-n", RANKS, "--continue-on-failure", "--timeout", 60, PROGRAM, seed, SURVIVORS]
            status, output, errors = run(*command, variables={**mark.variables, **HOSTS, **variables}, timeout=90)
            context = f"seed {seed}: {output}{errors}"
            self.assertEqual(output.count("good rank"), SURVIVORS, context)
            self.assertNotIn("BAD", output, context)
            # mpiexec may learn first of a spawned process whose parent has died: its MPI_Init fails.
            if "TEST_SPAWN" in variables and "of spawned job" in errors:
                self.assertEqual(status, 16, context)
                self.assertIn("aborted the job", errors, context)
            else:
                self.assertEqual(status, 137, context)
                self.assertIn("was killed by signal 9", errors, context)
            end = time.monotonic() + 5
            while mark.processes() and time.monotonic() < end:
                time.sleep(0.05)
            self.assertEqual(mark.processes(), [], context)
            kills += RANKS - SURVIVORS
        print(f"{kills} kills")

    def test_host_memory(self):
        self.check()

    def test_host_memory_by_messages(self):
        self.check(WEFT_COLL_SHARED="off")

    def test_spawn(self):
        self.check(TEST_SPAWN="1")

    def test_gpu_memory(self):
        self.check(**ON_GPU)


if __name__ == "__main__":
    unittest.main(verbosity=2)
