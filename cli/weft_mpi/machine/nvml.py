# SPDX-License-Identifier: BSD-3-Clause
# NVML, NVIDIA's management library: NVLink, throttling, ECC and MIG, which CUDA does not report. Always optional.
from __future__ import annotations

import ctypes

LIBRARY = "libnvidia-ml.so.1"
MAX_LINKS = 18
# GB/s per link and direction, by the value of nvmlDeviceGetNvLinkVersion: 1 to 7 are NVLink 1.0, 2.0, 2.2, 3.0, 3.1,
# 4.0, 5.0 (nvml.h, NVML_NVLINK_VERSION_*).
LINK_GB_S = {1: 20, 2: 25, 3: 25, 4: 25, 5: 25, 6: 25, 7: 50}
COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}
# Bits of nvmlClocksEventReasons (nvml.h) that reduce performance.
SLOWDOWNS = {
    0x08: "hardware slowdown", 0x20: "software thermal slowdown", 0x40: "hardware thermal slowdown",
    0x80: "hardware power brake", 0x04: "power cap",
}  # fmt: skip
ANCESTORS = {0: "same board", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


class Nvml:
    """NVML after nvmlInit. The constructor raises OSError with the reason."""

    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)
        status = self.library.nvmlInit_v2()
        if status != 0:
            raise OSError(f"{LIBRARY}: nvmlInit: error {status}")

    def driver_version(self) -> str | None:
        text = ctypes.create_string_buffer(80)
        return text.value.decode() if self._call("nvmlSystemGetDriverVersion", text, 80) else None

    def count(self) -> int:
        return self._number(ctypes.c_uint, "nvmlDeviceGetCount_v2") or 0

    def device(self, pci: str) -> ctypes.c_void_p | None:
        """Returns the handle of the device at a PCI address; None if unknown to NVML."""
        handle = ctypes.c_void_p()
        known = self._call("nvmlDeviceGetHandleByPciBusId_v2", pci.encode(), ctypes.byref(handle))
        return handle if known else None

    def links(self, device: ctypes.c_void_p) -> tuple[int, int, int]:
        """Returns (active links, links, GB/s per link and direction)."""
        states = [self._number(ctypes.c_uint, "nvmlDeviceGetNvLinkState", device, link) for link in range(MAX_LINKS)]
        known = [state for state in states if state is not None]
        version = self._number(ctypes.c_uint, "nvmlDeviceGetNvLinkVersion", device, 0) if known else None
        return sum(known), len(known), LINK_GB_S.get(version or 0, 25)

    def nvlink_between(self, one: ctypes.c_void_p, other: ctypes.c_void_p) -> bool:
        """Returns True if two devices copy over NVLink (nvmlDeviceGetP2PStatus, NVLINK)."""
        return self._number(ctypes.c_uint, "nvmlDeviceGetP2PStatus", one, other, 2) == 0

    def ancestor(self, one: ctypes.c_void_p, other: ctypes.c_void_p) -> str | None:
        """Returns the PCIe connection of two devices in the notation of `nvidia-smi topo -m`."""
        level = self._number(ctypes.c_uint, "nvmlDeviceGetTopologyCommonAncestor", one, other)
        return ANCESTORS.get(level)

    def slowdowns(self, device: ctypes.c_void_p) -> list[str]:
        """Returns the reasons for reduced clocks."""
        reasons = self._number(ctypes.c_ulonglong, "nvmlDeviceGetCurrentClocksThrottleReasons", device) or 0
        return [name for bit, name in SLOWDOWNS.items() if reasons & bit]

    def uncorrected_errors(self, device: ctypes.c_void_p) -> int | None:
        """Returns the number of memory errors since the driver was loaded; None without ECC."""
        return self._number(ctypes.c_ulonglong, "nvmlDeviceGetTotalEccErrors", device, 1, 0)

    def mig(self, device: ctypes.c_void_p) -> bool | None:
        """Returns True if MIG is enabled; None if unsupported."""
        now, later = ctypes.c_uint(), ctypes.c_uint()
        return bool(now.value) if self._call("nvmlDeviceGetMigMode", device, ctypes.byref(now), ctypes.byref(later)) \
            else None  # fmt: skip

    def compute_mode(self, device: ctypes.c_void_p) -> str | None:
        return COMPUTE_MODES.get(self._number(ctypes.c_uint, "nvmlDeviceGetComputeMode", device))

    def temperature(self, device: ctypes.c_void_p) -> int | None:
        return self._number(ctypes.c_uint, "nvmlDeviceGetTemperature", device, 0)

    def pcie(self, device: ctypes.c_void_p) -> tuple[int | None, ...]:
        """Returns (generation, width, maximum generation, maximum width) of the PCIe link."""
        calls = ("CurrPcieLinkGeneration", "CurrPcieLinkWidth", "MaxPcieLinkGeneration", "MaxPcieLinkWidth")
        return tuple(self._number(ctypes.c_uint, f"nvmlDeviceGet{call}", device) for call in calls)

    def _call(self, name, *arguments):
        function = getattr(self.library, name, None)
        return function is not None and function(*arguments) == 0

    def _number(self, kind, name, *arguments):
        value = kind()
        return value.value if self._call(name, *arguments, ctypes.byref(value)) else None


def open_nvml() -> tuple[Nvml | None, str]:
    """Returns (Nvml or None, reason)."""
    try:
        return Nvml(), ""
    except (OSError, AttributeError) as error:
        return None, str(error)
