#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# h5py with parallel HDF5, both built on Weft from unmodified sources, with mpi4py as test/mpi4py builds it: h5py's own
# test suite and h5py_parallel.py with 2 and 4 ranks. Exit status 77: a source cannot be fetched.
#
# Usage: h5py_suite.py WORK_FOLDER MPI4PY_FOLDER [RANKS...]
# HDF5 is built in WORK_FOLDER/hdf5 (run.py), h5py in WORK_FOLDER/h5py, each once.
import os
import re
import subprocess
import sys
import tempfile

import run

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools", "setup"))
from packages import Missing, Pip  # noqa: E402

H5PY = "h5py==3.12.1"  # works with HDF5 1.10.6 and newer, Python 3.9 to 3.13
TOOLS = ["numpy>=2,<2.3", "Cython<3.1", "setuptools<81", "wheel", "pkgconfig", "pytest>=8,<9", "pytest-mpi==0.6"]
PARALLEL_TESTS = 4  # tests of h5py 3.12.1 that run only with several ranks (mark mpi)
LIMIT_S = 1800


def build_hdf5(folder):
    """Returns the prefix of HDF5."""
    os.makedirs(folder, exist_ok=True)
    top = run.unpack(run.PACKAGES["hdf5"], folder)
    prefix = os.path.join(top, "weft")
    if not os.path.exists(prefix + "/lib/libhdf5_hl.so"):
        run.shell(run.HDF5_LIBRARY + ":", top, LIMIT_S, os.path.join(folder, "library.log"))
    return prefix


def build_h5py(folder, hdf5, mpi4py):
    """Returns the folders of Python modules: h5py, its tools, mpi4py."""
    os.makedirs(folder, exist_ok=True)
    pip, tools, source = Pip(folder + "/pip"), folder + "/tools", folder + "/source"
    target, stamp = folder + "/installed", folder + "/built"
    inputs = "%s %s %s %s" % (H5PY, hdf5, sys.version, os.stat(mpi4py + "/stamp").st_mtime)
    if not os.path.isdir(tools):
        pip.install(TOOLS, tools, options=["--only-binary", ":all:"])
    if not os.path.isdir(source):
        pip.unpack_source(H5PY, source)
    if not os.path.exists(stamp) or open(stamp, encoding="utf-8").read() != inputs:
        variables = dict(os.environ, HDF5_MPI="ON", HDF5_DIR=hdf5, CC="mpicc", CFLAGS="-O0", PYTHONPATH=tools + ":" + mpi4py,
                         PATH=run.MPI_PREFIX + "/bin:" + os.environ["PATH"], PIP_ROOT_USER_ACTION="ignore")  # fmt: skip
        command = [*pip.find(), "install", "-q", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--upgrade"]
        done = subprocess.run([*command, "--target", target, source], env=variables, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)  # fmt: skip
        if done.returncode != 0:
            sys.exit("h5py was not built:\n" + done.stdout[-3000:])
        with open(stamp, "w", encoding="utf-8") as file:
            file.write(inputs)
    return [target, tools, mpi4py]


def mpiexec(ranks, arguments, modules):
    """Runs Python with the ranks in a folder of its own; returns what they printed. Ends the test if a rank fails."""
    variables = dict(os.environ, PYTHONPATH=":".join(modules), PYTHONDONTWRITEBYTECODE="1")
    with tempfile.TemporaryDirectory() as folder:
        command = [run.MPI_PREFIX + "/bin/mpiexec", "-n", str(ranks), sys.executable, *arguments]
        try:
            done = subprocess.run(command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=LIMIT_S)  # fmt: skip
        except subprocess.TimeoutExpired as expired:
            sys.exit("no end in %d s:\n%s" % (LIMIT_S, (expired.stdout or b"")[-3000:].decode(errors="replace")))
    if done.returncode != 0:
        sys.exit("status %d of %s\n%s" % (done.returncode, " ".join(command), done.stdout[-6000:]))
    return done.stdout


def suite(ranks, modules, options):
    """Runs tests of h5py; returns how many have passed on each rank, which is the same on all."""
    tests = modules[0] + "/h5py/tests"
    if os.geteuid() == 0:  # root may write to a file that is read-only
        options = [*options, "-k", "not test_append_permissions"]
    out = mpiexec(ranks, ["-m", "pytest", tests, "-q", "-p", "no:cacheprovider", "--no-network", *options], modules)
    passed = [int(number) for number in re.findall(r"^=*\s*(\d+) passed", out, re.MULTILINE)]
    if len(passed) != ranks or len(set(passed)) != 1:
        sys.exit(f"the ranks passed different numbers of tests, {passed}:\n{out[-3000:]}")
    return passed[0]


def main():
    work, mpi4py = (os.path.abspath(path) for path in sys.argv[1:3])
    if not os.path.exists(mpi4py + "/stamp"):
        run.skip("mpi4py was not built")
    try:
        modules = build_h5py(work + "/h5py", build_hdf5(work + "/hdf5"), mpi4py)
    except Missing as error:
        run.skip(str(error))
    for ranks in [int(text) for text in sys.argv[3:]] or [2, 4]:
        print(mpiexec(ranks, [HERE + "/h5py_parallel.py"], modules).strip(), flush=True)
        own = suite(ranks, modules, ["--only-mpi"])
        if own != PARALLEL_TESTS:
            sys.exit("%d parallel tests instead of %d" % (own, PARALLEL_TESTS))
        both = suite(ranks, modules, ["--with-mpi"])
        print("h5py, %d ranks: %d parallel tests, %d in all pass" % (ranks, own, both), flush=True)


if __name__ == "__main__":
    main()
