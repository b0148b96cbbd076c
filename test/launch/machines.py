#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Prints what a recorded /sys says about processors, for machines.txt. usage: machines.py NAME TREE; hwloc's source has
# such trees of real machines in tests/hwloc/linux.
import glob
import os
import re
import sys


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().split("\0")[0].strip()
    except OSError:
        return None


def ranges(cpus):
    """A set of numbers as sysfs writes it: 0-3,8."""
    parts, begin, last = [], None, None
    for cpu in sorted(cpus):
        if last is None or cpu != last + 1:
            begin = cpu
            parts.append([begin, cpu])
        parts[-1][1] = last = cpu
    return ",".join(str(a) if a == b else "%d-%d" % (a, b) for a, b in parts)


def from_mask(text):
    mask = int(text.replace(",", ""), 16)
    return ranges(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def grouped(values):
    groups = {}
    for cpu, value in values.items():
        groups.setdefault(value, []).append(cpu)
    return " ".join(f"{value}={ranges(cpus)}" for value, cpus in groups.items())


def main():
    name, tree = sys.argv[1:]
    system = tree + "/sys/devices/system"
    cpus = sorted(int(re.search(r"\d+$", path).group()) for path in glob.glob(system + "/cpu/cpu[0-9]*"))
    fields = {"package": {}, "core": {}, "l3": {}, "threads": {}}
    for cpu in cpus:
        folder = "%s/cpu/cpu%d/" % (system, cpu)
        if read(folder + "topology/core_id") is None:  # offline
            continue
        fields["package"][cpu] = read(folder + "topology/physical_package_id")
        fields["core"][cpu] = read(folder + "topology/core_id")
        fields["threads"][cpu] = from_mask(read(folder + "topology/thread_siblings"))
        for index in sorted(glob.glob(folder + "cache/index*")):
            if read(index + "/level") == "3":
                fields["l3"][cpu] = from_mask(read(index + "/shared_cpu_map"))
    print("machine", name)
    for field in ("package", "core", "l3"):
        if fields[field]:
            print(field, grouped(fields[field]))
    print("threads", *sorted(set(fields["threads"].values()), key=lambda text: int(re.match(r"\d+", text).group())))
    nodes = glob.glob(system + "/node/node[0-9]*")
    for node in sorted(nodes, key=lambda path: int(re.search(r"\d+$", path).group())):
        text = read(node + "/cpulist")
        cpus = text if text is not None else from_mask(read(node + "/cpumap") or "0")
        if cpus:
            print("node", os.path.basename(node)[4:], cpus)


if __name__ == "__main__":
    main()
