#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Checks ptxas's report on the functions of the resident kernel: none may keep registers in local memory. Each wait for a
# command empties the L1 cache, so that such a register would be read from the L2 cache (ADR 0008).
import re
import sys


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
    with open(sys.argv[1], encoding="utf-8") as file:
        found = list(spills(file, "weft_resident_kernel"))
    for generation, function, stores, loads in found:
        print(f"{generation} {function}: {stores} bytes of spill stores, {loads} of spill loads")
    if not any(function == "weft_resident_kernel" for _, function, _, _ in found):
        print("no report on weft_resident_kernel")
        return 1
    return int(any(stores or loads for _, _, stores, loads in found))


if __name__ == "__main__":
    sys.exit(main())
