# SPDX-License-Identifier: BSD-3-Clause
# Reads the output of gpu_of_rank.c, and the GPUs that mpiexec reports for ranks.
import glob
import re
from typing import NamedTuple

NAME = r"(GPU-[0-9a-f-]{36}) at ([0-9A-Fa-f:.]+)"


def has_gpus():
    """Returns whether this machine has GPUs of NVIDIA, which mpiexec finds beside emulated ones."""
    vendors = [open(name, encoding="ascii").read().strip() for name in glob.glob("/sys/bus/pci/devices/*/vendor")]
    return "0x10de" in vendors


class Used(NamedTuple):
    """The GPU of a rank: number of the device and of devices in the rank, UUID and PCI address."""

    device: int
    count: int
    uuid: str
    pci: str


def used_by_rank(output):
    """Returns the Used of each rank in rank order; None for a rank without a GPU."""
    found = {}
    for rank, device, count, name in re.findall(r"^rank (\d+): device (-?\d+) of (\d+), (.*)$", output, re.MULTILINE):
        named = re.fullmatch(NAME, name)
        found[int(rank)] = Used(int(device), int(count), named[1], named[2].lower()) if named else None
    return [found[rank] for rank in sorted(found)]


def listed(output):
    """Returns (UUID, PCI address) of each device, as the argument `list` prints them."""
    return [(uuid, pci.lower()) for uuid, pci in re.findall(rf"^device \d+: {NAME}$", output, re.MULTILINE)]


def reported_by_rank(errors):
    """Returns the GPUs of each rank in the order in which it sees them, as entries of mpiexec's CUDA_VISIBLE_DEVICES, from
    the lines of --report-bindings."""
    found = {}
    for rank, line in re.findall(r"^mpiexec: rank (\d+): (.*)$", errors, re.MULTILINE):
        found[int(rank)] = re.findall(r"(?<!\d )\bGPU ([^\s,]+)", line)
    return [found[rank] for rank in sorted(found)]
