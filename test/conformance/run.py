# SPDX-License-Identifier: BSD-3-Clause
# Fetches, builds and runs the MPICH test suite on Weft, and optionally on MPICH's standard-ABI library.
# Exit status 0: all tests pass except those in reasons.py; 77: the suite is not available.
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time

import table
from execute import PASSED, Mpi, Outcome, run_all
from suite import ROOT, FortranSuite, Missing, Suite, fetch

SKIPPED = 77


def weft(prefix):
    return Mpi("Weft", os.path.join(prefix, "bin", "mpiexec"), {})


def mpich(prefix):
    mpiexec = os.path.join(prefix, "bin", "mpiexec.hydra")
    library = os.path.join(prefix, "lib")
    version = subprocess.run(
        [os.path.join(prefix, "bin", "mpichversion")], stdout=subprocess.PIPE, text=True, check=False
    ).stdout
    number = re.search(r"MPICH Version:\s*(\S+)", version)
    return Mpi("MPICH " + (number.group(1) if number else "5"), mpiexec, {"LD_LIBRARY_PATH": library})


def run_column(mpi, tests, arguments, known):
    """Runs tests on one MPI; returns their outcomes, and all stored outcomes including earlier runs."""
    path = os.path.join(arguments.build, "".join(mpi.name.split()).lower() + ".json")
    kept = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            kept = {name: Outcome(**values) for name, values in json.load(file).items() if name in known}

    def report(test, outcome):
        print(
            f"{mpi.name:12} {outcome.verdict:9} {outcome.seconds:6.1f} {test.name}  {outcome.reason[:120]}", flush=True
        )

    begin = time.monotonic()
    outcomes = run_all(mpi, tests, jobs=arguments.jobs, report=report)
    passed = sum(outcome.verdict == PASSED for outcome in outcomes.values())
    print(f"{mpi.name}: {passed} of {len(tests)} passed in {time.monotonic() - begin:.0f} s")
    kept.update(outcomes)
    kept = {name: kept[name] for name in known if name in kept}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({name: vars(outcome) for name, outcome in kept.items()}, file, indent=1)
    return outcomes, kept


def parsed():
    parser = argparse.ArgumentParser(description="Runs the MPICH test suite on Weft.")
    parser.add_argument("--build", default=ROOT + "/build/conformance", help="work folder (default: %(default)s)")
    parser.add_argument("--prefix", default=os.environ.get("MPI_PREFIX", ROOT + "/build/prefix"), help="Weft's prefix")
    parser.add_argument("--mpich", metavar="PREFIX", help="also run on this MPICH 5")
    parser.add_argument("--only", metavar="PATTERN", default="", help="only tests whose names match")
    parser.add_argument("--jobs", type=int, default=2, help="number of concurrent tests (default: %(default)s)")
    parser.add_argument("--update", action="store_true", help="write docs/conformance.md")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    arguments.prefix = os.path.abspath(arguments.prefix)
    arguments.page = ROOT + "/docs/conformance.md"
    return arguments


def main():
    arguments = parsed()
    try:
        source, version = fetch(arguments.build)
    except Missing as error:
        print(f"skipped: {error}")
        return SKIPPED
    tests = []
    suites = [
        Suite(source, os.path.join(arguments.build, folder), arguments.prefix, strict=strict)
        for folder, strict in (("all", False), ("strict", True))
    ]
    if shutil.which("gfortran"):
        suites.append(FortranSuite(source, os.path.join(arguments.build, "fortran"), arguments.prefix))
    else:
        print("skipped: folders of Fortran: there is no gfortran")
    for suite in suites:
        suite.build(arguments.jobs, arguments.only)
        tests += suite.tests()
    known = [test.name for test in tests]
    tests = [test for test in tests if re.search(arguments.only, test.name)]
    outcomes, kept = run_column(weft(arguments.prefix), tests, arguments, known)
    columns = {"Weft": kept}
    if arguments.mpich:
        other = mpich(os.path.abspath(arguments.mpich))
        columns[other.name] = run_column(other, tests, arguments, known)[1]
    if arguments.update:
        notes = []
        if os.path.exists(arguments.page):
            with open(arguments.page, encoding="utf-8") as file:
                notes = table.notes_of(file.read())
        with open(arguments.page, "w", encoding="utf-8") as file:
            file.write(table.text(version, columns, notes))
    bad = table.unexplained(outcomes)
    for name in bad:
        print(f"unexpected failure: {name}: {outcomes[name].verdict} {outcomes[name].reason}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
