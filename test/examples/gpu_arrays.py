#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# GPU arrays through mpi4py with the protocols of CuPy, PyTorch and JAX: DLPack and __cuda_array_interface__. The arrays
# are allocations of the CUDA driver (emulated or real), so no array library is needed.
# usage: gpu_arrays.py FOLDER_OF_MPI4PY RANKS; status 77 without mpi4py.
import ctypes
import os
import subprocess
import sys

SKIPPED = 77
COUNT = 5000
CUDA, FLOAT = 2, 2  # codes of DLPack: device type and element type


class Driver:
    """The driver calls that the arrays need."""

    def __init__(self, local_rank):
        self.library = ctypes.CDLL(os.environ.get("WEFT_CUDA_DRIVER") or "libcuda.so.1")
        self.call("cuInit", 0)
        count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        self.number = local_rank % count.value
        self.call("cuDeviceGet", ctypes.byref(device), self.number)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        assert status == 0, "%s: error %d" % (name, status)


class Array:
    """COUNT floats on the GPU, exported by the protocol of a subclass."""

    def __init__(self, driver, values):
        self.driver, self.address = driver, ctypes.c_uint64()
        data = (ctypes.c_float * COUNT)(*values)
        driver.call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(ctypes.sizeof(data)))
        driver.call("cuMemcpyHtoD_v2", self.address, data, ctypes.c_size_t(ctypes.sizeof(data)))

    def values(self):
        data = (ctypes.c_float * COUNT)()
        self.driver.call("cuMemcpyDtoH_v2", data, self.address, ctypes.c_size_t(ctypes.sizeof(data)))
        return list(data)


class Interface(Array):
    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "shape": (COUNT,), "typestr": "<f4", "data": (self.address.value, False), "strides": None}


class Tensor(ctypes.Structure):
    """DLManagedTensor of DLPack's C header."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


class DLPack(Array):
    def __dlpack_device__(self):
        return (CUDA, self.driver.number)

    def __dlpack__(self, stream=None):
        self.shape = (ctypes.c_int64 * 1)(COUNT)
        self.tensor = Tensor(
            self.address.value, CUDA, self.driver.number, 1, FLOAT, 32, 1,
            ctypes.cast(self.shape, ctypes.POINTER(ctypes.c_int64)), None, 0, None, None,
        )  # fmt: skip
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.tensor), b"dltensor", None)


def exchange(comm, MPI, driver, kind):
    """Runs a ring and a sum on arrays of a kind and compares every element."""
    rank, size = comm.Get_rank(), comm.Get_size()
    left = (rank - 1) % size
    mine = kind(driver, [rank * 10 + i % 7 for i in range(COUNT)])
    theirs = kind(driver, [-1.0] * COUNT)
    comm.Sendrecv(mine, dest=(rank + 1) % size, recvbuf=theirs, source=left)
    assert theirs.values() == [left * 10 + i % 7 for i in range(COUNT)], "ring"
    comm.Allreduce(mine, theirs, op=MPI.SUM)
    assert theirs.values() == [sum(range(size)) * 10 + size * (i % 7) for i in range(COUNT)], "sum"


def rank_main():
    from mpi4py import MPI

    driver = Driver(int(os.environ["LOCAL_RANK"]))
    for kind in (Interface, DLPack):
        exchange(MPI.COMM_WORLD, MPI, driver, kind)
    if MPI.COMM_WORLD.Get_rank() == 0:
        print("all arrays as expected")


def main():
    folder, ranks = sys.argv[1:3]
    if not os.path.isdir(os.path.join(folder, "mpi4py")):
        print("skipped: needs mpi4py (the test mpi4py/build makes it)")
        return SKIPPED
    mpiexec = os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec")
    command = [mpiexec, "-n", ranks, sys.executable, os.path.abspath(__file__), "--rank"]
    environment = dict(os.environ, PYTHONPATH=folder, WEFT_CUDA="on")
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout, end="")
    return 0 if done.returncode == 0 and done.stdout.strip() == "all arrays as expected" else 1


if __name__ == "__main__":
    sys.exit(rank_main() if sys.argv[1:] == ["--rank"] else main())
