#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# bench/rounds.py with bench/compat_host.py and bench/host.py: the order of the libraries, few iterations where a
# library is slow, rows that are left out, and the end of the time; without any MPI library.
import contextlib
import io
import os
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))
sys.dont_write_bytecode = True
import alternate  # noqa: E402
import compat_host  # noqa: E402
import host  # noqa: E402
import places  # noqa: E402
from rounds import Failure, Rounds, better_configuration  # noqa: E402


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
            raise Failure("killed after 10 s")
        return {self.name: 1.0 if library.weft else 2.0}


class FailingPart(FakePart):
    def __init__(self):
        super().__init__("failing", "never", [])

    def run(self, *_):
        raise Failure("status 1")


class Comparison(unittest.TestCase):
    def setUp(self):
        self.own, self.through = FakeLibrary("MPICH", False), FakeLibrary("MPICH's on Weft", True, "MPICH")
        self.rounds = Rounds([self.own, self.through, FakeLibrary("Weft", True)], {"rate_8"})
        self.calls = []
        self.parts = [FakePart(name, name, self.calls) for name in ("always", "few", "never")]

    def report(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            self.rounds.report()
        return out.getvalue()

    def test_turns_and_rows_without_a_figure(self):
        self.rounds.run(self.parts, 2, 1, True)
        of_first = [name for part, name, _ in self.calls if part == "always"]
        self.assertEqual(of_first, ["MPICH", "MPICH's on Weft", "Weft"] + ["Weft", "MPICH's on Weft", "MPICH"])
        for part, expected in (("few", [False, True, True]), ("never", [False, True])):
            self.assertEqual([few for *call, few in self.calls if call == [part, "MPICH"]], expected)
        self.assertFalse(any(few for _, name, few in self.calls if name != "MPICH"))
        table, found = host.medians(self.rounds.figures)
        self.assertEqual(found["always"], (None, 2))  # no line was measured
        rows = {row["point"]: row for row in compat_host.compare(table, [self.through])["MPICH"]}
        self.assertEqual([rows[name].get("met") for name in ("always", "few", "never")], [True, True, None])
        self.assertEqual((rows["few"]["ratio"], rows["never"]["own"]), (0.5, None))
        del table[self.through.name]
        rows = {row["point"]: row for row in host.compare(table)}
        self.assertEqual([rows[name]["ratio"] for name in ("always", "few", "never")], [0.5, 0.5, None])

    def test_the_report_names_what_was_left_out_and_why(self):
        self.rounds.run(self.parts, 2, 1, True)
        lines = self.report().splitlines()
        self.assertEqual(lines[0], "2 to 2 rounds")
        self.assertEqual([line.rpartition(": ")[2] for line in lines[1:2]], ["MPICH, default, few"])
        self.assertEqual(lines[2:], ["left out: MPICH, default, never: killed after 10 s"])
        self.assertEqual(self.rounds.facts()["left_out"], [["MPICH", "default", "never", "killed after 10 s"]])

    def test_a_failure_of_weft_ends_the_comparison(self):
        with self.assertRaisesRegex(Failure, "Weft, default, failing: status 1"):
            Rounds([FakeLibrary("Weft", True)], ()).run([FailingPart()], 1, 1, True)

    def test_only_runs_of_one_place_are_compared(self):
        # Weft is faster in each place, a run that moves or that is near is left out.
        class MovingPart(FakePart):
            def run(self, library, *_):
                place = line.next_place()
                return {"row": place * (9.0 if library.weft else 10.0)}

        class FakeLine:
            """The line's time of the places of the runs in turn; each run begins and ends in its place."""

            def __init__(self, places):
                self.places, self.at = places, -1

            def next_place(self):
                self.at += 1
                return self.places[self.at]

            def measure(self):
                return 60.0 * self.places[max(self.at, 0)]

        near, far = 1, 5
        # Runs: peer, Weft; Weft, peer; peer, Weft; ... A run that begins in one place and ends in another has none.
        line = FakeLine([near, near, far, far, far, far, far, far, near, near, near, far])
        rounds = Rounds([FakeLibrary("Peer", False), FakeLibrary("Weft", True)], (), line)
        rounds.run([MovingPart("row", "always", [])], 6, 1, True)
        table, found = host.medians(rounds.figures)
        self.assertEqual(found["row"][0], "far")
        self.assertEqual((table["Weft"]["row"], table["Peer"]["row"]), (45.0, 50.0))
        row = host.add_places(host.compare(table), found)[0]
        self.assertEqual((row["ratio"], row["place"], row["runs"]), (0.9, "far", 2))
        lines = [lines for lines in rounds.facts()["lines_ns"]["Weft, default"]["row"]]
        self.assertEqual(lines[0], (60.0, 60.0))
        self.assertEqual(len(lines), 6)

    def test_places_of_figures(self):
        def figures(*pairs):
            return [places.Placed(1.0, pair) for pair in pairs]

        near, far, moved = (60.0, 70.0), (290.0, 310.0), (60.0, 300.0)
        shortest = places.fastest(figures(far, near))
        self.assertEqual([places.place_of(one, shortest) for one in figures(near, far, moved)], ["near", "far", None])
        self.assertIsNone(places.place_of(1.0, shortest))
        place, chosen = places.compared({"a": figures(near, far, far), "b": figures(near, near, far)}, shortest)
        self.assertEqual((place, [len(chosen[name]) for name in "ab"]), ("near", [1, 2]))
        place, chosen = places.compared({"a": figures(near, moved), "b": figures(far)}, shortest)
        self.assertEqual((place, [len(chosen[name]) for name in "ab"]), (None, [2, 1]))
        rows = alternate.compare({("x", "latency_us"): {"old": figures(near, far), "new": figures(near)}}, 1.05)
        self.assertEqual((rows[0]["place"], rows[0]["rounds"], rows[0]["good"]), ("near", 1, True))

    def test_a_line_takes_time(self):
        with tempfile.TemporaryDirectory() as folder:
            line = places.line_of(folder)
            if line is None:
                self.skipTest("one core")
            self.assertTrue(1.0 < line.measure() < 1e6)

    def test_the_configuration_that_is_better_in_more_rows(self):
        figures = {
            "default": {"barrier": 1, "bcast_8": 2, "rate_8": 3},
            "other": {"barrier": 2, "bcast_8": 3, "rate_8": 9},
        }
        higher = {"rate_8"}
        self.assertEqual(better_configuration(figures, higher), "default")
        figures["default"]["bcast_8"] = 4
        self.assertEqual(better_configuration(figures, higher), "other")
        self.assertEqual(better_configuration({"default": {}, "other": {"barrier": 1}}, higher), "other")
        self.assertEqual(better_configuration({"default": {}}, higher), "default")

    def test_a_part_that_found_no_time_is_reported(self):
        self.rounds.run(self.parts, 9, 0, True)
        self.assertEqual(self.calls, [])
        lines = self.report().splitlines()
        self.assertEqual(lines[0], "0 to 0 rounds")
        self.assertEqual(lines[1], "left out: all libraries, default, always: the time ended")
        self.assertEqual(len(lines), 1 + len(self.parts))

    def test_no_round_begins_after_the_end_of_the_time(self):
        class SlowPart(FakePart):
            def run(self, *arguments):
                time.sleep(0.02)
                return super().run(*arguments)

        self.rounds.run([SlowPart("always", "always", self.calls)], 9, 0.05 / 60, True)
        self.assertEqual(self.rounds.counts(), (1, 1))

    def test_parts_hold_the_chosen_rows_only(self):
        names = [part.name for part in host.parts_of({"barrier", "barrier, 8 ranks", "window 8"}, 0.1)]
        self.assertEqual(names, ["barrier on 2 ranks", "barrier on 8 ranks", "window on 2 ranks"])
        names = [part.name for part in host.parts_of({"start and end, ms"}, 0.1)]
        self.assertEqual(names, ["start and end on 2 ranks"])
        self.assertEqual(len(host.parts_of(set(), 0.1)), 5 + len(host.PROGRAM_JOBS))


if __name__ == "__main__":
    unittest.main(verbosity=2)
