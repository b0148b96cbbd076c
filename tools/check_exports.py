#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Export check of libmpi_abi.so.1: it exports only MPI names and two for the Fortran library, each MPI_ function also as
# PMPI_ (and overridable), and depends on no C++ or CUDA library. Prints the minimum glibc version.
import argparse
import re
import subprocess
import sys

ALLOWED = re.compile(r"P?MPIX?_\w+$|MPIR_(weft_layout|dll_name)$|weft_set_(section_copies|partitioned_section)$")
BEYOND_ABI = "#ifndef WEFT_MPI_ABI_ONLY"  # inline functions of mpi.h follow
NEEDED = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux[\w-]*)\.so\.\d+$")
NOT_PROTOTYPES = re.compile(r"/\*.*?\*/|^[ \t]*#(?:\\\n|[^\n])*|typedef[^;]*;", re.S | re.M)
SANITIZED = re.compile(r"lib(asan|ubsan|tsan|gcov)\.so")


def readelf(*arguments):
    """Returns the output of readelf."""
    return subprocess.run(["readelf", "-W", *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


def exported(library):
    """Returns {name: binding} of the exported symbols."""
    symbols = {}
    for line in readelf("--dyn-syms", library).splitlines():
        columns = line.split()
        if len(columns) >= 8 and columns[0].rstrip(":").isdigit() and columns[6] != "UND":
            symbols[columns[7].split("@")[0]] = columns[4]
    return symbols


def glibc_versions(library):
    """Returns the required glibc symbol versions as tuples of numbers."""
    found = re.findall(r"Name: GLIBC_(\d+(?:\.\d+)*)", readelf("--version-info", library))
    return sorted({tuple(int(part) for part in version.split(".")) for version in found})


def functions(mpi_h):
    """Returns the MPI_ functions declared in the header."""
    with open(mpi_h, encoding="utf-8") as file:
        return set(re.findall(r"\b(MPI_[A-Z]\w*)\s*\(", re.sub(NOT_PROTOTYPES, "", file.read().split(BEYOND_ABI)[0])))


def check(library, mpi_h):
    """Returns (complaints, summary line)."""
    symbols = exported(library)
    dynamic = readelf("--dynamic", library)
    complaints = [f"exports {name}" for name in sorted(symbols) if not ALLOWED.match(name)]
    for name in sorted(functions(mpi_h)):
        complaints += [f"does not export {twin}" for twin in (name, "P" + name) if twin not in symbols]
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    if not any(SANITIZED.match(name) for name in needed):
        complaints += [f"needs {name}" for name in needed if not NEEDED.match(name)]
    if "[libmpi_abi.so.1]" not in "".join(re.findall(r"\(SONAME\).*", dynamic)):
        complaints.append("its soname is not libmpi_abi.so.1")
    if "SYMBOLIC" in dynamic:
        complaints.append("is linked with -Bsymbolic: a profiling library could not override its MPI_ calls")
    oldest = ".".join(str(part) for part in (glibc_versions(library) or [(0,)])[-1])
    pairs = sum(1 for name in symbols if name.startswith("MPI_") and "P" + name in symbols)
    summary = "%s: %d MPI functions exported, also as PMPI_; needs glibc %s or newer and only %s"
    return complaints, summary % (library, pairs, oldest, " ".join(needed))


def main():
    parser = argparse.ArgumentParser(description="Checks the exported symbols and dependencies of libmpi_abi.so.1.")
    parser.add_argument("library")
    parser.add_argument("header", help="mpi.h of the library")
    arguments = parser.parse_args()
    complaints, summary = check(arguments.library, arguments.header)
    print(summary)
    for complaint in complaints:
        print(f"{arguments.library} {complaint}")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
