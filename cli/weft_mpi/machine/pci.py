# SPDX-License-Identifier: BSD-3-Clause
# The PCI tree from sysfs: distances between devices, network adapters, access control services (ACS).
from __future__ import annotations

import re
import struct
from typing import NamedTuple

from weft_mpi.machine import files

ADDRESS = re.compile(r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
# Notation of `nvidia-smi topo -m`, nearest first.
DISTANCES = {
    "PIX": "one PCIe bridge between them",
    "PXB": "several PCIe bridges, no host bridge",
    "PHB": "through a PCIe host bridge",
    "NODE": "through the NUMA node's interconnect",
    "SYS": "through the link between NUMA nodes",
}


class Nic(NamedTuple):
    name: str
    pci: str | None
    driver: str | None
    state: str
    rate: str | None
    link: str | None
    numa: int | None


def normal(address: str) -> str:
    """Normalizes an address of CUDA (0000:1B:00.0) or NVML (00000000:1B:00.0) to 0000:1b:00.0."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def chain(address: str) -> list[str]:
    """Returns the path components of a device from the root complex down; empty if unknown."""
    path = files.resolved(f"/sys/bus/pci/devices/{normal(address)}")
    return path.strip("/").split("/")[2:] if path else []  # without sys/devices


def numa_node(address: str) -> int | None:
    """Returns the NUMA node of a device; None if the firmware does not report it (-1)."""
    node = files.number(f"/sys/bus/pci/devices/{normal(address)}/numa_node")
    return node if node is not None and node >= 0 else None


def distance(one: str, other: str) -> str | None:
    """Returns a key of DISTANCES; None if one of the devices is unknown."""
    a, b = chain(one), chain(other)
    if not a or not b:
        return None
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    if shared == 0:
        return "NODE" if numa_node(one) is not None and numa_node(one) == numa_node(other) else "SYS"
    if shared == 1:  # pci0000:00 alone
        return "PHB"
    return "PIX" if max(len(a), len(b)) - shared <= 2 else "PXB"


def gpus() -> list[str]:
    """Returns the PCI addresses of NVIDIA GPUs, including GPUs invisible to CUDA."""
    found = []
    for address in files.entries("/sys/bus/pci/devices"):
        folder = f"/sys/bus/pci/devices/{address}/"
        kind = files.number(f"{folder}class")
        if files.number(f"{folder}vendor") == 0x10DE and kind is not None and kind >> 16 == 0x03:
            found.append(address)
    return found


def cut_off_gpus() -> list[str]:
    """Returns the device files of NVIDIA GPUs that a cgroup or the container keeps from this process."""
    cut_off = []
    for address in files.entries("/proc/driver/nvidia/gpus"):
        text = files.read(f"/proc/driver/nvidia/gpus/{address}/information") or ""
        minor = re.search(r"^Device Minor:\s*(\d+)", text, re.MULTILINE)
        if minor and not files.openable(f"/dev/nvidia{minor[1]}"):
            cut_off.append(f"/dev/nvidia{minor[1]}")
    return cut_off


def nics() -> list[Nic]:
    """Returns the RDMA network adapters: InfiniBand, RoCE, Slingshot, EFA."""
    found = []
    for name in files.entries("/sys/class/infiniband"):
        folder = f"/sys/class/infiniband/{name}"
        state = (files.read(f"{folder}/ports/1/state") or "?").rpartition(": ")[2]
        found.append(make_nic(name, folder, state, files.read(f"{folder}/ports/1/rate"),
                              files.read(f"{folder}/ports/1/link_layer")))  # fmt: skip
    for name in files.entries("/sys/class/cxi"):
        found.append(make_nic(name, f"/sys/class/cxi/{name}", "?", None, "Slingshot"))
    return found


def make_nic(name: str, folder: str, state: str, rate: str | None, link: str | None) -> Nic:
    path = files.resolved(f"{folder}/device")
    address = path.rsplit("/", 1)[-1] if path else ""
    pci = address if ADDRESS.match(address) else None
    driver = files.resolved(f"{folder}/device/driver")
    return Nic(name, pci, driver.rsplit("/", 1)[-1] if driver else None, state, rate, link,
               numa_node(pci) if pci else None)  # fmt: skip


def bridges(address: str) -> list[str]:
    """Returns the bridges above a device, from the root down."""
    return [part for part in chain(address)[:-1] if ADDRESS.match(part)]


def acs(address: str) -> bool | None:
    """Returns True if a bridge redirects peer-to-peer traffic to the root complex (ACS), None if the kernel does not
    report it, which needs root."""
    space = files.read_bytes(f"/sys/bus/pci/devices/{address}/config")
    at = 0x100
    if len(space) < 0x104:
        return None
    while 0x100 <= at <= len(space) - 8:
        (head,) = struct.unpack_from("<I", space, at)
        if head & 0xFFFF == 0x000D:  # PCI Express Base Specification, 7.7.8: control at +6; bits 2, 3: redirect
            (control,) = struct.unpack_from("<H", space, at + 6)
            return bool(control & 0x000C)
        at = head >> 20
    return False


def iommu() -> tuple[str, int]:
    """Returns ("none", "passthrough" or "translating", number of groups)."""
    groups = files.entries("/sys/kernel/iommu_groups")
    if not groups:
        return "none", 0
    kinds = {files.read(f"/sys/kernel/iommu_groups/{group}/type") for group in groups}
    return ("passthrough" if kinds <= {"identity", None} and kinds != {None} else "translating"), len(groups)
