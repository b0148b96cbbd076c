#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs a command if the libraries and programs it needs exist; otherwise prints the missing ones (status 77).
# usage: needs.py NAME... -- COMMAND...; a name with ".so" is a library.
import ctypes
import os
import shutil
import sys

SKIPPED = 77


def exists(name):
    if ".so" not in name:
        return shutil.which(name) is not None
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def main():
    split = sys.argv.index("--")
    missing = [name for name in sys.argv[1:split] if not exists(name)]
    if missing:
        print("skipped: needs " + ", ".join(missing))
        return SKIPPED
    command = sys.argv[split + 1 :]
    os.execvp(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
