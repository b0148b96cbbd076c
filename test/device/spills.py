#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# usage: spills.py ptxas copy.ptx. Assembles the PTX of the resident kernel for the GPU generations of packages, and checks
# ptxas's report on its functions: none may keep registers in local memory. Each wait for a command empties the L1 cache,
# so that such a register would be read from the L2 cache (ADR 0008).
import os
import re
import sys
import tempfile

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tools", "setup"))
import kernels  # noqa: E402

GENERATIONS = ("70", "80", "90")


def spills(report, kernel):
    """Yields (generation, function, bytes of stores, bytes of loads) of the functions of a kernel."""
    generation = function = None
    inside = False
    for line in report:
        if re.fullmatch(r"sm_\d+", line.strip()):
            generation = line.strip()
        elif "Compiling entry function" in line:
            inside = f"'{kernel}'" in line
        elif "Function properties for" in line:
            function = line.split()[-1]
        elif inside and "spill stores" in line:
            stores, loads = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", line).groups()
            yield generation, function, int(stores), int(loads)


def main():
    ptxas, ptx = sys.argv[1:]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "copy.cubin")
        for generation in GENERATIONS:
            kernels.assemble(ptxas, ptx, generation, target)
            with open(target + ".resources", encoding="utf-8") as file:
                found += spills(file, "weft_resident_kernel")
    for generation, function, stores, loads in found:
        print(f"{generation} {function}: {stores} bytes of spill stores, {loads} of spill loads")
    if sum(function == "weft_resident_kernel" for _, function, _, _ in found) != len(GENERATIONS):
        print("a report on weft_resident_kernel is missing")
        return 1
    return int(any(stores or loads for _, _, stores, loads in found))


if __name__ == "__main__":
    sys.exit(main())
