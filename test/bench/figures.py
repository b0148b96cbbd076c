#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# bench/figures.py: order, time limits, what is measured already, what a machine lacks, files without the commit of the
# library; a trial of the solver's part on the emulated driver.
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PREFIX = os.environ["MPI_PREFIX"]
sys.path.insert(0, os.path.join(ROOT, "bench"))
sys.dont_write_bytecode = True
import figures  # noqa: E402
import peer_programs  # noqa: E402

COMMIT = "0123456789ab"
FACTS = {"date": "2026-11-30", "commit": COMMIT}


class Plans(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = figures.Site(PREFIX, 0, {}, folder=folder.name)
        self.made = []

    def part(self, name, least=1, content=None, **others):
        def make(_, seconds):
            self.made.append((name, round(seconds)))
            return dict(FACTS if content is None else content)

        return figures.Part(name, 60, least, make=make, **others)

    def measure(self, parts, seconds=1000, again=False):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return figures.measure_all(parts, self.site, COMMIT, time.monotonic() + seconds, again)

    def test_measures_in_order_and_only_once(self):
        parts = [self.part("a"), self.part("b")]
        self.assertEqual(self.measure(parts), ({}, {}))
        self.assertEqual(self.made, [("a", 60), ("b", 60)])
        self.measure(parts)
        self.assertEqual(len(self.made), 2)
        self.measure(parts, again=True)
        self.assertEqual(len(self.made), 4)

    def test_file_of_another_commit_is_measured_again(self):
        path = os.path.join(self.site.folder, "a.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**FACTS, "commit": "9876543210fe"}, file)
        self.measure([self.part("a")])
        with open(path, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["commit"], COMMIT)

    def test_time_limits(self):
        rest = 30 + figures.GRACE_S
        self.assertEqual(self.measure([self.part("long", least=40), self.part("short")], rest),
                         ({}, {"long": "no time left"}))  # fmt: skip
        self.assertEqual(self.made, [("short", 30)])

    def test_what_a_machine_lacks(self):
        self.site.missing = {"ucx": "no folder"}
        absent, left = self.measure([self.part("gpus", gpus=2), self.part("peer", needs=("ucx",))])
        self.assertEqual(absent, {"gpus": "2 GPUs are needed, 0 found", "peer": "ucx: no folder"})
        self.assertEqual((left, self.made), ({}, []))

    def test_files_without_facts_are_refused(self):
        for content, what in (({"date": "2026-11-30"}, "does not name its commit"),
                              ({**FACTS, "commit": "9876543210fe"}, "names commit 9876543210fe"),
                              ({**FACTS, "date": "?"}, "does not name its date")):  # fmt: skip
            _, left = self.measure([self.part("a", content=content)])
            self.assertIn(what, left["a"])
        self.assertEqual(os.listdir(self.site.folder), [])
        self.site.gpus = 2
        _, left = self.measure([self.part("g", gpus=2)])
        self.assertIn("does not name its gpu", left["g"])

    def test_libraries_that_were_found_are_passed(self):
        self.site.found = {figures.OPEN_MPI_CUDA: "/o", figures.NCCL: "/n"}
        words = figures.peers(self.site, 100)
        self.assertEqual(words[words.index("--openmpi") :], ["--openmpi", "/o", "--nccl", "/n"])

    def test_solver_is_measured_by_one_part(self):
        for name in ("bars", "one-sided"):
            part = next(part for part in figures.PARTS if part.name == name)
            words = part.command(self.site, 100)
            self.assertNotIn("large Jacobi", words[words.index("--only") + 1].split(","))

    def test_host_rows_are_measured_once(self):
        rows = figures.host_rows()
        self.assertEqual(len(rows), len(set(rows)))
        self.assertIn("latency_8", [row for row in rows if not figures.is_one_sided(row)])
        self.assertIn("put create flush 8", [row for row in rows if figures.is_one_sided(row)])

    def test_commit_of_a_library_without_one(self):
        with mock.patch.object(peer_programs, "execute", return_value="mpiexec (Weft) 0.2.0 (commit unknown)\n"):
            self.assertRaisesRegex(peer_programs.Failure, "does not name its commit", peer_programs.commit_of, "/p")
        with mock.patch.object(peer_programs, "execute", return_value="mpiexec (Weft) 0.2.0 (commit 0123456789ab+)\n"):
            self.assertEqual(peer_programs.commit_of("/p"), "0123456789ab+")


class Trial(unittest.TestCase):
    def run_figures(self, *options):
        words = [sys.executable, figures.__file__, "--weft", PREFIX, *options]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL)

    def test_solver(self):
        with tempfile.TemporaryDirectory() as folder:
            options = ("--trial", "--gpus", "2", "--parts", "jacobi", "--folder", folder)
            done = self.run_figures(*options)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(os.path.join(folder, "jacobi-2.json"), encoding="utf-8") as file:
                found = json.load(file)
            self.assertEqual(os.listdir(folder), ["jacobi-2.json"])
            listed = self.run_figures(*options, "--list")
        self.assertEqual(found["commit"], peer_programs.commit_of(PREFIX))
        self.assertIn("16384 x 32768, 1 GPU, overlap", [row["name"] for row in found["rows"]])
        self.assertRegex(listed.stdout, r"jacobi .* measured")

    def test_refusals(self):
        for options, what in ((("--parts", "x"), "no such part"), (("--trial",), "--trial needs another --folder")):
            done = self.run_figures(*options)
            self.assertEqual(done.returncode, 2)
            self.assertIn(what, done.stderr)


if __name__ == "__main__":
    unittest.main()
