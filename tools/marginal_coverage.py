#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Finds out which tests reach code of src/ that no other test reaches.

usage: marginal_coverage.py [-j N] REGEX

REGEX selects quick tests of build/coverage (`make tests PRESET=coverage`) and variants of test/nightly_variants.txt.
Each test runs by itself; its counters are read from the .gcda files of g++ 12 or newer. Printed are the seconds of each
test, the arcs of the flow graph that it executed, how many of them no other test did, and the arcs that are lost without
the variants. Tests whose processes are killed count less than they executed. Exit status 1: a test failed.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "coverage"
VARIANTS = ROOT / "test" / "nightly_variants.txt"
FUNCTION, ARCS = 0x01000000, 0x01A10000  # tags of records; their length is in bytes


def executed_arcs(data):
    """The executed arcs in the contents of a .gcda file: [(function, number of the arc)]."""
    arcs, function, at = [], None, 16
    while at + 8 <= len(data):
        tag, length = struct.unpack_from("<Ii", data, at)
        at += 8
        if tag == FUNCTION and length > 0:
            (function,) = struct.unpack_from("<I", data, at)
        elif tag == ARCS and length > 0:  # negative: no arc was executed
            counts = struct.unpack_from(f"<{length // 8}Q", data, at)
            arcs += [(function, number) for number, count in enumerate(counts) if count]
        at += max(length, 0)
    return arcs


def selected(regex, *options):
    """The names of the tests that match, in ctest's order."""
    command = ["ctest", "--test-dir", BUILD, "-N", "-R", regex, *options]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [name for name in re.findall(r"#\d+: (\S+)", listing) if name != "prefix"]


def run(test):
    """Runs one test; returns (seconds, whether it passed, {(object file, function, arc)})."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        command = ["ctest", "--test-dir", BUILD, "-FA", ".", "-R", f"^{re.escape(test)}$", "--timeout", "600"]
        done = subprocess.run(
            command, env={**os.environ, "GCOV_PREFIX": folder}, capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - begin
        arcs = set()
        for file in pathlib.Path(folder).rglob("*.gcda"):
            name = str(file.relative_to(folder))
            if "/src/" in name:
                arcs.update((name, *arc) for arc in executed_arcs(file.read_bytes()))
    return seconds, "100% tests passed" in done.stdout, arcs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("regex")
    options = parser.parse_args()
    variants = set(VARIANTS.read_text(encoding="utf-8").split("\n"))
    quick = set(selected(options.regex, "-LE", "nightly|gpu"))
    tests = [test for test in selected(options.regex) if test in quick | variants]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = dict(zip(tests, pool.map(run, tests)))
    reached = collections.Counter(arc for _, _, arcs in results.values() for arc in arcs)
    print(f"{'test':44} seconds    arcs    own")
    for test, (seconds, passed, arcs) in results.items():
        own = sum(reached[arc] == 1 for arc in arcs)
        print(f"{test:44} {seconds:7.1f} {len(arcs):7} {own:6}{'' if passed else '  FAILED'}")
    kept = set().union(*(arcs for test, (_, _, arcs) in results.items() if test not in variants))
    print(f"without {VARIANTS.name}: {len(reached) - len(kept)} of {len(reached)} arcs less")
    return 0 if all(passed for _, passed, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
