#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs the Python program of README.md on two ranks. The GPUs are those of the emulated driver, and a stand-in of CuPy
# provides the calls that the program makes: its arrays are allocations of the driver, which no host code can touch.
# usage: readme.py FOLDER_OF_MPI4PY; the driver is $WEFT_CUDA_DRIVER; status 77 without mpi4py.
import os
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tools", "docs"))
import blocks  # noqa: E402

SKIPPED = 77
CUPY = """
import ctypes, os

driver = ctypes.CDLL(os.environ["WEFT_CUDA_DRIVER"])


def call(name, *arguments):
    status = getattr(driver, name)(*arguments)
    assert status == 0, "%s: error %d" % (name, status)


class ndarray:
    def __init__(self, count, values=None):
        self.count, self.address = count, ctypes.c_uint64()
        size = ctypes.c_size_t(4 * count)
        call("cuMemAlloc_v2", ctypes.byref(self.address), size)
        if values:
            call("cuMemcpyHtoD_v2", self.address, (ctypes.c_float * count)(*values), size)

    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "shape": (self.count,), "typestr": "<f4", "data": (self.address.value, False)}

    def __getitem__(self, index):
        value = ctypes.c_float()
        address = ctypes.c_uint64(self.address.value + 4 * index)
        call("cuMemcpyDtoH_v2", ctypes.byref(value), address, ctypes.c_size_t(4))
        return value.value


def full(count, value, dtype):
    assert dtype == "f4"
    return ndarray(count, [value] * count)


def empty_like(array):
    return ndarray(array.count)


class cuda:
    class runtime:
        @staticmethod
        def getDeviceCount():
            count = ctypes.c_int()
            call("cuInit", 0)
            call("cuDeviceGetCount", ctypes.byref(count))
            return count.value

    class Device:
        def __init__(self, number):
            self.number = number

        def use(self):
            context = ctypes.c_void_p()
            call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.number)
            call("cuCtxSetCurrent", context)

    class get_current_stream:
        def synchronize(self):
            call("cuStreamSynchronize", None)
"""


def main():
    mpi4py = sys.argv[1]
    if not os.path.isdir(os.path.join(mpi4py, "mpi4py")):
        print("skipped: needs mpi4py")
        return SKIPPED
    program = next(block.text for block in blocks.read(ROOT, "README.md") if block.value == "sum.py")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("sum.py", program), ("cupy.py", CUPY)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        mpiexec = os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec")
        done = subprocess.run(
            [mpiexec, "-n", "2", sys.executable, "sum.py"], cwd=folder, env=dict(os.environ, PYTHONPATH=mpi4py),
            stdout=subprocess.PIPE, text=True, check=False, timeout=60,
        )  # fmt: skip
    print(done.stdout)
    assert done.returncode == 0, done.returncode
    assert sorted(done.stdout.splitlines()) == ["rank 0 sum 3.0", "rank 1 sum 3.0"], done.stdout
    return 0


if __name__ == "__main__":
    sys.exit(main())
