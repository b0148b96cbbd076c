#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Builds examples/nccl with the prefix's mpicc and runs it on two GPUs. NCCL and the CUDA runtime: NCCL_HOME and
# CUDA_HOME, else the packages nvidia-nccl and nvidia-cuda-runtime of this Python; without them: skipped (77).
import glob
import os
import shutil
import site
import subprocess
import sys
import tempfile

SKIPPED = 77
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "nccl", "allreduce.c")


def folders():
    for variable in ("NCCL_HOME", "CUDA_HOME"):
        if os.environ.get(variable):
            yield os.environ[variable]
    for packages in [*site.getsitepackages(), site.getusersitepackages(), *sys.path]:
        yield from sorted(glob.glob(os.path.join(packages, "nvidia", "*")))
    compiler = shutil.which("nvcc")
    if compiler:
        yield os.path.dirname(os.path.dirname(os.path.realpath(compiler)))
    yield from ("/usr/local/cuda", "/usr")


def find(*patterns):
    for folder in folders():
        for pattern in patterns:
            found = glob.glob(os.path.join(folder, pattern))
            if found:
                return found[0]
    return None


def main():
    headers = [find("include/nccl.h"), find("include/cuda_runtime.h")]
    libraries = [
        find("lib/libnccl.so.2", "lib64/libnccl.so.2", "lib/*/libnccl.so.2"),
        find("lib/libcudart.so.1[23]", "lib64/libcudart.so.1[23]", "targets/*/lib/libcudart.so.1[23]"),
    ]
    if not all(headers + libraries):
        print("skipped: needs NCCL and the CUDA runtime with their headers")
        return SKIPPED
    if len(glob.glob("/proc/driver/nvidia/gpus/*")) < 2:
        print("skipped: needs two GPUs")
        return SKIPPED
    prefix = os.environ["MPI_PREFIX"]
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "allreduce")
        build = [os.path.join(prefix, "bin", "mpicc"), SOURCE, "-o", program, *libraries]
        build += ["-I" + os.path.dirname(header) for header in headers]
        build += ["-Wl,-rpath," + os.path.dirname(library) for library in libraries]
        subprocess.run(build, check=True)
        return subprocess.run([os.path.join(prefix, "bin", "mpiexec"), "-n", "2", program], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
