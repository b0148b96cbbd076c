# SPDX-License-Identifier: BSD-3-Clause
# The PCI tree as the kernel shows it: how far two devices are from each other, network adapters, access control (ACS).
import re
import struct
from collections import namedtuple

from weft.machine import files

ADDRESS = re.compile(r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
# The words of `nvidia-smi topo -m`, nearest first.
DISTANCES = {
    "PIX": "one PCIe bridge between them",
    "PXB": "several PCIe bridges, no host bridge",
    "PHB": "through a PCIe host bridge",
    "NODE": "through the NUMA node's interconnect",
    "SYS": "through the link between NUMA nodes",
}
Nic = namedtuple("Nic", "name pci driver state rate link numa")


def normal(address):
    """0000:1b:00.0 of what CUDA (0000:1B:00.0) or NVML (00000000:1B:00.0) print."""
    domain, _, rest = address.lower().partition(":")
    return domain[-4:] + ":" + rest


def chain(address):
    """The components of a device's place, from the root of the tree down; empty when it is not known."""
    place = files.resolved("/sys/bus/pci/devices/" + normal(address))
    return place.strip("/").split("/")[2:] if place else []  # without sys/devices


def numa_node(address):
    """None where the firmware does not say (-1)."""
    node = files.number("/sys/bus/pci/devices/%s/numa_node" % normal(address))
    return node if node is not None and node >= 0 else None


def distance(one, other):
    """A key of DISTANCES; None when the tree does not show one of the devices."""
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


def gpus():
    """The PCI addresses of NVIDIA's GPUs, whether CUDA shows them or not."""
    found = []
    for address in files.entries("/sys/bus/pci/devices"):
        folder = "/sys/bus/pci/devices/%s/" % address
        kind = files.number(folder + "class")
        if files.number(folder + "vendor") == 0x10DE and kind is not None and kind >> 16 == 0x03:
            found.append(address)
    return found


def nics():
    """Network adapters that can do RDMA: InfiniBand, RoCE, Slingshot, EFA."""
    found = []
    for name in files.entries("/sys/class/infiniband"):
        folder = "/sys/class/infiniband/" + name
        state = (files.read(folder + "/ports/1/state") or "?").rpartition(": ")[2]
        found.append(make_nic(name, folder, state, files.read(folder + "/ports/1/rate"),
                              files.read(folder + "/ports/1/link_layer")))  # fmt: skip
    for name in files.entries("/sys/class/cxi"):
        found.append(make_nic(name, "/sys/class/cxi/" + name, "?", None, "Slingshot"))
    return found


def make_nic(name, folder, state, rate, link):
    place = files.resolved(folder + "/device")
    address = place.rsplit("/", 1)[-1] if place else ""
    pci = address if ADDRESS.match(address) else None
    driver = files.resolved(folder + "/device/driver")
    return Nic(name, pci, driver.rsplit("/", 1)[-1] if driver else None, state, rate, link,
               numa_node(pci) if pci else None)  # fmt: skip


def bridges(address):
    """The bridges above a device, from the root down."""
    return [part for part in chain(address)[:-1] if ADDRESS.match(part)]


def acs(address):
    """Whether a bridge sends peer-to-peer traffic up to the root (ACS redirection): True, False, or None when the
    kernel does not show it (that takes root)."""
    space = files.read_bytes("/sys/bus/pci/devices/%s/config" % address)
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


def iommu():
    """("none", "passthrough" or "translating", number of groups)."""
    groups = files.entries("/sys/kernel/iommu_groups")
    if not groups:
        return "none", 0
    kinds = {files.read("/sys/kernel/iommu_groups/%s/type" % group) for group in groups}
    return ("passthrough" if kinds <= {"identity", None} and kinds != {None} else "translating"), len(groups)
