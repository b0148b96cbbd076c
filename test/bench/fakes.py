# SPDX-License-Identifier: BSD-3-Clause
# Stand-ins for other libraries in the tests of the benchmarks: Open MPI, NCCL; a library that spoils messages.
import os
import subprocess
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))


def executable(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(textwrap.dedent(text))
    os.chmod(path, 0o755)


def fake_openmpi(folder, prefix):
    """Returns a prefix whose mpicc, mpirun and library are those of the prefix of Weft."""
    executable(os.path.join(folder, "bin", "mpicc"), f'#!/bin/sh\nexec "{prefix}/bin/mpicc" "$@"\n')
    script = f'#!/bin/sh\n[ "$1" = --oversubscribe ] && shift\nexec "{prefix}/bin/mpiexec" "$@"\n'
    executable(os.path.join(folder, "bin", "mpirun"), script)
    os.mkdir(os.path.join(folder, "lib"))
    os.symlink(os.path.join(prefix, "lib", "compat", "libmpi.so.40"), os.path.join(folder, "lib", "libmpi.so.40"))
    return folder


def fake_nccl(folder, prefix):
    """Builds a fake NCCL over Weft. Returns the folder of its library."""
    words = [os.path.join(prefix, "bin", "mpicc"), "-shared", "-fPIC", "-o", os.path.join(folder, "libnccl.so.2")]
    subprocess.run([*words, os.path.join(HERE, "fake_nccl.c"), "-ldl"], check=True)
    return folder


def corrupting_library(folder, mpicc):
    """Builds corrupt.c and returns its path."""
    library = os.path.join(folder, "corrupt.so")
    subprocess.run([mpicc, "-shared", "-fPIC", "-o", library, os.path.join(HERE, "corrupt.c")], check=True)
    return library
