#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs pytest on this folder in this process: without arguments all tests but those for the night and those in a browser,
# with --nightly all, when the coverage of cli/ is measured and checked. Other arguments are passed to pytest.
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CLI = os.path.join(os.path.dirname(os.path.dirname(HERE)), "cli")
MIN_COVERAGE = 90  # percent of the lines


def main(words):
    nightly = words == ["--nightly"]
    for package in ("pytest", "coverage") if nightly else ("pytest",):
        if importlib.util.find_spec(package) is None:
            print(f"skipped: needs the Python package {package}")
            return 77
    import pytest

    sys.dont_write_bytecode = True
    selection = [HERE] if nightly else words or ["-m", "not nightly", "-k", "not in_a_browser", HERE]
    command = ["-q", "-p", "no:cacheprovider", *selection]
    if not nightly:
        return int(pytest.main(command))
    import coverage

    # These need mpi4py, PyTorch, JAX or a GPU stream: test/mpi4py, test/torch, test/jax and test/stream run them.
    others = ("torch/*", "jax/*", "processes.py", "mpi.py", "arrays.py", "order.py")
    measured = coverage.Coverage(
        source=[os.path.join(CLI, "weft_mpi")], omit=[os.path.join(CLI, "weft_mpi", name) for name in others]
    )
    measured.start()
    status = pytest.main(command)
    measured.stop()
    measured.save()
    percent = measured.report(skip_covered=True, show_missing=True)
    if status == 0 and percent < MIN_COVERAGE:
        print("coverage of cli/: %.1f percent, at least %d required" % (percent, MIN_COVERAGE))
        return 1
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
