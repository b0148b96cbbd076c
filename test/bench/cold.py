#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# bench/cold.py: points, ratios and limits of given figures; a whole run on the emulated driver beside an earlier build
# (the same), a fake of Open MPI and the fake of NCCL, every byte checked.
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PREFIX = os.environ["MPI_PREFIX"]
sys.path.insert(0, os.path.join(ROOT, "bench"))
sys.dont_write_bytecode = True
import cold  # noqa: E402
from fakes import corrupting_library, fake_nccl, fake_openmpi  # noqa: E402


class Figures(unittest.TestCase):
    def test_points(self):
        row = {"init_ms": 2.0, "start_us": [90.0, 20.0, 10.0], "sum_us": [50.0, 6.0, 5.0], "steady_us": 9.0,
               "fresh_us": [30.0, 12.0, 11.0], "fresh_step_us": [400.0, 300.0, 200.0],
               "fresh_alltoall_us": [900.0, 60.0, 50.0]}  # fmt: skip
        points = cold.points_of_run("64K", row)
        self.assertEqual(points["MPI_Init"], 2.0)
        self.assertEqual(points["MPI_Init and first, 64K"], 2090.0)
        self.assertEqual((points["first, 64K"], points["second, 64K"], points["last, 64K"]), (90.0, 20.0, 10.0))
        self.assertEqual((points["total, 64K"], points["first allreduce, 64K"]), (120.0, 50.0))
        self.assertEqual((points["fresh, 64K"], points["fresh and allocation, 64K"]), (12.0, 300.0))
        self.assertEqual(points["fresh alltoall, 64K"], 55.0)

    def test_ratios_and_limits(self):
        figures = {
            "Weft": {"first, 64K": [40.0, 60.0, 50.0], "second, 64K": [16.0], "steady, 64K": [10.0], "fresh, 64K": [19.0],
                     "fresh, 1M": [900.0]},
            cold.BEFORE: {"first, 64K": [250.0]},
            "Open MPI": {"first, 64K": [90.0]},
            "NCCL": {"first, 64K": [80.0]},
        }  # fmt: skip
        rows = {row["point"]: row for row in cold.compare(figures)}
        first = rows["first, 64K"]
        self.assertEqual((first["ratio"], first["ratio_before"]), (0.625, 0.2))  # to NCCL, the better one
        limits = [{"of": "Open MPI", "bar": 45.0, "met": False}, {"of": cold.BEFORE, "bar": 62.5, "met": True}]
        self.assertEqual(first["bars"], limits)
        self.assertEqual(rows["second, 64K"]["bars"], [{"of": "steady", "bar": 15.0, "met": False}])
        self.assertEqual(rows["fresh, 64K"]["bars"], [{"of": "steady", "bar": 20.0, "met": True}])
        self.assertEqual(rows["fresh, 1M"]["bars"], [])
        self.assertEqual(cold.compare(figures, bars=False)[0]["bars"], [])


class Runs(unittest.TestCase):
    def run_it(self, *options, **variables):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            words = [
                sys.executable,
                os.path.join(ROOT, "bench", "cold.py"),
                "--weft",
                PREFIX,
                "--json",
                path,
                "--trial",
            ]
            words += ["--openmpi", fake_openmpi(os.path.join(folder, "o"), PREFIX), *options]
            words += ["--nccl", fake_nccl(folder, PREFIX), "--before", PREFIX, "--check", "--rounds", "1"]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=150,
                                  stdin=subprocess.DEVNULL, env={**os.environ, **variables})  # fmt: skip
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            with open(path, encoding="utf-8") as file:
                return json.load(file), done.stdout

    def test_between_emulated_gpus(self):
        facts, out = self.run_it("--sizes", "8,64K", "--kernel-sizes", "8K", "--ranks", "2")
        self.assertEqual((facts["missing"], facts["failures"], facts["rounds"]), ({}, {}, 1))
        self.assertEqual(set(facts["runs"]), {"Weft", cold.BEFORE, "Open MPI", "NCCL"})
        for name, runs in facts["runs"].items():
            self.assertEqual([run["job"] for run in runs], ["8", "64K", "8K beside a kernel"], name)
            self.assertEqual([run["size"] for run in runs], [8, 65536, 8192])
            self.assertTrue(all(run["valid"] and len(run["start_us"]) == 4 for run in runs))
            self.assertEqual([run["kernel_ms"] for run in runs], [0, 0, cold.TRIAL_KERNEL_MS])
        rows = {row["point"]: row for row in facts["rows"]}
        self.assertEqual(set(rows["first, 8"]["figures"]), set(facts["runs"]))
        self.assertIn("ratio_before", rows["steady, 64K"])
        self.assertIn("NCCL, version unknown, NVLS off", out)

    def test_a_wrong_byte_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            library = corrupting_library(folder, os.path.join(PREFIX, "bin", "mpicc"))
            words = [os.path.join(PREFIX, "bin", "mpiexec"), "-n", "2", "env", "CORRUPT=last", "LD_PRELOAD=" + library]
            words += [os.path.join(PREFIX, "libexec", "weft", "bench", "cold"), "-d", "host", "-c", *cold.TRIAL]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("data: Fail", done.stdout)

    def test_per_task_on_three_ranks(self):
        options = ("--sizes", "1K", "--kernel-sizes", "", "--ranks", "3", "--per-task")
        facts, _ = self.run_it(*options, EMUCUDA_DEVICES="3")
        self.assertEqual((facts["failures"], facts["visibility"]), ({}, "per task"))
        self.assertTrue(all(run["valid"] for runs in facts["runs"].values() for run in runs))


if __name__ == "__main__":
    unittest.main()
