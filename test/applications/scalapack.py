#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs the test programs of Debian's packages of ScaLAPACK and PBLAS, built for Open MPI and for MPICH, with 4 ranks.
# Every program must end as it should, with residuals that pass and none that fails. Exit status 77: no packages.
#
# Usage: scalapack.py WORK_FOLDER [--openmpi] [--programs REGEX] [--jobs N] [--out FILE.json]
# --openmpi: run the programs under Debian's Open MPI instead of Weft. FILE.json gets the numbers of residuals.
import argparse
import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from debian import LIBRARIES, OPENMPI, OPENMPI_OPTIONS, Missing, fetch, openmpi_variables, skip

MPI_PREFIX = os.environ.get("MPI_PREFIX", "")
PACKAGES = ["scalapack-mpi-test", "scalapack-test-common", "libscalapack-openmpi2.2", "libscalapack-mpich2.2"]
LIMIT_S = 600


def counts(text):
    """Returns how many checks passed and failed, from what a program printed."""
    passed = failed = 0
    for line in text.splitlines():
        # The BLACS tester gives numbers only: "REAL SDRV TESTS:   75 TESTS;   50 PASSED,   25 SKIPPED,    0 FAILED."
        numbers = re.search(r"TESTS; *(\d+) PASSED, *\d+ SKIPPED, *(\d+) FAILED", line)
        if numbers:
            passed, failed = passed + int(numbers.group(1)), failed + int(numbers.group(2))
            continue
        words = {word.upper() for word in re.findall(r"\b(PASSED|FAILED|Passed|Failed)\b", line)}
        if len(words) == 1:  # both: the head of a table
            passed, failed = passed + ("PASSED" in words), failed + ("FAILED" in words)
    return {"passed": passed, "failed": failed}


def run(program, data, command, variables):
    """Runs a program beside copies of its input files; returns its counts, status and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        for path in glob.glob(data + "/**/*.dat", recursive=True):
            shutil.copy(path, folder)
        begin = time.monotonic()
        with open(folder + "/log", "w+", encoding="utf-8", errors="replace") as log:
            process = subprocess.Popen([*command, "-n", "4", program], cwd=folder, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, env=dict(os.environ, **variables))  # fmt: skip
            try:
                status = process.wait(LIMIT_S)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()
                status = "no end in %d s" % LIMIT_S
            log.seek(0)
            text = log.read()
    seconds = round(time.monotonic() - begin, 1)
    return dict(counts(text), status=status, seconds=seconds), text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--openmpi", action="store_true", help="run Debian's Open MPI")
    parser.add_argument("--programs", default=".", help="regular expression, such as openmpi/xdlu")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--out")
    chosen = parser.parse_args()
    root = os.path.join(os.path.abspath(chosen.folder), "root")
    try:
        fetch(root, PACKAGES + (OPENMPI if chosen.openmpi else []))
    except Missing as error:
        skip(str(error))
    variables = {"LD_LIBRARY_PATH": os.path.join(root, LIBRARIES)}
    if chosen.openmpi:
        variables.update(openmpi_variables(root))
        command = [root + "/usr/bin/mpirun.openmpi", *OPENMPI_OPTIONS]
    else:
        command = [os.path.join(MPI_PREFIX, "bin", "mpiexec")]
    programs = {}
    for built in ["openmpi"] if chosen.openmpi else ["openmpi", "mpich"]:
        tests = os.path.join(root, LIBRARIES, "scalapack", built + "-tests")
        for path in sorted(glob.glob(tests + "/x*") + glob.glob(tests + "/PBLAS/*tst")):
            name = f"{built}/{os.path.basename(path)}"
            if re.search(chosen.programs, name):
                programs[name] = path
    data, rows, bad = root + "/usr/share/scalapack", {}, []
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        jobs = {pool.submit(run, path, data, command, variables): name for name, path in programs.items()}
        for job in concurrent.futures.as_completed(jobs):
            name, (row, text) = jobs[job], job.result()
            rows[name] = row
            print(name, json.dumps(row), flush=True)
            # The testers of BLACS end with BLACS_ABORT, the last thing they test.
            ended = (
                "killed other procs" in text and row["status"] != 0 if name.endswith("btest") else row["status"] == 0
            )
            if not ended or row["failed"] or not row["passed"]:
                bad.append(name)
                print(text[-1500:])
    if chosen.out:
        with open(chosen.out, "w", encoding="utf-8") as file:
            json.dump({"programs": dict(sorted(rows.items()))}, file, indent=1)
    print("%d programs, %d residuals passed, %d failed" % (len(rows), sum(row["passed"] for row in rows.values()),
                                                          sum(row["failed"] for row in rows.values())))  # fmt: skip
    assert rows, "no program"
    if bad:
        sys.exit("failed: " + " ".join(sorted(bad)))


if __name__ == "__main__":
    main()
