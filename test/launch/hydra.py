#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# weft::launch under Weft's mpiexec and Hydra, and without a launcher.
import os
import re
import subprocess
import unittest

from support import MPIEXEC, PEER, clean_environment, hydras, run


def launchers():
    return [("weft mpiexec", (MPIEXEC,))] + [("hydra", (path,)) for path in hydras()]


class Exchange(unittest.TestCase):
    def check_job(self, output, ranks, launcher):
        lines = sorted(output.splitlines(), key=lambda line: int(line.split()[1].split("/")[0]))
        self.assertEqual(len(lines), ranks)
        for rank, line in enumerate(lines):
            expected = f"rank {rank}/{ranks} local {rank}/{ranks} hosts {ranks} by {launcher} id "
            self.assertTrue(line.startswith(expected), line)
        self.assertEqual(len({line.split(" id ")[1] for line in lines}), 1)

    def test_values_reach_every_rank(self):
        for name, command in launchers():
            for ranks in (1, 4):
                with self.subTest(launcher=command[0], ranks=ranks):
                    status, output, errors = run("-n", ranks, PEER, "exchange", launcher=command)
                    self.assertEqual((status, errors), (0, ""))
                    self.check_job(output, ranks, name)

    def test_pmi_port(self):
        for _, command in launchers()[1:]:
            with self.subTest(launcher=command[0]):
                status, output, errors = run("-pmi-port", "-n", 4, PEER, "exchange", launcher=command)
                self.assertEqual((status, errors), (0, ""))
                self.assertEqual(len(output.splitlines()), 4)

    def test_duplicate_key_is_an_error(self):
        for _, command in launchers():
            with self.subTest(launcher=command[0]):
                self.assertEqual(run("-n", 2, PEER, "twice", launcher=command)[0], 0)

    def test_abort_ends_the_job(self):
        for _, command in launchers():
            with self.subTest(launcher=command[0]):
                self.assertEqual(run("-n", 3, PEER, "abort", 42, launcher=command)[0], 42)

    def test_processes_started_by_a_rank_are_singletons(self):
        for _, command in launchers():
            with self.subTest(launcher=command[0]):
                status, output, errors = run("-n", 2, PEER, "command", f"{PEER} exchange", launcher=command)
                self.assertEqual((status, errors), (0, ""))
                self.assertEqual(len(re.findall("rank 0/1 .* by singleton", output)), 2, output)

    def test_jobs_nest(self):
        for _, command in launchers():
            inner = f"{MPIEXEC} -n 3 {PEER} exchange"
            with self.subTest(launcher=command[0]):
                # From a connected rank, and from an unconnected one.
                for outer in ((PEER, "command", inner), ("sh", "-c", inner)):
                    status, output, errors = run("-n", 2, *outer, launcher=command)
                    self.assertEqual((status, errors), (0, ""))
                    self.assertEqual(len(re.findall("rank 2/3 local 2/3", output)), 2, output)

    def test_two_programs_one_after_the_other(self):
        status, output, errors = run("-n", 3, "sh", "-c", f"{PEER} exchange && {PEER} exchange")
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(len(output.splitlines()), 6)

    def test_fences_are_fast(self):
        status, output, _ = run("-n", 4, PEER, "fences", 1000)
        self.assertEqual(status, 0)
        # Typical: 50 microseconds. The limit detects any sleep or timer in the path.
        self.assertLess(float(output.split()[0]), 5000)


class WithoutLauncher(unittest.TestCase):
    def peer(self, **variables):
        done = subprocess.run(
            [PEER], env=clean_environment(**variables), capture_output=True, text=True, check=False, timeout=30
        )
        return done.returncode, done.stdout, done.stderr

    def test_singleton(self):
        status, output, errors = self.peer(SLURM_NTASKS="8", SLURM_JOB_ID="1")
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("rank 0/1 local 0/1 hosts 1 by singleton", output)

    def test_unreachable_launchers_are_an_error(self):
        for variables in (
            {"SLURM_STEP_NUM_TASKS": "2"},
            {"PMI_SIZE": "2", "PMI_RANK": "0"},
            {"PMIX_RANK": "0"},
            {"PMIX_NAMESPACE": "nobody", "PMIX_RANK": "0"},
            {"PMI_FD": "200", "PMI_SIZE": "2", "PMI_RANK": "1"},
            {"PMI_PORT": "nowhere", "PMI_ID": "0"},
        ):
            with self.subTest(**variables):
                # AddressSanitizer sees that it is libpmix that leaks (leaks.supp) only if it unwinds without frame pointers.
                options = os.environ.get("ASAN_OPTIONS", "") + ":fast_unwind_on_malloc=0"
                status, output, errors = self.peer(**variables, ASAN_OPTIONS=options)
                self.assertEqual((status, output), (3, ""))
                self.assertIn(next(iter(variables)), errors)


if __name__ == "__main__":
    print("launchers:", ", ".join(command[0] for _, command in launchers()), flush=True)
    if len(launchers()) == 1:
        print("no Hydra found: only Weft's mpiexec is tested", flush=True)
    os.environ.pop("PMI_FD", None)
    unittest.main(verbosity=2)
