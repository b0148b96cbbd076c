#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# examples/kernels compiles by the command of its README, with the prefix's mpicxx. Skipped (77) without an nvcc that works.
import os
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "kernels")
PROBE = "__global__ void probe(int* a) { *a += 1; }\nint main() { probe<<<1, 1>>>(nullptr); }\n"


def main():
    compiler = shutil.which("nvcc")
    if compiler is None:
        print("skipped: needs nvcc")
        return SKIPPED
    command = [compiler, "-std=c++17", "-c", "-ccbin", os.path.join(os.environ["MPI_PREFIX"], "bin", "mpicxx")]
    with tempfile.TemporaryDirectory() as folder:
        probe, target = os.path.join(folder, "probe.cu"), os.path.join(folder, "object.o")
        with open(probe, "w", encoding="utf-8") as file:
            file.write(PROBE)
        done = subprocess.run([*command, probe, "-o", target], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print("skipped: needs an nvcc that works:\n" + done.stderr)
            return SKIPPED
        return subprocess.run([*command, "tokens.cu", "-o", target], cwd=FOLDER, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
