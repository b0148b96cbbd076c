#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Checks that all programs and libraries of the prefix run with glibc 2.28 (cmake/glibc.cmake).
import os
import sys

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(SOURCE, "tools"))
from check_exports import glibc_versions  # noqa: E402

NEWEST = (2, 28)


def binaries(prefix):
    """Returns the ELF files of the prefix."""
    for folder in ("bin", "lib", "libexec"):
        for root, _, names in os.walk(os.path.join(prefix, folder)):
            for name in names:
                path = os.path.join(root, name)
                with open(path, "rb") as file:
                    if file.read(4) == b"\x7fELF":
                        yield path


def main():
    # Empty libraries need none: (0, 0).
    found = {path: max(glibc_versions(path), default=(0, 0)) for path in binaries(os.environ["MPI_PREFIX"])}
    newer = {path: version for path, version in found.items() if version > NEWEST}
    for path, version in newer.items():
        print("%s needs glibc %d.%d: add the old version of its symbol to cmake/glibc.cmake" % (path, *version))
    print("%d files, newest symbol version GLIBC_%d.%d" % (len(found), *max(found.values())))
    return 1 if newer or len(found) < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
