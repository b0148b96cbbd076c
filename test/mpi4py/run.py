#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs mpi4py's tests with n ranks, without MODULE all but the tests of spawned processes. Also fails if ranks ran
# different numbers of tests or none, or if a test skips itself because of a missing feature.
# usage: run.py SOURCE FOLDER RANKS [MODULE[:PATTERN]...] [not:PATTERN...]; status 77 if mpi4py is not built.
# TEST_HOSTS: argument of mpiexec --hosts. TEST_NUMPY: folder with NumPy. TEST_ARRAYS=gpu: only buffer tests, with arrays in
# GPU memory (gpu.py).
# TEST_STREAM_ORDER: communicators are in stream order.
import importlib.util
import os
import re
import subprocess
import sys

SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))
GPU = os.environ.get("TEST_ARRAYS") == "gpu"
SPAWNING = r"\b(test_spawn|test_dynproc)\.py$"
# Test modules whose buffers are arrays of arrayimpl.py.
BUFFERS = ["test_cco_((nb|pr)_)?(buf|vec)", "test_cco_(buf|vec)_inter", "test_cco_(pr_)?ngh_buf",
           "test_p2p_buf(_matched|_part)?"]  # fmt: skip
# Starts of partitioned receives that a barrier of the host has to order with those of sends; in stream order it is none.
BARRIERS_OF_HOSTS = "test_p2p_buf_part.*.testRing*"


def command(source, folder, ranks, chosen):
    """The mpiexec command line with mpi4py's test runner."""
    mpiexec = [os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec"), "-n", ranks]
    if "TEST_HOSTS" in os.environ:
        mpiexec += ["--hosts", os.environ["TEST_HOSTS"], "--launcher", "hydra"]
    tests = os.path.join(source, "test")
    if GPU:
        runner = [sys.executable, os.path.join(HERE, "gpu.py"), tests, folder]
    else:
        runner = [sys.executable, os.path.join(tests, "main.py"), "--no-builddir", "--no-cupy", "--path", folder]
    options = ["-v"] if chosen else ["-v", "-e", SPAWNING, "-x", "test_util_pool.TestProcessPool"]
    if "TEST_STREAM_ORDER" in os.environ:
        options += ["-x", BARRIERS_OF_HOSTS]
    for module in chosen or (BUFFERS if GPU else []):
        name, _, pattern = module.partition(":")
        if name == "not":
            options += ["-x", pattern]
            continue
        options += ["-i", rf"\b{name}\.py$"] + (["-k", pattern] if pattern else [])
    return mpiexec + runner + options


def problems(output, ranks):
    """Problems of a run that exited with status 0."""
    counts = [int(count) for count in re.findall(r"Ran (\d+) tests?", output)]
    if len(counts) != ranks or min(counts) == 0 or min(counts) != max(counts):
        yield f"not every rank ran the same tests: {counts}"
    for line in output.splitlines():
        if re.search(r"skipped '(mpi-(win|file|spawn)|Win|File)", line):
            yield "a feature is missing: " + line


def main():
    source, folder, ranks, *chosen = sys.argv[1:]
    if GPU and "WEFT_CUDA_DRIVER" not in os.environ and importlib.util.find_spec("cupy") is None:
        print("skipped: CuPy is not installed")
        return SKIPPED
    os.environ["PYTHONPATH"] = folder  # of processes that are started
    numpy = os.environ.get("TEST_NUMPY")
    if numpy:
        if not os.path.isdir(os.path.join(numpy, "numpy")):
            print("skipped: NumPy is not installed")
            return SKIPPED
        os.environ["PYTHONPATH"] += ":" + numpy
    if not os.path.exists(os.path.join(folder, "stamp")):
        print("skipped: mpi4py was not built")
        return SKIPPED
    done = subprocess.run(
        command(source, folder, ranks, chosen),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    passed = re.compile(r"\.\.\. (ok|skipped .*)$|^ok$|^$")
    print("\n".join(line for line in done.stdout.splitlines() if not passed.search(line)))
    if done.returncode != 0:
        return done.returncode
    found = list(problems(done.stdout, int(ranks)))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
