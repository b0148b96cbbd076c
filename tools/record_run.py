#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Appends one row to test/results/runs.csv from the JUnit file that ctest has written: date, commit, machine, suite,
# passed and run tests, skipped ones, seconds. `make nightly RECORD=1` calls it; so do `make test` and `make gpu-test`.
# usage: record_run.py FILE.xml --suite nightly [--preset release]
import argparse
import csv
import datetime
import os
import re
import subprocess
import sys
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILE = os.path.join("test", "results", "runs.csv")
COLUMNS = ["date", "commit", "machine", "suite", "passed", "total", "skipped", "seconds"]


def output(*words):
    """Returns the first line that a command prints, or an empty string if it fails or does not exist."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def commit():
    """Returns the commit of the tree, with a + if the tree differs from it."""
    name = output("git", "rev-parse", "--short=8", "HEAD")
    if not name:
        raise SystemExit("record_run.py: no git repository: the row would have no commit")
    return name + ("+" if output("git", "status", "--porcelain", "--untracked-files=no") else "")


def machine():
    """Returns cores, processor and GPUs of this machine in words."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"model name\s*:\s*(.*)", file.read())
    cores = "%d cores" % len(os.sched_getaffinity(0)) + (" (%s)" % model[1].strip() if model else "")
    gpus = output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").splitlines()
    if not gpus:
        return cores + ", no GPU"
    name, driver = gpus[0].split(", ")
    return "%d %s, %s, driver %s" % (len(gpus), name, cores, driver)


def row(path, suite, preset):
    """Returns the row of a JUnit file. Tests that were skipped or disabled count neither as passed nor in the total."""
    cases = list(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))
    status = [case.get("status") for case in cases]
    if not status or None in status:
        raise SystemExit("record_run.py: %s: no result of ctest" % path)
    ran = [one for one in status if one not in ("notrun", "disabled")]
    if not ran:
        raise SystemExit("record_run.py: %s: no test was run" % path)
    seconds = xml.etree.ElementTree.parse(path).getroot().get("time")
    name = suite if preset == "release" else "%s, %s" % (suite, preset)
    date = datetime.date.today().isoformat()
    skipped = len(status) - len(ran)
    return [date, commit(), machine(), name, ran.count("run"), len(ran), skipped, round(float(seconds or 0)) or ""]


def main():
    parser = argparse.ArgumentParser(description="Records a run of a suite in " + FILE)
    parser.add_argument("junit", help="written by ctest --output-junit")
    parser.add_argument("--suite", required=True, help="quick, nightly, gpu")
    parser.add_argument("--preset", default="release")
    parser.add_argument("--file", default=os.path.join(ROOT, FILE))
    arguments = parser.parse_args()
    new = row(arguments.junit, arguments.suite, arguments.preset)
    with open(arguments.file, newline="", encoding="utf-8") as file:
        if next(csv.reader(file), None) != COLUMNS:
            raise SystemExit("%s: the first line is not %s" % (arguments.file, ",".join(COLUMNS)))
    with open(arguments.file, "a", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerow(new)
    print("recorded in %s: %s of %s" % (os.path.relpath(arguments.file), new[4], new[5]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
