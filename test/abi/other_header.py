# SPDX-License-Identifier: BSD-3-Clause
"""Compares mpi.h with the standard-ABI header of another MPI (MPICH_ABI_H, or mpi_abi.h of an installed MPICH)."""

import glob
import os
import sys

import table

# MPI 5.0 erratum: the count is an int, with a _c variant. The other header has MPI_Count and no variant.
ERRATUM = {"MPI_Psend_init", "MPI_Precv_init"}
# Specific to the other header.
NOT_STANDARD = {"MPI_H_ABI"}


def other_header():
    if "MPICH_ABI_H" in os.environ:
        return os.environ["MPICH_ABI_H"]
    candidates = [os.path.join(folder, "include", "mpi_abi.h") for folder in (sys.prefix, "/usr", "/usr/local")]
    candidates += glob.glob("/usr/include/*/mpich/mpi_abi.h")
    return next((c for c in candidates if os.path.exists(c)), None)


def main():
    path = other_header()
    if path is None:
        print("skipped: no mpi_abi.h found; set MPICH_ABI_H")
        return 77
    theirs = table.without_comments(path)
    ours = table.without_comments(os.path.join(os.environ["MPI_PREFIX"], "include", "mpi.h"))
    ours = ours.split("#ifndef WEFT_MPI_ABI_ONLY")[0]  # names beyond the ABI follow
    problems = []
    their_values, our_values = table.constants(theirs), table.constants(ours)
    for name in sorted(set(their_values) - NOT_STANDARD):
        if our_values.get(name) != their_values[name]:
            problems.append(f"{name}: {our_values.get(name)} here, {their_values[name]} there")
    their_functions, our_functions = table.prototypes(theirs), table.prototypes(ours)
    for name in sorted(their_functions):
        if name.lstrip("P") in ERRATUM or "MPIX_" in name:
            continue
        if our_functions.get(name) != their_functions[name]:
            problems.append(f"{name}: {our_functions.get(name)} here, {their_functions[name]} there")
    extra = set(our_functions) - set(their_functions)
    expected = {p + n + "_c" for p in ("", "P") for n in ERRATUM}
    if extra != expected:
        problems.append(f"only here: {sorted(extra ^ expected)}")
    if len(their_values) < 300 or len(their_functions) < 1300:
        problems.append(f"{path} was not parsed: {len(their_values)} values, {len(their_functions)} functions")
    print("\n".join(problems) or f"{len(their_values)} values and {len(their_functions)} functions agree with {path}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
