#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Finds out which tests reach code of src/ that no other test reaches.

usage: marginal_coverage.py [-j N] REGEX

REGEX selects quick tests of build/coverage (`make tests PRESET=coverage`) and variants of test/nightly_variants.txt.
Each test runs by itself, --runs times; its counters are read from the .gcda files of g++ 12 or newer. Printed are the
seconds of each test, its CPU seconds, the arcs of the flow graph that it executed in some run, how many of them no other
test executes in each run, the tests that could be left out with no arc lost, the longest first, and the arcs that are lost
without the variants. Tests whose processes are killed count less than they executed. Exit status 1: a test failed.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time
import zlib

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


@dataclasses.dataclass
class Result:
    """Of a test: its times in seconds, whether it passed, and the numbers of arcs of some run and of each run."""

    seconds: float
    cpu: float
    passed: bool
    arcs: set
    always: set


def run_once(test):
    """Runs one test once."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        command = ["ctest", "--test-dir", BUILD, "-FA", ".", "-R", f"^{re.escape(test)}$", "--timeout", "600"]
        with tempfile.TemporaryFile("w+") as output:
            child = subprocess.Popen(command, env={**os.environ, "GCOV_PREFIX": folder}, stdout=output, stderr=output)
            _, _, usage = os.wait4(child.pid, 0)
            child.returncode = 0  # it has been waited for
            output.seek(0)
            passed = "100% tests passed" in output.read()
        seconds = time.monotonic() - begin
        arcs = set()
        for file in pathlib.Path(folder).rglob("*.gcda"):
            name = str(file.relative_to(folder))
            if "/src/" in name:
                number = zlib.crc32(name.encode()) << 64
                arcs.update(number | function << 32 | arc for function, arc in executed_arcs(file.read_bytes()))
    return Result(seconds, usage.ru_utime + usage.ru_stime, passed, arcs, arcs)


def merged(runs):
    """One result of all runs of a test: the shortest times."""
    arcs, always = set().union(*(one.arcs for one in runs)), set.intersection(*(one.arcs for one in runs))
    seconds, cpu = min(one.seconds for one in runs), min(one.cpu for one in runs)
    return Result(seconds, cpu, all(one.passed for one in runs), arcs, always)


def to_leave_out(results):
    """The tests, the most expensive first, each of whose arcs is reached in each run of another test that stays."""
    reached = collections.Counter(arc for result in results.values() for arc in result.always)
    found = []
    for test in sorted(results, key=lambda test: -results[test].cpu):
        result = results[test]
        if result.passed and result.arcs and all(reached[arc] > (arc in result.always) for arc in result.arcs):
            reached.subtract(result.always)
            found.append(test)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("regex")
    options = parser.parse_args()
    variants = set(VARIANTS.read_text(encoding="utf-8").split("\n"))
    quick = set(selected(options.regex, "-LE", "nightly|gpu"))
    tests = [test for test in selected(options.regex) if test in quick | variants]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        runs = list(pool.map(run_once, tests * options.runs))
    results = {test: merged(runs[at :: len(tests)]) for at, test in enumerate(tests)}
    reached = collections.Counter(arc for result in results.values() for arc in result.always)
    print(f"{'test':44} seconds     CPU    arcs    own")
    for test, result in results.items():
        own = sum(reached[arc] == (arc in result.always) for arc in result.arcs)
        line = f"{test:44} {result.seconds:7.1f} {result.cpu:7.1f} {len(result.arcs):7} {own:6}"
        print(line + ("" if result.passed else "  FAILED"))
    print("could be left out, with their CPU seconds:")
    for test in to_leave_out({test: result for test, result in results.items() if test not in variants}):
        print(f"{test:44} {results[test].cpu:7.1f}")
    everything = set().union(*(result.arcs for result in results.values()))
    kept = set().union(*(result.arcs for test, result in results.items() if test not in variants))
    print(f"without {VARIANTS.name}: {len(everything) - len(kept)} of {len(everything)} arcs less")
    return 0 if all(result.passed for result in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
