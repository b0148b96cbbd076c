#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures what a call of mpi_f08 costs more than one of C: run.py PREFIX [--folder PROGRAMS] [--out FILE.json]

Builds pingpong.c and pingpong.F90 (unless PROGRAMS has them), runs them by turns with 2 ranks and compares medians."""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = {"c": "pingpong_c", "f08": "pingpong_f08", "again": "pingpong_c"}  # C twice: what differs by chance


def build(prefix, folder):
    bin_folder = os.path.join(prefix, "bin")
    for wrapper, source, program in (
        ("mpicc", "pingpong.c", "pingpong_c"),
        ("mpifort", "pingpong.F90", "pingpong_f08"),
    ):
        subprocess.run(
            [os.path.join(bin_folder, wrapper), "-O2", os.path.join(HERE, source), "-o", os.path.join(folder, program)],
            check=True,
        )


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("prefix")
    parser.add_argument("--folder", help="folder of the built programs")
    parser.add_argument("--rounds", default="2000", help="few, so that a run fits a time slice of a busy machine")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--cpus", help="two CPUs for the ranks of all runs, such as 4,6")
    parser.add_argument("--out")
    options = parser.parse_args()
    mpiexec = os.path.join(options.prefix, "bin", "mpiexec")
    if options.cpus:
        os.sched_setaffinity(0, {int(cpu) for cpu in options.cpus.split(",")})
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = options.folder or folder
        if not options.folder:
            build(options.prefix, folder)
        for _ in range(options.repeat):
            for language, program in PROGRAMS.items():
                command = [mpiexec, "-n", "2", os.path.join(folder, program), options.rounds]
                output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
                for line in output.splitlines():
                    case, value = line.split()
                    times.setdefault(case, {}).setdefault(language, []).append(float(value))
    cases = []
    for case, found in times.items():
        medians = {language: statistics.median(values) for language, values in found.items()}
        row = {"case": case, **{f"{language}_ns": round(value, 1) for language, value in medians.items()}}
        c = statistics.median(found["c"] + found["again"])
        row["more_ns"] = round(medians["f08"] - c, 1)
        row["ratio"] = round(medians["f08"] / c, 3)
        row["spread_ns"] = {
            language: [round(value, 1) for value in statistics.quantiles(values, n=10, method="inclusive")[::8]]
            for language, values in found.items()
        }
        cases.append(row)
        print(row)
    result = {
        "what": "ns a call: ping-pong of 2 ranks (medians of runs by turns); call, self_*: no process, messages "
        "to itself (medians of the shortest); again: the program in C once more; spread: 10 and 90 percent",
        "repeat": options.repeat,
        "rounds": int(options.rounds),
    }
    result |= {
        "cpus": options.cpus,
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "cases": cases,
    }
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
