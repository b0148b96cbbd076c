# SPDX-License-Identifier: BSD-3-Clause
# The MPICH test suite through lib/compat: built with the wrappers of other MPI libraries, run on Weft and compared with
# the verdicts of the standard-ABI build, which runs beside it. Exit status 0: equal but for the reasons in reasons.py;
# 77: the suite or the wrappers are not available.
import argparse
import collections
import os
import re
import sys

import reasons
from execute import NOT_BUILT, PASSED, TIMED_OUT, run_test
from run import SKIPPED, weft
from suite import ROOT, Missing, OtherSuite, Suite, fetch
from table import reason_for
from wrappers import PACKAGES, prefix_of

NAMES = ("mpich", "openmpi", *PACKAGES)


def run_all(mpi, tests, suites):
    """Runs each test in all builds, one after the other; returns {test: {build: outcome}}. Verdicts that differ because
    a run ended at its time limit are taken from a second run."""
    results = {}
    for test in tests:
        outcomes = {name: run_test(mpi, suite.moved(test)) for name, suite in suites.items()}
        verdicts = {outcome.verdict for outcome in outcomes.values()}
        if TIMED_OUT in verdicts and len(verdicts) > 1:
            outcomes = {name: run_test(mpi, suite.moved(test)) for name, suite in suites.items()}
        results[test.name] = outcomes
        for name, outcome in outcomes.items():
            line = f"{name:14} {outcome.verdict:9} {outcome.seconds:6.1f} {test.name}  {outcome.reason[:120]}"
            print(line, flush=True)
    return results


def reason(test, name, own, other):
    """The documented reason for a difference, or None."""
    found = reason_for(test, reasons.THROUGH[name])
    if found is None and other.verdict == PASSED:
        known = reason_for(test, reasons.NOT_BUILT if own.verdict == NOT_BUILT else reasons.NOT_PASSED)
        found = known and "passes; with the standard ABI: " + known
    return found


def differences(results, names):
    """Tests whose verdict through a library differs from the standard ABI's: (test, library, own, other, reason)."""
    for test, outcomes in results.items():
        for name in names:
            own, other = outcomes["standard"], outcomes[name]
            if own.verdict != other.verdict:
                yield test, name, own, other, reason(test, name, own, other)


def report(results, names):
    """Prints passed tests by folder, the differences and their number without a reason, which is returned."""
    folders = collections.defaultdict(list)
    for test, outcomes in results.items():
        folders[test.split("/")[0]].append(outcomes)
    print("\n| folder | tests | " + " | ".join(["standard", *names]) + " |\n|" + " --- |" * (len(names) + 3))
    for folder, rows in folders.items():
        passed = [sum(row[name].verdict == PASSED for row in rows) for name in ("standard", *names)]
        print("| %s | %d | %s |" % (folder, len(rows), " | ".join(map(str, passed))))
    found = list(differences(results, names))
    print("\n| test | library | standard | through | reason |\n| --- | --- | --- | --- | --- |")
    for test, name, own, other, why in found:
        text = why or "**none**: " + other.reason[:120]
        print(f"| `{test}` | {name} | {own.verdict} | {other.verdict} | {text} |")
    bad = sum(why is None for *_, why in found)
    print(f"{len(results)} tests in {len(names) + 1} builds, {len(found)} differences, {bad} without a reason")
    return bad


def main():
    parser = argparse.ArgumentParser(description="Compares MPICH's tests through lib/compat with the standard ABI.")
    parser.add_argument("names", nargs="*", default=NAMES, help=f"other libraries (default: {' '.join(NAMES)})")
    parser.add_argument("--build", default=ROOT + "/build/conformance", help="work folder (default: %(default)s)")
    parser.add_argument("--prefix", default=os.environ.get("MPI_PREFIX", ROOT + "/build/prefix"), help="Weft's prefix")
    parser.add_argument("--only", metavar="PATTERN", default="", help="only tests whose names match")
    parser.add_argument("--jobs", type=int, default=2, help="number of concurrent compilers (default: %(default)s)")
    chosen = parser.parse_args()
    build = os.path.abspath(chosen.build)
    try:
        source, _ = fetch(build)
        prefixes = {name: prefix_of(name, os.path.join(build, "wrappers")) for name in chosen.names}
    except Missing as error:
        print(f"skipped: {error}")
        return SKIPPED
    suites = {"standard": Suite(source, os.path.join(build, "all"), os.path.abspath(chosen.prefix), strict=False)}
    for name, prefix in prefixes.items():
        suites[name] = OtherSuite(source, os.path.join(build, name), prefix, strict=False)
    for suite in suites.values():
        suite.build(chosen.jobs, chosen.only)
    tests = [test for test in suites["standard"].tests() if re.search(chosen.only, test.name)]
    return 1 if report(run_all(weft(chosen.prefix), tests, suites), chosen.names) else 0


if __name__ == "__main__":
    sys.exit(main())
