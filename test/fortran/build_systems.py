# SPDX-License-Identifier: BSD-3-Clause
# CMake's find_package(MPI COMPONENTS Fortran), Meson's dependency('mpi') and Autoconf find all interfaces through PATH;
# pkg-config has the options for mpif.h.
import os
import shlex
import shutil
import sys
import tempfile

from commands import run

PREFIX = os.environ["MPI_PREFIX"]
PROJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "project")
PROGRAMS = ["hello_F77_HEADER", "hello_F90_MODULE", "hello_F08_MODULE"]


def say_hello(folder, programs):
    for program in programs:
        output = run([os.path.join(PREFIX, "bin", "mpiexec"), "-n", "2", os.path.join(folder, program)], folder)
        assert sorted(output.split()) == ["0/2", "1/2"], (program, output)


def cmake(folder, program, ninja):
    printed = run([program, "-G", "Ninja", "-DCMAKE_MAKE_PROGRAM=" + ninja, "-S", PROJECT, "-B", folder], folder)
    assert "mpif.h TRUE mpi TRUE mpi_f08 TRUE" in printed, printed
    run([program, "--build", folder], folder)
    say_hello(folder, PROGRAMS)


def meson(folder):
    if not shutil.which("meson"):
        return print("not tested: there is no meson")
    run(["meson", "setup", os.path.join(folder, "build"), PROJECT], folder)
    run(["meson", "compile", "-C", os.path.join(folder, "build")], folder)
    return say_hello(os.path.join(folder, "build"), PROGRAMS)


def autoconf(folder):
    if not shutil.which("autoconf"):
        return print("not tested: there is no autoconf")
    shutil.copy(os.path.join(PROJECT, "configure.ac"), folder)
    run(["autoconf"], folder)
    printed = run(["./configure"], folder)
    return [
        printed.index(f"checking for {word}... yes")
        for word in ("MPI_Init", "include mpif.h", "use mpi", "use mpi_f08")
    ]


def pkg_config(folder):
    if not shutil.which("pkg-config"):
        return print("not tested: there is no pkg-config")
    path = os.path.join(PREFIX, "lib", "pkgconfig")
    words = shlex.split(run(["pkg-config", "--cflags", "--libs", "weft-fortran"], folder, PKG_CONFIG_PATH=path))
    run(["gfortran", "-DF77_HEADER", os.path.join(PROJECT, "hello.F90"), "-o", "hello", *words], folder)
    return say_hello(folder, ["hello"])


def main():
    if not shutil.which("gfortran"):
        print("skipped: there is no gfortran")
        return 77
    for check, options in ((cmake, sys.argv[1:]), (meson, []), (autoconf, []), (pkg_config, [])):
        with tempfile.TemporaryDirectory() as folder:
            check(folder, *options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
