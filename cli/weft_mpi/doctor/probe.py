# SPDX-License-Identifier: BSD-3-Clause
# Probes that may crash and therefore run in a child process: weft_mpi.doctor.probe gdrcopy|register|networks|storage. A
# probe prints one line of JSON.
import ctypes
import json
import os
import statistics
import sys
import time

from weft_mpi import library
from weft_mpi.machine import cuda

GPU_PAGE = 65536  # pinning granularity of gdrdrv and nvidia_peermem
ACCESS = 1 | 2 | 4  # IBV_ACCESS_LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ
DMA_BUF = 1  # CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
COPIES = 1000
GDRAPI, VERBS = "libgdrapi.so.2", "libibverbs.so.1"


def load(name):
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise cuda.Unavailable(f"{name} is not installed ({error})") from None


def aligned(address):
    return (address + GPU_PAGE - 1) // GPU_PAGE * GPU_PAGE


def gdrcopy():
    """Pins and maps a page of GPU memory, times small writes and reads the data back (gdrapi.h)."""
    library = load(GDRAPI)
    library.gdr_open.restype = ctypes.c_void_p
    opened = ctypes.c_void_p(library.gdr_open())
    if not opened:
        raise cuda.Unavailable("gdr_open failed: the module gdrdrv does not respond")
    with cuda.Driver().memory(0, 2 * GPU_PAGE) as address:
        handle, mapped = ctypes.c_ulong(), ctypes.c_void_p()
        at = ctypes.c_ulong(aligned(address))
        pinned = library.gdr_pin_buffer(opened, at, ctypes.c_size_t(GPU_PAGE), ctypes.c_uint64(0), ctypes.c_uint32(0),
                                        ctypes.byref(handle))  # fmt: skip
        if pinned != 0:
            raise cuda.Unavailable(f"gdr_pin_buffer: error {pinned}")
        status = library.gdr_map(opened, handle, ctypes.byref(mapped), ctypes.c_size_t(GPU_PAGE))
        if status != 0:
            raise cuda.Unavailable(f"gdr_map: error {status}")
        took = time_copies(library, handle, mapped)
        library.gdr_unmap(opened, handle, mapped, ctypes.c_size_t(GPU_PAGE))
        library.gdr_unpin_buffer(opened, handle)
    library.gdr_close(opened)
    return {"write_us": took}


def time_copies(library, handle, mapped):
    """Returns the median time of a write of 8 bytes in microseconds: other processes do not change it. Raises
    cuda.Unavailable if other data are read back."""
    word, back = ctypes.c_uint64(0x7765667400000000 | os.getpid()), ctypes.c_uint64()
    size = ctypes.c_size_t(8)
    times = []
    for _ in range(COPIES):
        start = time.perf_counter()
        library.gdr_copy_to_mapping(handle, mapped, ctypes.byref(word), size)
        times.append(time.perf_counter() - start)
    library.gdr_copy_from_mapping(handle, ctypes.byref(back), mapped, size)
    if back.value != word.value:
        raise cuda.Unavailable("data read back through the mapping differs from the data written")
    return statistics.median(times) * 1e6


def register():
    """Registers GPU memory with every adapter, by address and as a dma-buf (verbs.h)."""
    verbs = load(VERBS)
    for name in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr", "ibv_reg_dmabuf_mr"):
        if hasattr(verbs, name):
            getattr(verbs, name).restype = ctypes.c_void_p
    verbs.ibv_get_device_name.restype = ctypes.c_char_p
    driver, count, found = cuda.Driver(), ctypes.c_int(), {}
    listed = verbs.ibv_get_device_list(ctypes.byref(count))
    if not listed or count.value == 0:
        raise cuda.Unavailable("libibverbs finds no adapter")
    devices = ctypes.cast(listed, ctypes.POINTER(ctypes.c_void_p))
    with driver.memory(0, 1 << 21) as address:
        for at in range(count.value):
            device = ctypes.c_void_p(devices[at])
            name = verbs.ibv_get_device_name(device).decode()
            found[name] = register_with(verbs, device, driver, aligned(address))
    return {"devices": found}


def register_with(verbs, device, driver, address):
    """Returns {"peermem": success, "dmabuf": success, "why": reason of the last failure}."""
    methods = {"peermem": False, "dmabuf": False, "why": ""}
    context = ctypes.c_void_p(verbs.ibv_open_device(device))
    domain = ctypes.c_void_p(verbs.ibv_alloc_pd(context)) if context else None
    if not domain:
        return {**methods, "why": "the adapter cannot be opened"}
    size = ctypes.c_size_t(1 << 20)
    region = verbs.ibv_reg_mr(domain, ctypes.c_void_p(address), size, ACCESS)
    methods["peermem"] = bool(region)
    methods["why"] = "ibv_reg_mr" if not region else ""
    release(verbs, region)
    shared = ctypes.c_int(-1)
    result, why = driver.call("cuMemGetHandleForAddressRange", ctypes.byref(shared), ctypes.c_uint64(address), size,
                              DMA_BUF, ctypes.c_uint64(0))  # fmt: skip
    if result == 0 and hasattr(verbs, "ibv_reg_dmabuf_mr"):
        region = verbs.ibv_reg_dmabuf_mr(domain, ctypes.c_uint64(0), size, ctypes.c_uint64(address), shared, ACCESS)
        methods["dmabuf"] = bool(region)
        why = "ibv_reg_dmabuf_mr"
        release(verbs, region)
        os.close(shared.value)
    if not methods["dmabuf"]:
        methods["why"] = f"{methods['why']}; dma-buf: {why}"
    return methods


def release(verbs, region):
    if region:
        verbs.ibv_dereg_mr(ctypes.c_void_p(region))


def networks(path):
    """Returns the network libraries that Weft's library at `path` loads: {"ucx": text, "ofi": text}."""
    lines = [text for part, text in library.paths(load(path)) if part == "network"]
    return dict(line.split(": ", 1) for line in lines)


def storage(path, folder):
    """Returns how Weft's library at `path` moves data between GPU memory and files of a folder."""
    text = ctypes.create_string_buffer(1 << 16)
    query = os.fsencode(f"kind=cuda path={folder}")
    if load(path).MPIX_Explain_file(query, text, len(text), None) != 0:
        raise cuda.Unavailable(text.value.decode())
    return json.loads(text.value)


def main(words):
    try:
        probes = {"gdrcopy": gdrcopy, "register": register, "networks": networks, "storage": storage}
        found = probes[words[0]](*words[1:])
    except cuda.Unavailable as reason:
        found = {"error": str(reason)}
    print(json.dumps(found), flush=True)
    os._exit(0)  # skips the destructors of the probed libraries


if __name__ == "__main__":
    main(sys.argv[1:])
