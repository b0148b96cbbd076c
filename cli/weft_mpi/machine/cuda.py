# SPDX-License-Identifier: BSD-3-Clause
# Queries of the CUDA driver through ctypes; needs neither toolkit nor Python packages. Only memory() creates a context.
from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

# CUdevice_attribute; before CUDA 12.3 drivers do not know the last one.
UNIFIED_ADDRESSING, MAJOR, MINOR, CLOCK_RATE, COMPUTE_MODE, MPS_ENABLED = 41, 75, 76, 13, 20, 133
COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive process"}  # CUcomputemode


class Unavailable(Exception):
    """No usable driver; the text gives the reason."""


def library_name() -> str:
    return os.environ.get("WEFT_CUDA_DRIVER") or "libcuda.so.1"


class Driver:
    """The driver after cuInit. The constructor raises Unavailable."""

    def __init__(self):
        self.name = library_name()
        try:
            self.library = ctypes.CDLL(self.name)
        except OSError as error:
            raise Unavailable(f"no driver ({error})") from None
        self.check("cuInit", 0)
        version = ctypes.c_int()
        self.check("cuDriverGetVersion", ctypes.byref(version))
        self.version = f"{version.value // 1000}.{version.value % 1000 // 10}"

    def call(self, name: str, *arguments: object) -> tuple[int, str]:
        """Returns (CUresult, error name)."""
        try:
            result = getattr(self.library, name)(*arguments)
        except AttributeError:
            return -1, f"{self.name} has no {name}"
        return result, self.error_text(result) if result else ""

    def error_text(self, result: int) -> str:
        text = ctypes.c_char_p()
        with contextlib.suppress(AttributeError):
            self.library.cuGetErrorName(result, ctypes.byref(text))
        return text.value.decode() if text.value else f"error {result}"

    def check(self, name: str, *arguments: object) -> None:
        result, text = self.call(name, *arguments)
        if result != 0:
            raise Unavailable(f"{name}: {text}")

    def count(self) -> int:
        count = ctypes.c_int()
        self.check("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def devices(self) -> list[dict[str, object]]:
        """Returns one dictionary per visible device."""
        return [self.describe(ordinal) for ordinal in range(self.count())]

    def handle(self, ordinal: int) -> ctypes.c_int:
        device = ctypes.c_int()
        self.check("cuDeviceGet", ctypes.byref(device), ordinal)
        return device

    def describe(self, ordinal: int) -> dict[str, object]:
        device = self.handle(ordinal)
        name, pci = ctypes.create_string_buffer(128), ctypes.create_string_buffer(32)
        uuid, memory = (ctypes.c_ubyte * 16)(), ctypes.c_size_t()
        self.check("cuDeviceGetName", name, 128, device)
        self.check("cuDeviceGetPCIBusId", pci, 32, device)
        self.check("cuDeviceTotalMem_v2", ctypes.byref(memory), device)
        if self.call("cuDeviceGetUuid_v2", uuid, device)[0] != 0:
            self.check("cuDeviceGetUuid", uuid, device)
        return {
            "ordinal": ordinal,
            "name": name.value.decode(),
            "pci": pci.value.decode().lower(),
            "uuid": bytes(uuid).hex(),
            "memory_bytes": memory.value,
            "compute_capability": f"{self.attribute(device, MAJOR)}.{self.attribute(device, MINOR)}",
            "compute_mode": COMPUTE_MODES.get(self.attribute(device, COMPUTE_MODE), "?"),
            "mps": {0: "off", 1: "on"}.get(self.attribute(device, MPS_ENABLED), "?"),
        }

    def attribute(self, device: ctypes.c_int, which: int) -> int | str:
        value = ctypes.c_int()
        result, _ = self.call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
        return value.value if result == 0 else "?"

    def peer_access(self, one: int, other: int) -> bool:
        """Returns True if device `one` can access the memory of `other`."""
        can = ctypes.c_int()
        self.check("cuDeviceCanAccessPeer", ctypes.byref(can), self.handle(one), self.handle(other))
        return bool(can.value)

    @contextlib.contextmanager
    def memory(self, ordinal: int, size: int) -> Iterator[int]:
        """Yields the address of `size` bytes of device memory; the device's primary context is current."""
        device, context = self.handle(ordinal), ctypes.c_void_p()
        self.check("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        address = ctypes.c_uint64()
        try:
            self.check("cuCtxSetCurrent", context)
            self.check("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
            yield address.value
        finally:
            if address.value:
                self.call("cuMemFree_v2", address)
            self.call("cuDevicePrimaryCtxRelease_v2", device)


def open_driver() -> tuple[Driver | None, str]:
    """Returns (Driver or None, reason)."""
    try:
        return Driver(), ""
    except Unavailable as reason:
        return None, str(reason)


def visible_count() -> int:
    """Returns the number of CUDA devices visible to this process; 0 without a driver."""
    driver, _ = open_driver()
    try:
        return driver.count() if driver else 0
    except Unavailable:
        return 0
