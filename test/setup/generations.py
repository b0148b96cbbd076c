#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# GPU generations of the kernels (cmake/cuda.cmake): those of the machine's GPUs, as a mock of nvidia-smi names them, as far
# as mocks of the compilers know them.
# usage: generations.py CMAKE
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
CMAKE = sys.argv.pop(1)
SCRIPT = 'cmake_minimum_required(VERSION 3.20)\ninclude("%s/cmake/cuda.cmake")\nmessage("%s")\n'
CHOSEN = "${WEFT_CUDA_GENERATIONS}/${WEFT_CUDA_PTX_GENERATION}"


def script(folder, name, text):
    """Writes a program of the shell."""
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n%s\n" % text)
    os.chmod(path, 0o755)


class Generations(unittest.TestCase):
    def check(self, setting, capabilities, wanted, variables=("-DWEFT_CUDA_KERNELS=OFF",), shown=CHOSEN, tools=None):
        """`capabilities`: output of nvidia-smi; None: it fails. `wanted`: the last line, of `shown`: machine code / PTX.
        `tools`: text of scripts beside it, by their paths."""
        with tempfile.TemporaryDirectory() as folder:
            lines = "exit 9" if capabilities is None else "\n".join("echo " + each for each in capabilities)
            for name, text in {**(tools or {}), "nvidia-smi": lines}.items():
                script(folder, name, text)
            path = os.path.join(folder, "script.cmake")
            with open(path, "w", encoding="utf-8") as file:
                file.write(SCRIPT % (SOURCE, shown))
            options = [each.replace("FOLDER", folder) for each in variables]
            options += [f"-DWEFT_CUDA_ARCHITECTURES={setting}"] if setting else []
            environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"]}
            done = subprocess.run(
                [CMAKE, *options, "-P", path], capture_output=True, text=True, env=environment, cwd=folder
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.splitlines()[-1], wanted, setting)

    def test_gpus_of_the_machine(self):
        for setting in (None, "auto", "native"):
            self.check(setting, ["8.6", "9.0", "9.0"], "80;90/70")
            self.check(setting, ["7.5"], "70/70")
            self.check(setting, ["10.3", "12.0"], "100;120/70")

    def test_no_gpu(self):
        for capabilities in (None, [], ["6.1"], ["'[N/A]'"]):
            self.check("auto", capabilities, "70;80;90/90")
            self.check("native", capabilities, "/70")

    def test_packages_and_lists(self):
        for capabilities in (None, ["9.0"]):
            self.check("all", capabilities, "70;80;90/90")
            self.check("80;100", capabilities, "80;100/70")

    def test_gpus_that_the_assembler_does_not_know(self):
        tools = {
            "cuda12/cuda_nvcc/bin/ptxas": "echo \"        'sm_80','sm_90','sm_90a'.\"",
            "cuda12/nvfatbin/lib/libnvfatbin.so.12": "",
        }
        variables = ("-DWEFT_CUDA_KERNELS=ON", "-DWEFT_CUDA12_DIR=FOLDER/cuda12")
        for setting in ("auto", "native"):
            self.check(setting, ["9.0", "13.0"], "90/70", variables, tools=tools)
            self.check(setting, ["13.0"], "/70", variables, tools=tools)
        self.check("130", [], "130/70", variables, tools=tools)  # as asked for, and then an error

    def test_nvcc_of_later_versions(self):
        """nvcc of CUDA 13 has no generation 70."""
        variables = (
            "-DWEFT_CUDA_KERNELS=ON",
            "-DWEFT_CUDA12_DIR=FOLDER/none",
            "-DWEFT_NVCC=FOLDER/nvcc",
            "-DCMAKE_CXX_COMPILER=c++",
        )
        for oldest, ptx in ((70, 70), (75, 75)):
            known = [120, 90, oldest]
            lists = ["echo " + " ".join(f"{kind}_{each}" for each in known) + " | tr ' ' '\\n'"
                     for kind in ("sm", "compute")]  # fmt: skip
            text = "case $1 in --list-gpu-code) %s;; --list-gpu-arch) %s;; esac" % tuple(lists)
            wanted = "-gencode=arch=compute_90,code=sm_90;-gencode=arch=compute_%d,code=compute_%d" % (ptx, ptx)
            self.check("native", ["9.0"], wanted, variables, "${WEFT_NVCC_FLAGS}", {"nvcc": text})


if __name__ == "__main__":
    unittest.main()
