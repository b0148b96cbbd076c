#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# bench/bars.py: evaluation of given figures; failing measurements, and the time limit; a short trial of nearly all
# measurements on the emulated driver.
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
sys.dont_write_bytecode = True
import bars  # noqa: E402

EVERYTHING = {**bars.ROUNDS, **bars.ONCE}


class Bars(unittest.TestCase):
    def test_verdicts_on_medians(self):
        figures = {"barrier": [9, 1.4, 1.5], "x face over contiguous": [0.4, 0.6, 0.49], "other": [7]}
        rows = bars.evaluate(figures, bars.BARS, False)
        self.assertEqual([row.get("met") for row in rows], [True, False, None])
        self.assertEqual([row["value"] for row in rows], [1.5, 0.49, 7])

    def test_a_trial_has_no_verdicts(self):
        self.assertNotIn("met", bars.evaluate({"barrier": [1]}, bars.BARS, True)[0])

    def test_every_bar_is_measured(self):
        with open(bars.__file__, encoding="utf-8") as file:
            text = file.read().split("}  # fmt: skip", 1)[1]
        for name in bars.BARS:
            stem = name.replace(", lone", "")
            if stem.startswith("lone "):
                stem = "lone {name} 8 B"
            elif stem.startswith("Jacobi 16384 x 32768"):
                stem = "Jacobi 16384 x 32768 on %d"
            self.assertIn(stem, text)

    def test_failures_are_reported(self):
        def broken(_):
            raise bars.Failure("no such thing")

        works = {"calls": broken, "enqueued": lambda site: {"barrier": site}}
        with contextlib.redirect_stderr(io.StringIO()):
            figures, failures = bars.measure(1.25, works, {}, 3, time.monotonic() + 60)
            late = bars.measure(1.25, {"enqueued": works["enqueued"]}, {}, 3, time.monotonic() - 1)
        self.assertEqual((figures, failures), ({"barrier": [1.25] * 3}, {"calls": "no such thing"}))
        self.assertEqual(late, ({}, {"enqueued": "no time left"}))

    def test_trial_of_everything(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "bars.json")
            words = ["--weft", os.environ["MPI_PREFIX"], "--trial", "--rounds", "1", "--ranks", "2", "--json", path]
            others = [work for work in EVERYTHING if work != "interference"]  # has a test of its own
            words += ["--only", ",".join(others)]
            done = subprocess.run(
                [sys.executable, bars.__file__, *words], capture_output=True, text=True, timeout=150, check=False
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(path, encoding="utf-8") as file:
                result = json.load(file)
        measured = {row["name"] for row in result["rows"]}
        elsewhere = ("Jacobi 16384 x 32768", "a program's kernel", "cuCtxSynchronize")
        expected = {name for name in bars.BARS if not name.startswith(elsewhere)} | {"Jacobi 16384 x 32768 on 2"}
        if len(os.sched_getaffinity(0)) < 2:
            expected.remove("barrier")
        self.assertEqual(measured, expected)
        self.assertEqual(set(result["details"]), {"halo", "memory"})

    def test_bad_words(self):
        for words, what in (
            (("--only", "nothing"), "no such measurement"),
            (("--ranks", "1"), "at least 2"),
        ):
            done = subprocess.run(
                [sys.executable, bars.__file__, *words], capture_output=True, text=True, timeout=30, check=False
            )
            self.assertEqual(done.returncode, 2)
            self.assertIn(what, done.stderr)


if __name__ == "__main__":
    unittest.main()
