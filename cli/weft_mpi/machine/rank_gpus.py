# SPDX-License-Identifier: BSD-3-Clause
# GPUs of this process: the visible ones with their distance from its cores, and the number of hidden ones.
from __future__ import annotations

import os

from weft_mpi.machine import cuda, files, pci

NODES = "/sys/devices/system/node"


def numbers(text: str | None) -> set[int]:
    """Returns the numbers of a list of the kernel such as 0-3,8."""
    found: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.strip().isdecimal():
            found.update(range(int(first), int(last or first) + 1))
    return found


def numa_distance(address: str, cpus: set[int]) -> int | None:
    """Returns the least distance that the firmware reports between a PCI device's NUMA node and those of the CPUs (10:
    the same node); None if unknown."""
    node = pci.numa_node(address)
    if node is None:
        return None
    nodes = sorted(int(name[4:]) for name in files.entries(NODES) if name[:4] == "node" and name[4:].isdecimal())
    distances = []
    for at, own in enumerate(nodes):
        row = (files.read(f"{NODES}/node{node}/distance") or "").split()
        if at < len(row) and numbers(files.read(f"{NODES}/node{own}/cpulist")) & cpus:
            distances.append(int(row[at]))
    return min(distances, default=None)


def uuid_text(digits: str, name: str = "") -> str:
    """Returns a UUID as nvidia-smi -L prints it. `digits`: 32 hexadecimal digits; `name`: of the device."""
    return ("MIG-" if " MIG " in name else "GPU-") + "-".join(
        (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
    )


def text() -> str | None:
    """Describes the GPUs of this process in a line; None without a driver. Calls cuInit."""
    driver, _ = cuda.open_driver()
    try:
        devices = driver.devices() if driver else None
    except cuda.Unavailable:
        return None
    if devices is None:
        return None
    parts = [describe(device) for device in devices]
    hidden = len(pci.gpus()) - len(devices)
    return "; ".join(parts or ["no GPU"]) + (f"; {hidden} hidden" if hidden > 0 else "")


def describe(device: dict[str, object]) -> str:
    details = [uuid_text(str(device["uuid"]), str(device.get("name", "")))]
    away = numa_distance(str(device["pci"]), set(os.sched_getaffinity(0)))
    if away is not None:
        details.append(f"NUMA distance {away}")
    if device.get("compute_mode") not in (None, "default", "?"):
        details.append(f"compute mode {device['compute_mode']}")
    if device.get("mps") == "on":
        details.append("MPS")
    return f"GPU {device['ordinal']}: {device['pci']} ({', '.join(details)})"
