#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# GPU generations of the kernels (cmake/cuda.cmake): those of the machine's GPUs, as a mock of nvidia-smi names them.
# usage: generations.py CMAKE
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
CMAKE = sys.argv.pop(1)
SCRIPT = 'include("%s/cmake/cuda.cmake")\nmessage("${WEFT_CUDA_GENERATIONS}/${WEFT_CUDA_PTX_GENERATION}")\n' % SOURCE


class Generations(unittest.TestCase):
    def check(self, setting, capabilities, wanted):
        """`capabilities`: output of nvidia-smi; None: it fails. `wanted`: machine code / PTX."""
        with tempfile.TemporaryDirectory() as folder:
            command = os.path.join(folder, "nvidia-smi")
            with open(command, "w", encoding="utf-8") as file:
                lines = "exit 9" if capabilities is None else "\n".join("echo " + each for each in capabilities)
                file.write(f"#!/bin/sh\n{lines}\n")
            os.chmod(command, 0o755)
            script = os.path.join(folder, "script.cmake")
            with open(script, "w", encoding="utf-8") as file:
                file.write(SCRIPT)
            variables = ["-DWEFT_CUDA_KERNELS=OFF"] + ([f"-DWEFT_CUDA_ARCHITECTURES={setting}"] if setting else [])
            environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"]}
            done = subprocess.run([CMAKE, *variables, "-P", script], capture_output=True, text=True, env=environment)
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


if __name__ == "__main__":
    unittest.main()
