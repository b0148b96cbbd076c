#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# One rank of mpi4py's tests with only arrays in GPU memory: CuPy arrays, or arrays of the emulated driver if
# WEFT_CUDA_DRIVER is set. usage: gpu.py TESTS FOLDER_OF_MPI4PY [options of mpi4py's runner]
#
# The tests fill arrays of unsigned types with -1 and expect the C conversion. CuPy 14 raises OverflowError instead,
# so wrapping() converts the number as mpi4py's class of NumPy arrays does.
import ctypes
import math
import os
import runpy
import sys


def wrapping(array):
    """Makes a CuPy array class of arrayimpl.py convert numbers as its NumPy class does."""
    import numpy

    made = array.__init__

    def __init__(self, arg, typecode, *words, **named):
        given = numpy.asarray(arg).astype(typecode)
        made(self, given.item() if given.ndim == 0 else given, typecode, *words, **named)

    array.__init__ = __init__
    return array


def cupy_arrays(arrayimpl, local_rank):
    """Array classes of CuPy on the GPU of this rank, which ranks may share."""
    import cupy

    cupy.cuda.Device(local_rank % cupy.cuda.runtime.getDeviceCount()).use()
    # DLPackCuPy derives from GPUArrayCuPy and inherits the conversion.
    wrapping(arrayimpl.GPUArrayCuPy)
    return [array for array in arrayimpl.ArrayBackends if array.backend in ("cupy", "dlpack-cupy")]


def emulated_arrays(arrayimpl, local_rank):
    """An array class in memory of the emulated driver, accessed through copies."""
    driver = ctypes.CDLL(os.environ["WEFT_CUDA_DRIVER"])
    in_order = "TEST_STREAM_ORDER" in os.environ  # MPI calls return before they have run

    def call(name, *arguments):
        if in_order and name.startswith("cuMem"):  # these calls do not wait for the stream
            driver.cuCtxSynchronize()
        status = getattr(driver, name)(*arguments)
        assert status == 0, "%s: error %d" % (name, status)

    count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGetCount", ctypes.byref(count))
    call("cuDeviceGet", ctypes.byref(device), local_rank % count.value)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    types = {"b": ctypes.c_byte, "h": ctypes.c_short, "i": ctypes.c_int, "l": ctypes.c_long, "q": ctypes.c_longlong,
             "B": ctypes.c_ubyte, "H": ctypes.c_ushort, "I": ctypes.c_uint, "L": ctypes.c_ulong,
             "Q": ctypes.c_ulonglong, "f": ctypes.c_float, "d": ctypes.c_double}  # fmt: skip

    class Emulated(arrayimpl.BaseArray):
        backend = "cupy"  # the name that the tests use for GPU memory
        TypeMap = {code: {**arrayimpl.TypeMap, **arrayimpl.TypeMapUnsigned}[code] for code in types}

        def __init__(self, arg, typecode, shape=None, readonly=False):
            if isinstance(arg, (int, float)):
                shape = () if shape is None else shape
                arg = [arg] * (math.prod(shape) if isinstance(shape, (tuple, list)) else int(shape))
            self.typecode, self.size = typecode, len(arg)
            self.itemsize = ctypes.sizeof(types[typecode])
            self.address = 0
            if self.size:
                address = ctypes.c_uint64()
                call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(self.size * self.itemsize))
                self.address = address.value
            values = (types[typecode] * self.size)()
            for i, value in enumerate(arg):
                values[i] = value if typecode in "fd" else int(value)  # ctypes integers wrap
            self.write(values)

        def __del__(self):
            if getattr(self, "address", 0):
                call("cuMemFree_v2", ctypes.c_uint64(self.address))

        def write(self, values):
            if self.size:
                call("cuMemcpyHtoD_v2", ctypes.c_uint64(self.address), values, ctypes.c_size_t(ctypes.sizeof(values)))

        @property
        def array(self):
            values = (types[self.typecode] * self.size)()
            if self.size:
                call("cuMemcpyDtoH_v2", values, ctypes.c_uint64(self.address), ctypes.c_size_t(ctypes.sizeof(values)))
            return values

        def __setitem__(self, i, given):
            values = self.array
            values[i] = list(given) if isinstance(i, slice) else given
            self.write(values)

        def __iter__(self):
            return iter(self.array)

        def __len__(self):
            return self.size

        flat = property(lambda self: self)

        def as_raw(self):
            return self

        @property
        def __cuda_array_interface__(self):
            return {
                "version": 3,
                "shape": (self.size,),
                "typestr": arrayimpl.typestr(self.typecode, self.itemsize),
                "data": (self.address, False),
                "strides": None,
            }

    return [Emulated]


def main():
    tests, folder, *words = sys.argv[1:]
    sys.path[:0] = [tests, folder]
    from mpi4py import MPI

    local = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)
    local_rank = local.Get_rank()
    local.Free()
    import arrayimpl

    make = emulated_arrays if os.environ.get("WEFT_CUDA_DRIVER") else cupy_arrays
    arrayimpl.ArrayBackends[:] = make(arrayimpl, local_rank)
    assert arrayimpl.ArrayBackends, "no class of GPU arrays"
    sys.argv = [os.path.join(tests, "main.py"), "--no-builddir", "--cupy", "--path", folder, *words]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
