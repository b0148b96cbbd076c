#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# bench/programs.py: rows of given figures; cold time of a given trace; whole runs of small programs on the emulated driver
# and on host memory beside an earlier build (the same) and a fake of Open MPI. The programs check their data.
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
import programs  # noqa: E402
from fakes import fake_openmpi  # noqa: E402
from peer_programs import Failure  # noqa: E402


def span(name, begin, duration, pid=0, tid=0):
    return {"ph": "X", "name": name, "ts": begin, "dur": duration, "pid": pid, "tid": tid}


class Figures(unittest.TestCase):
    def test_cold_ranges_count_once(self):
        events = [
            {"ph": "M", "name": "process_name", "pid": 0, "tid": 0},
            span("MPI_Send", 0, 1000), span("cold.regions", 100, 50), span("cold.mappings", 110, 20),  # inside
            span("cold.kernels", 200, 30, tid=1), span("cold.probes", 120, 100, pid=1), span("p2p.put", 300, 9),
        ]  # fmt: skip
        self.assertAlmostEqual(programs.cold_of_trace(events), (50 + 30 + 100) * 1e-6)

    def test_rows(self):
        one = programs.transform("p2p", 64, 200, "cuda")
        figures = {
            "Weft": {(one.name, "first 5"): [0.5, 0.3, 0.4], (one.name, programs.WHOLE): [2.0], (one.name, "in MPI"): [0.7]},
            "Open MPI": {(one.name, "first 5"): [0.5], (one.name, programs.WHOLE): [1.0]},
            programs.BEFORE: {(one.name, "first 5"): [1.6]},
        }  # fmt: skip
        first, whole = programs.compare([one], figures, {one.name: 0.1})
        self.assertEqual(
            (first["figure"], first["ratio"], first["ratio_before"], first["met"]), ("first 5", 0.8, 0.25, True)
        )
        self.assertEqual(whole["parts"], {"in MPI": {"Weft": 0.7}, "cold": {"Weft": 0.1}})
        self.assertNotIn("met", whole)

    def test_outputs(self):
        figures = programs.transform("p2p", 64, 200, "cuda").figures(
            "# p2p\nmean of the first 5: 20.5\nmean of all 200: 8\n"
        )
        self.assertEqual(figures, {"first 5": 20.5e-6, "mean of 200": 8e-6})
        line = "overlap, 64, 64, 10, 1, 2, 1, 0.5, nan\n"
        self.assertEqual(programs.jacobi("overlap", (64, 64, 10), "cuda").figures(line), {"time": 0.5})
        loop = programs.array_loop("numpy", 6).figures('{"us": [9, 1, 1, 1, 3, 3]}\n')
        self.assertEqual({name: round(value * 1e6) for name, value in loop.items()}, {"first 5": 3, "mean of 6": 3})
        other = programs.command("mine: run '{library} x' y", r"took ([\d.]+) s")
        self.assertEqual((other.name, other.figures("took 1.5 s\ntook 2.5 s")), ("mine", {"its own time": 2.5}))
        self.assertEqual(programs.command("mine: x", None).figures("none"), {})
        with self.assertRaises(Failure):
            other.figures("took no time")


class Runs(unittest.TestCase):
    def run_it(self, memory, *options, **variables):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            words = [sys.executable, os.path.join(ROOT, "bench", "programs.py"), "--weft", PREFIX, "--before", PREFIX]
            words += ["--openmpi", fake_openmpi(os.path.join(folder, "o"), PREFIX), "--scale", "small", "--rounds", "1"]
            words += ["--memory", memory, "--ranks", "2", "--json", path, *options]
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240,
                                  stdin=subprocess.DEVNULL, env={**os.environ, **variables})  # fmt: skip
            self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            with open(path, encoding="utf-8") as file:
                facts = json.load(file)
        self.assertEqual((facts["failures"], facts["missing"], facts["untraced"]), ({}, {}, {}))
        for row in facts["rows"]:
            self.assertEqual(set(row["seconds"]), {"Weft", programs.BEFORE, "Open MPI"}, row)
            self.assertTrue(all(seconds > 0 for seconds in row["seconds"].values()))
            for part in ("MPI_Init", "in MPI", "outside") if "parts" in row else ():
                self.assertTrue(all(0 < row["parts"][part][name] for name in row["seconds"]), row)
        return {(row["program"], row["figure"]): row for row in facts["rows"]}

    def test_on_emulated_gpus(self):
        rows = self.run_it("D", "--only", "transform p2p", "--only", "transform a2av")
        names = ("transform p2p 24^3", "transform p2p_pl 24^3", "transform a2av 24^3")
        figures = ("first 5", "mean of 10", programs.WHOLE)
        self.assertEqual(set(rows), {(name, figure) for name in names for figure in figures})
        for name in names:
            self.assertIn("Weft", rows[name, programs.WHOLE]["parts"]["cold"])

    def test_on_host_memory(self):
        program = os.path.join(PREFIX, "libexec", "weft", "bench", "init")
        also = ("--also", f"start: sh -c '{program} && echo took 7 s for {{library}}'", "--figure", r"took ([\d.]+) s")
        rows = self.run_it("H", "--only", "start", "--only", "a2a 24", *also)
        self.assertEqual(set(rows["start", "its own time"]["seconds"].values()), {7.0})
        parts = rows["start", programs.WHOLE]["parts"]
        self.assertLess(parts["in MPI"]["Weft"], rows["start", programs.WHOLE]["seconds"]["Weft"])

    def test_mpi4py(self):
        libraries = os.environ.get("MPI4PY_FOLDERS")
        if not libraries:
            self.skipTest("no wheel of mpi4py with NumPy")
        rows = self.run_it("H", "--only", "mpi4py", PYTHONPATH=libraries)
        self.assertIn(("mpi4py and numpy", "first 5"), rows)


class Transform(unittest.TestCase):
    def test_every_redistribution_moves_each_block_to_its_rank(self):
        for how in programs.REDISTRIBUTIONS:
            with tempfile.NamedTemporaryFile(suffix=".json") as file:
                words = [os.path.join(PREFIX, "bin", "mpiexec"), "-n", "3"]
                words += [
                    os.path.join(PREFIX, "libexec", "weft", "bench", "transform"),
                    "-d",
                    "host",
                    "-n",
                    "6",
                    "-r",
                    "3",
                ]
                subprocess.run([*words, "-x", how, "-j", file.name], check=True, capture_output=True, timeout=60)
                with open(file.name, encoding="utf-8") as text:
                    row = json.load(text)["rows"][0]
            self.assertEqual((row["valid"], row["size"], len(row["us"])), (True, 2 * 6**3 // 9 * 8, 3))


if __name__ == "__main__":
    unittest.main()
