#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The summary at MPI_Finalize (mpiexec --stats, WEFT_STATS): calls, bytes, time in MPI by call and rank, waits by cause, in
# at most 40 lines; and the lines of MPI_Init at WEFT_LOG=info.
# usage: summary.py PROGRAM VERSION
import os
import re
import subprocess
import sys
import unittest

PROGRAM, VERSION = sys.argv[1:3]
del sys.argv[1:3]
SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1}


def run(*words, **variables):
    done = subprocess.run(["mpiexec", *words], env={**os.environ, **variables}, capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    return done.returncode, done.stderr.splitlines()


def seconds(text):
    value, unit = text.split()
    return float(value) * SECONDS[unit]


def table(lines, heading):
    """Returns {first word: line} of the lines below a heading."""
    at = next(number for number, line in enumerate(lines) if line.split()[:1] == [heading])
    return {line.split()[0]: line for line in lines[at + 1 :]}


class Summary(unittest.TestCase):
    def test_known_calls(self):
        status, lines = run("--stats", "-n", "3", PROGRAM, "300")
        self.assertEqual(status, 0, lines)
        self.assertLessEqual(len(lines), 40)
        self.assertRegex(
            lines[0],
            r"^weft: summary of 3 ranks on 1 host: [\d.]+ m?s from MPI_Init to MPI_Finalize, [\d.]+ % of it in MPI$",
        )
        calls = table(lines, "call")
        for call, number, size in (("MPI_Send", 31, "12 kB"), ("MPI_Allreduce", 15, "240 B"), ("MPI_Barrier", 3, "0 B"),
                                   ("MPI_Recv", 1, "4 B"), ("MPI_Irecv", 30, "12 kB"), ("MPI_Wait", 30, "0 B")):  # fmt: skip
            self.assertRegex(
                calls[call], rf"^  {call} +{number} +{size} +[\d.]+ [mu]?s +[\d.]+ %  [\d.]+ [mu]?s on rank \d$"
            )
        self.assertRegex(calls["MPI_Barrier"], r" on rank [01]$")

    def test_waits_have_a_cause(self):
        _, lines = run("--stats", "-n", "3", PROGRAM, "300")
        waits = next(line for line in lines if line.startswith("  waits for: "))
        sender = seconds(re.search(r"a late sender ([\d.]+ [mu]?s)", waits).group(1))
        collective = seconds(re.search(r"a collective ([\d.]+ [mu]?s)", waits).group(1))
        self.assertTrue(0.2 < sender < 3 and 0.4 < collective < 3, waits)
        ranks = table(lines, "rank")
        self.assertEqual(sorted(ranks), ["0", "1", "2"])
        times = re.findall(r"[\d.]+ [mu]?s", ranks["0"])  # in MPI, then by cause
        self.assertTrue(seconds(times[0]) > 0.5 and seconds(times[1]) > 0.2 and seconds(times[3]) > 0.2, ranks["0"])
        self.assertLess(seconds(re.findall(r"[\d.]+ [mu]?s", ranks["2"])[0]), 0.25)

    def test_many_ranks_fit(self):
        status, lines = run("-n", "20", PROGRAM, WEFT_STATS="1")
        self.assertEqual(status, 0, lines)
        self.assertLessEqual(len(lines), 40)
        self.assertEqual(len(table(lines, "rank")), 16)
        self.assertIn("the 8 with the most and the 8 with the least time in MPI", "\n".join(lines))

    def test_off(self):
        self.assertEqual(run("-n", "2", PROGRAM), (0, []))
        self.assertEqual(run("-n", "2", PROGRAM, WEFT_STATS="0"), (0, []))

    def test_start(self):
        status, lines = run("-n", "2", PROGRAM, WEFT_LOG="info")
        self.assertEqual(status, 0, lines)
        text = "\n".join(lines)
        for line in (
            rf"Weft {re.escape(VERSION)} \(commit ([0-9a-f]{{12}}\+?|unknown)\), MPI 5\.0, MPI_THREAD_\w+, /.*libmpi_abi\.so",
            r"launcher: weft mpiexec.*; ranks: 2, 2 on this host; hosts: 1; gpus: .*; "
            "inside a host: shared memory; network: none",
        ):
            self.assertRegex(text, r"(?m)^weft\[0\]: " + line)
        for rank in (0, 1):
            self.assertRegex(text, rf"(?m)^weft\[{rank}\]: rank {rank} of 2: host \S+, pid \d+, cores [\d,-]+$")


if __name__ == "__main__":
    unittest.main()
