#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts the source files whose code runs in one MPI call, after it was repeated until nothing is set up any more.

usage: paths.py PREFIX [--driver LIBRARY] [--list] [CALL ...]

PREFIX: an installation that was built with line tables (cmake -DCMAKE_BUILD_TYPE=RelWithDebInfo). LIBRARY: the emulated
driver, needed on machines without a GPU. Needs valgrind, which executes the call. A file counts if one of its functions
is called; functions that the compiler inlines (accessors in headers) do not count, nor do src/base (clock, counters) and
the generated entry point. A header and the source file of the same name are one file. Exit status 1: a call runs
through more files than LIMITS allows.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# (most files of a call, goal)
LIMITS = {
    "host_send": (4, 6), "host_receive": (9, 9), "host_send_beside_gpu": (5, 6), "host_receive_beside_gpu": (10, 9),
    "device_send": (21, 9), "device_receive": (28, 8), "device_allreduce": (30, 14),
}  # fmt: skip
NOT_COUNTED = ("src/base/",)


def executed_functions(output):
    """{file of src/ without its ending: [functions]} in callgrind's output, in the order of their first appearance."""
    files, file = {}, None
    for line in output.splitlines():
        found = re.match(r"fl=.*?/?(src/\S+)\.(?:cpp|hpp|c|h)$", line)
        if line.startswith("fl="):
            file = found and found[1]
        elif line.startswith("fn=") and file and not file.startswith(NOT_COUNTED):
            files.setdefault(file, []).append(line[3:])
    return files


def measure(prefix, driver, program, call):
    environment = dict(os.environ)
    if call in ("host_send", "host_receive"):
        environment["WEFT_CUDA"] = "off"
    elif driver:
        environment.update(WEFT_CUDA_DRIVER=driver, EMUCUDA_DEVICES="2", EMUCUDA_KERNELS="1")
    with tempfile.TemporaryDirectory() as folder:
        command = [os.path.join(prefix, "bin", "mpiexec"), "-n", "2", "valgrind", "--tool=callgrind", "-q"]
        command += ["--toggle-collect=measured_call", "--compress-strings=no", "--compress-pos=no"]
        command += [f"--callgrind-out-file={folder}/%p", program, call]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            sys.exit("paths: %s: %s" % (" ".join(command), done.stderr))
        files = {}
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found = executed_functions(file.read())
            files = max(files, found, key=len)
    if not files:
        sys.exit(f"paths: no file of src/ in the profile of {call}: was {prefix} built with line tables?")
    return files


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("prefix")
    parser.add_argument("--driver")
    parser.add_argument("--list", action="store_true", help="print the files and their functions")
    parser.add_argument("calls", nargs="*", metavar="CALL", help=", ".join(LIMITS))
    chosen = parser.parse_intermixed_args()
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "calls")
        subprocess.run([os.path.join(chosen.prefix, "bin", "mpicc"), "-g", "-O1", "-o", program,
                        os.path.join(HERE, "calls.c"), "-ldl"], check=True)  # fmt: skip
        for call in chosen.calls or LIMITS:
            files = measure(chosen.prefix, chosen.driver, program, call)
            most, goal = LIMITS[call]
            met = len(files) <= most
            print("%-23s %3d files, at most %d (goal %d)%s" % (call, len(files), most, goal, "" if met else "  MISSED"))
            if chosen.list:
                for file, functions in files.items():
                    print("    %s: %s" % (file, ", ".join(dict.fromkeys(functions))))
            status |= not met
    return status


if __name__ == "__main__":
    sys.exit(main())
