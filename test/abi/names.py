# SPDX-License-Identifier: BSD-3-Clause
"""The library exports every MPI function as PMPI_X with a weak alias MPI_X, and no other MPI names."""

import os
import re
import subprocess
import sys

import table

FOR_DEBUGGERS = {"MPIR_dll_name", "MPIR_weft_layout"}  # variables (src/api/debugger.cpp)


def extensions():
    """Functions declared in weft.h, which also have both names."""
    with open(os.path.join(os.environ["MPI_PREFIX"], "include", "weft.h"), encoding="utf-8") as file:
        return set(re.findall(r"^int (MPIX_\w+)\(", file.read(), re.MULTILINE))


def main():
    library = os.path.join(os.environ["MPI_PREFIX"], "lib", "libmpi_abi.so.1")
    listing = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    symbols = {}
    for line in listing.stdout.splitlines():
        fields = line.split()
        symbols[fields[2].split("@")[0]] = (int(fields[0], 16), fields[1])
    wanted = table.names()
    problems = [] if len(wanted) == 664 else [f"{len(wanted)} functions in the table, not 664"]
    wanted += sorted(extensions())
    for name in wanted:
        for exported, kind in ((name, "W"), ("P" + name, "T")):
            if exported not in symbols:
                problems.append(f"{exported} is not exported")
            elif symbols[exported][1] != kind:
                problems.append(f"{exported} has kind {symbols[exported][1]}, not {kind}")
        if name in symbols and "P" + name in symbols and symbols[name][0] != symbols["P" + name][0]:
            problems.append(f"{name} and P{name} are different functions")
    allowed = set(wanted) | {"P" + n for n in wanted} | FOR_DEBUGGERS
    problems += [
        f"{name} is exported, but is not an MPI function"
        for name in sorted(set(symbols) - allowed)
        if name.lstrip("P").startswith("MPI")
    ]
    print("\n".join(problems) or f"{len(wanted)} functions, each with both names")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
