#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Extension modules that use mpi4py, compiled with Weft's mpicc, as docs/pytorch.md says: they work beside mpi4py that mpicc has
# compiled, too, and say what is wrong beside mpi4py's wheel of PyPI, whose handles are MPICH's.
# usage: extensions.py BUILT WHEEL [FOLDER]; FOLDER: mpi4jax and its own tests instead, in an environment there. Status 77
# without mpi4py or JAX.
import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tools", "docs"))
import blocks

SKIPPED = 77
BIN = os.path.join(os.environ.get("MPI_PREFIX", ""), "bin")
PROGRAM = """
from mpi4py import MPI
import extension
print(extension.size_of_object(MPI.COMM_WORLD), extension.size_of_number(MPI.COMM_WORLD.handle))
"""
MISTAKE = """
from mpi4py import MPI
import extension
try:
    extension.size_of_number(MPI.COMM_WORLD.handle)
except RuntimeError as error:
    print(error)
"""
JAX = """
import jax, jax.numpy as jnp, mpi4jax
from mpi4py import MPI
comm = MPI.COMM_WORLD
@jax.jit
def total(x):
    found = mpi4jax.allreduce(x, op=MPI.SUM, comm=comm)
    return found[0] if isinstance(found, tuple) else found
print(float(total(jnp.full(3, comm.rank + 1.0)).sum()))
"""


def run(code, folder, *paths, python=sys.executable, **variables):
    """Runs a program with two ranks; returns the lines that they print."""
    path = os.path.join(folder, "program.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(code)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *paths]), **variables}
    command = [os.path.join(BIN, "mpiexec"), "-n", "2", python, path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout.splitlines()


def page_commands():
    """Returns the commands of docs/pytorch.md that install extensions."""
    lines = blocks.lines_of("test/mpi4py/extensions.py", SOURCE, "docs/pytorch.md")
    commands = [line for line in lines if line.startswith("pip ")]
    if not any("mpi4jax" in line for line in commands):
        raise SystemExit(f"docs/pytorch.md has the commands {commands}")
    return commands


def suite(folder, work, environment):
    """Runs mpi4jax's own tests, of its source distribution, with 1 and 2 processes; returns the failures as a text."""
    python = os.path.join(folder, "bin", "python")
    version = subprocess.run([python, "-c", "import mpi4jax; print(mpi4jax.__version__)"], env=environment, text=True,
                             capture_output=True, check=True).stdout.split()[-1]  # fmt: skip
    command = [python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "-d", work,
               f"mpi4jax=={version}"]  # fmt: skip
    subprocess.run(command, env=environment, check=True, capture_output=True)
    (archive,) = glob.glob(os.path.join(work, "mpi4jax-*.tar.gz"))
    subprocess.run(["tar", "-xf", archive, "-C", work], check=True)
    source = archive[: -len(".tar.gz")]
    shutil.rmtree(os.path.join(source, "mpi4jax"))  # Python would take it for the package, before the compiled one
    common = os.path.join(source, "tests", "collective_ops", "test_common.py")
    with open(common, encoding="utf-8") as file:
        text = file.read()
    if "timeout=10" not in text:
        raise SystemExit(f"{common} starts no program with a time limit of 10 s")
    with open(common, "w", encoding="utf-8") as file:
        file.write(text.replace("timeout=10", "timeout=300"))  # a busy machine takes longer to import JAX
    failures = ""
    for processes in (1, 2):
        command = [os.path.join(BIN, "mpiexec"), "-n", str(processes), python, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                   "tests"]  # fmt: skip
        done = subprocess.run(command, env=environment, cwd=source, text=True, timeout=1500,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
        counts = re.findall(r"^.*\bpassed\b.*$", done.stdout, re.MULTILINE)
        print(f"mpi4jax {version}, {processes} processes: {'; '.join(counts)}")
        if done.returncode != 0 or len(counts) != processes:
            failures += done.stdout
    return failures


def mpi4jax(folder):
    """Builds mpi4py and mpi4jax in an environment; runs a program with both, and mpi4jax's tests."""
    pip = os.path.join(folder, "bin", "pip")
    if not os.path.exists(pip):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    environment = {**os.environ, "PATH": BIN + os.pathsep + os.environ["PATH"], "JAX_PLATFORMS": "cpu",
                   "MPI4JAX_NO_WARN_JAX_VERSION": "1", "PIP_QUIET": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}  # fmt: skip
    reached = False  # a registry of packages; after that, what can't be installed is a failure
    for line in [*page_commands(), "pip install pytest"]:
        done = subprocess.run([pip, *line.split()[1:]], env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0 and not reached:
            print(f"skipped: {line}: {done.stderr.strip()[-300:]}")
            return SKIPPED
        if done.returncode != 0:
            raise SystemExit(f"{line}: {done.stdout}{done.stderr}")
        reached = True
    with tempfile.TemporaryDirectory() as work:
        printed = run(JAX, work, python=os.path.join(folder, "bin", "python"), JAX_PLATFORMS="cpu")
        if printed != ["9.0"] * 2:
            raise SystemExit(f"mpi4jax: {printed}")
        failures = suite(folder, work, environment)
    if failures:
        raise SystemExit(failures)
    return 0


def main():
    built, wheel = sys.argv[1:3]
    if len(sys.argv) > 3:
        return mpi4jax(sys.argv[3])
    if not os.path.isdir(os.path.join(built, "mpi4py")):
        print("skipped: mpi4py is not built")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        includes = ["-I" + sysconfig.get_path("include"), "-I" + os.path.join(built, "mpi4py", "include")]
        module = os.path.join(folder, "extension.so")
        command = [
            os.path.join(BIN, "mpicc"),
            "-shared",
            "-fPIC",
            *includes,
            os.path.join(HERE, "extension.c"),
            "-o",
            module,
        ]
        subprocess.run(command, check=True)
        printed = run(PROGRAM, folder, built)
        if printed != ["2 2"] * 2:
            raise SystemExit(f"beside mpi4py of mpicc: {printed}")
        if os.path.isdir(os.path.join(wheel, "mpi4py")):
            printed = run(MISTAKE, folder, wheel, MPI4PY_MPIABI="mpich")
            for text in (
                "comm = 0x44000000 is a communicator of MPICH's ABI",
                "compat/libmpi.so.12",
                "--no-binary mpi4py",
            ):
                if not all(text in line for line in printed) or len(printed) != 2:
                    raise SystemExit(f"beside mpi4py's wheel: {text!r} is not in {printed}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
