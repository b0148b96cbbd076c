#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# bench/compat_host.py: the order of the libraries, few iterations where a library is slow, rows that are left out, and
# the end of the time; without any MPI library.
import contextlib
import io
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
sys.dont_write_bytecode = True
import compat_host  # noqa: E402


class FakeLibrary:
    def __init__(self, name, weft, other=""):
        self.name, self.weft, self.other = name, weft, other

    def configurations(self):
        return {"default": []}


class FakePart:
    """Ends on Weft, and on the other library as often as `ends` says: always, with few iterations, or never."""

    def __init__(self, name, ends, calls):
        self.name, self.ends, self.calls, self.limit, self.shortens = name, ends, calls, 10, True

    def run(self, library, _extra, _limit, few):
        self.calls.append((self.name, library.name, few))
        if not library.weft and self.ends != "always" and not (few and self.ends == "few"):
            raise compat_host.Failure("killed")
        return {self.name: 1.0 if library.weft else 2.0}


class Rounds(unittest.TestCase):
    def setUp(self):
        self.own, self.through = FakeLibrary("MPICH", False), FakeLibrary("MPICH's on Weft", True, "MPICH")
        self.turns = compat_host.Turns([self.own, self.through, FakeLibrary("Weft", True)])
        self.calls = []
        self.parts = [FakePart(name, name, self.calls) for name in ("always", "few", "never")]

    def run_rounds(self, rounds, minutes):
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            compat_host.run_rounds(self.turns, self.parts, rounds, minutes, True)
        return errors.getvalue()

    def test_turns_and_rows_without_a_figure(self):
        self.assertEqual(self.run_rounds(2, 1).count("MPICH left out: never"), 1)
        of_first = [name for part, name, _ in self.calls if part == "always"]
        self.assertEqual(of_first, ["MPICH", "MPICH's on Weft", "Weft"] + ["Weft", "MPICH's on Weft", "MPICH"])
        for part, expected in (("few", [False, True, True]), ("never", [False, True])):
            self.assertEqual([few for *call, few in self.calls if call == [part, "MPICH"]], expected)
        self.assertFalse(any(few for _, name, few in self.calls if name != "MPICH"))
        table = compat_host.host.medians(self.turns.figures)
        rows = {row["point"]: row for row in compat_host.compare(table, [self.through])["MPICH"]}
        self.assertEqual([rows[name].get("met") for name in ("always", "few", "never")], [True, True, None])
        self.assertEqual((rows["few"]["ratio"], rows["never"]["own"]), (0.5, None))

    def test_the_configuration_that_is_better_in_more_rows(self):
        figures = {
            "default": {"barrier": 1, "bcast_8": 2, "rate_8": 3},
            "other": {"barrier": 2, "bcast_8": 3, "rate_8": 9},
        }
        self.assertEqual(compat_host.better_configuration(figures), "default")
        figures["default"]["bcast_8"] = 4
        self.assertEqual(compat_host.better_configuration(figures), "other")
        self.assertEqual(compat_host.better_configuration({"default": {}, "other": {"barrier": 1}}), "other")
        self.assertEqual(compat_host.better_configuration({"default": {}}), "default")

    def test_each_part_is_measured_once_though_the_time_is_over(self):
        self.run_rounds(9, 0)
        self.assertEqual([len(values) for values in self.turns.figures["Weft", "default"].values()], [1, 1, 1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
