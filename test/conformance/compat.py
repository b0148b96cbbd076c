# SPDX-License-Identifier: BSD-3-Clause
# The MPICH test suite through lib/compat: built with the wrappers of other MPI libraries, run on Weft and compared with
# the verdicts of the standard-ABI build, which runs beside it. The C++ bindings, which the standard ABI lacks, have to
# pass. Exit status 0: equal but for the reasons in reasons.py; 77: the suite or the wrappers are not available.
import argparse
import collections
import os
import re
import sys

import reasons
from execute import NOT_BUILT, PASSED, TIMED_OUT, Outcome, run_test
from run import SKIPPED, weft
from suite import ROOT, FortranSuite, Missing, OtherCxxSuite, OtherFortranSuite, OtherSuite, Suite, fetch
from table import reason_for
from wrappers import PACKAGES, libraries_of, prefix_of

# Folder of the standard ABI's build, end of the others' names, class of these, libraries: the C++ part of the suite does
# not compile with Open MPI's bindings (MPI::Win::NULL_COPY_FN is not there).
LANGUAGES = {
    "c": ("all", "", OtherSuite, ("mpich", "openmpi", *PACKAGES)),
    "fortran": ("fortran", "_fortran", OtherFortranSuite, tuple(PACKAGES)),
    "cxx": (None, "_cxx", OtherCxxSuite, ("debian-mpich",)),
}
STANDARD = "standard"


def run_all(mpis, tests, suites):
    """Runs each test in all builds, one after the other; returns {test: {build: outcome}}. Verdicts that differ because
    a run ended at its time limit are taken from a second run."""
    results = {}
    for test in tests:
        outcomes = {name: run_test(mpis[name], suite.moved(test)) for name, suite in suites.items()}
        verdicts = {outcome.verdict for outcome in outcomes.values()}
        if TIMED_OUT in verdicts and len(verdicts) > 1:
            outcomes = {name: run_test(mpis[name], suite.moved(test)) for name, suite in suites.items()}
        results[test.name] = {STANDARD: Outcome(PASSED), **outcomes}  # C++ has no build of the standard ABI
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
            own, other = outcomes[STANDARD], outcomes[name]
            if own.verdict != other.verdict:
                yield test, name, own, other, reason(test, name, own, other)


def report(results, names):
    """Prints passed tests by folder, the differences and their number without a reason, which is returned."""
    folders = collections.defaultdict(list)
    for test, outcomes in results.items():
        folders[test.split("/")[0]].append(outcomes)
    print("\n| folder | tests | " + " | ".join(["standard", *names]) + " |\n|" + " --- |" * (len(names) + 3))
    for folder, rows in folders.items():
        passed = [sum(row[name].verdict == PASSED for row in rows) for name in (STANDARD, *names)]
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
    parser.add_argument("names", nargs="*", help="other libraries (default: mpich openmpi debian-mpich debian-openmpi)")
    parser.add_argument("--build", default=ROOT + "/build/conformance", help="work folder (default: %(default)s)")
    parser.add_argument("--prefix", default=os.environ.get("MPI_PREFIX", ROOT + "/build/prefix"), help="Weft's prefix")
    parser.add_argument("--only", metavar="PATTERN", default="", help="only tests whose names match")
    parser.add_argument(
        "--language", choices=LANGUAGES, default="c", help="language of the tests (default: %(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="number of concurrent compilers (default: %(default)s)")
    chosen = parser.parse_args()
    build = os.path.abspath(chosen.build)
    own, suffix, kind, names = LANGUAGES[chosen.language]
    chosen.names = chosen.names or names
    try:
        source, _ = fetch(build)
        prefixes = {name: prefix_of(name, os.path.join(build, "wrappers")) for name in chosen.names}
    except Missing as error:
        print(f"skipped: {error}")
        return SKIPPED
    prefix, mpis = os.path.abspath(chosen.prefix), {STANDARD: weft(chosen.prefix)}
    suites = {}
    if own is not None:
        standard = Suite if chosen.language == "c" else FortranSuite
        suites[STANDARD] = standard(source, os.path.join(build, own), prefix)
    for name, other in prefixes.items():
        suites[name] = kind(source, os.path.join(build, name + suffix), other)
        mpis[name] = weft(chosen.prefix)
        if chosen.language != "c":
            mpis[name].environment["LD_LIBRARY_PATH"] = libraries_of(name, os.path.join(build, "wrappers"))
    for suite in suites.values():
        suite.build(chosen.jobs, chosen.only)
    first = next(iter(suites.values()))
    tests = [test for test in first.tests() if re.search(chosen.only, test.name)]
    return 1 if report(run_all(mpis, tests, suites), chosen.names) else 0


if __name__ == "__main__":
    sys.exit(main())
