# SPDX-License-Identifier: BSD-3-Clause
# The host: processor, memory, limits, containers.
from __future__ import annotations

import datetime
import os
import platform
import resource
import socket

from weft_mpi.machine import cuda, files, nvml


def processor() -> str:
    for line in (files.read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def cores() -> int:
    """Returns the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def load() -> float | None:
    """Returns the load of the last minute; None if unknown."""
    text = (files.read("/proc/loadavg") or "").split()
    return float(text[0]) if text else None


def busy() -> str:
    """Returns a warning if other programs use as many cores as the machine has; "" otherwise."""
    found, count = load(), os.cpu_count() or 1
    if found is None or found < count:
        return ""
    return f"the machine is busy (load {found:.1f}, {count} cores): figures are not those of an idle machine"


def memory_bytes() -> int | None:
    for line in (files.read("/proc/meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def hugepages() -> dict[int, int]:
    """Returns {page size in KiB: number reserved}."""
    folder = "/sys/kernel/mm/hugepages"
    sizes = {}
    for name in files.entries(folder):
        sizes[int(name[len("hugepages-") : -len("kB")])] = files.number(f"{folder}/{name}/nr_hugepages") or 0
    return sizes


def transparent_hugepages() -> str | None:
    """Returns "always", "madvise" or "never"; None if unsupported."""
    text = files.read("/sys/kernel/mm/transparent_hugepage/enabled") or ""
    return text.partition("[")[2].partition("]")[0] or None


def governors() -> set[str]:
    """Returns the frequency governors in use; empty if the hypervisor controls the frequency."""
    found = set()
    for name in files.entries("/sys/devices/system/cpu"):
        text = files.read(f"/sys/devices/system/cpu/{name}/cpufreq/scaling_governor")
        if text:
            found.add(text)
    return found


def memlock_bytes() -> int | None:
    """Returns the limit of locked memory; None if unlimited."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def shm_bytes() -> tuple[int, int] | None:
    """Returns (size, free) of /dev/shm in bytes; None if not mounted."""
    try:
        about = os.statvfs(files.path("/dev/shm"))
    except OSError:
        return None
    return about.f_blocks * about.f_frsize, about.f_bavail * about.f_frsize


def shm_is_writable() -> bool:
    """Returns whether this user may create files in /dev/shm."""
    return os.access(files.path("/dev/shm"), os.W_OK | os.X_OK)


def container() -> str | None:
    """Returns the kind of container of this process; None if none is detected."""
    if files.exists("/.dockerenv"):
        return "docker"
    if files.exists("/run/.containerenv"):
        return "podman"
    for variable, kind in (("APPTAINER_NAME", "apptainer"), ("SINGULARITY_NAME", "singularity")):
        if os.environ.get(variable):
            return kind
    return None


def describe() -> dict[str, object]:
    """Returns the description of the machine for result files."""
    driver, _ = cuda.open_driver()
    manager, _ = nvml.open_nvml()
    devices, links, each = [], 0, 0
    if driver:
        try:
            devices = driver.devices()
        except cuda.Unavailable:
            devices = []
    if devices and manager and (handle := manager.device(str(devices[0]["pci"]))):
        links, _, each = manager.links(handle)
    return {
        "host": socket.gethostname(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%MZ"),
        "processor": processor(),
        "cores": cores(),
        "load": load(),
        "memory_bytes": memory_bytes(),
        "kernel": platform.release(),
        "gpus": [device["name"] for device in devices],
        "nvlink_gb_s": links * each or None,
        "cuda": driver.version if driver else None,
        "driver": manager.driver_version() if manager else None,
    }
