# SPDX-License-Identifier: BSD-3-Clause
# Runs a module of this package as the main program: `python3 run.py weft_mpi doctor`. `python3 -m` searches the current
# directory first, this program does not. Python puts this folder on sys.path; it must contain no other file.
import os
import sys


def search_path(entries, own, root):
    """Returns sys.path with the package's folder `root`, without the current directory and this file's folder `own`.
    The packages that `make` copies into the prefix come last: installed ones are used first."""
    kept = [entry for entry in entries if os.path.isabs(entry) and os.path.realpath(entry) != own]
    kept = kept if root in kept else [root, *kept]
    bundled = os.path.join(root, "bundled")
    return [*kept, bundled] if os.path.isdir(bundled) else kept


def main():
    own = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = search_path(sys.path, own, os.path.dirname(os.path.dirname(own)))
    import runpy

    module = sys.argv[1]
    del sys.argv[1]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
