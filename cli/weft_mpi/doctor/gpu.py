# SPDX-License-Identifier: BSD-3-Clause
# GPU checks: driver, device visibility, health, and memory mapping and copies between all pairs.
import os

from weft_mpi.doctor import host, windows
from weft_mpi.doctor.finding import broken, ok, slow, unchecked
from weft_mpi.machine import cuda, descriptors, files, nvml, pci

PAIR_BYTES = 64 << 20
LINK_SHARE = 0.6  # fraction of NVLink's raw rate that a copy should reach
PCIE_GB_S = {3: 0.985, 4: 1.97, 5: 3.94, 6: 7.56}  # GB/s per lane and direction
PCIE_SHARE = 0.5
NO_GPU = "the kernel reports no NVIDIA GPU"
ALL_CHECKS = ("visible GPUs", "MIG and compute mode", "ECC", "clocks", "PCIe links", "peer access", "CUDA IPC",
              "messages between GPUs", "windows on GPUs", "cuMemMap memory")  # fmt: skip


def checks():
    driver, finding = check_driver()
    yield finding
    devices = visible(driver)
    if not devices:
        for name in ALL_CHECKS:
            yield unchecked(name, "no GPU is usable here")
        return
    manager, why = nvml.open_nvml()
    handles = {device["ordinal"]: manager.device(device["pci"]) for device in devices} if manager else {}
    yield check_visible(devices)
    yield check_mode(manager, handles, why, {device["mps"] for device in devices})
    yield check_ecc(manager, handles, why)
    yield check_clocks(manager, handles, why)
    yield check_pcie(manager, handles, why)
    yield check_peer_access(driver, devices)
    yield from check_pairs(devices, manager, handles)
    yield windows.check_gpu()
    yield check_descriptors()


def check_driver():
    """Returns (driver or None, finding)."""
    gpus, emulated = pci.gpus(), bool(os.environ.get("WEFT_CUDA_DRIVER"))
    if not gpus and not emulated and not files.exists("/dev/nvidiactl"):
        return None, unchecked("driver and device files", NO_GPU)
    missing = [name for name in ("/dev/nvidiactl", "/dev/nvidia-uvm") if not files.usable(name)]
    if missing and not emulated:
        return None, broken("driver and device files", f"{' and '.join(missing)} cannot be opened",
                            "load the driver (run `nvidia-smi` and `nvidia-modprobe -u` as root); start a container "
                            "with --gpus all (docker), --device nvidia.com/gpu=all (podman), --nv "
                            "(apptainer)")  # fmt: skip
    driver, why = cuda.open_driver()
    if not driver:
        return None, broken("driver and device files", why, "install NVIDIA's driver library libcuda.so.1 in the "
                            "version of the kernel module; containers get it from the host (--gpus all, --nv); "
                            "after an update without a reboot, reload the module")  # fmt: skip
    text = f"{driver.name}, CUDA {driver.version}"
    if [int(part) for part in driver.version.split(".")] < [11, 3]:
        return driver, broken("driver and device files", text, "install a driver for CUDA 11.3 or newer")
    return driver, ok("driver and device files", text)


def visible(driver):
    try:
        return driver.devices() if driver else []
    except cuda.Unavailable:
        return []


def check_visible(devices):
    """Checks CUDA_VISIBLE_DEVICES, and Slurm's binding of one GPU per task. Its cgroup cuts the peers' devices off."""
    present, choice = len(pci.gpus()), os.environ.get("CUDA_VISIBLE_DEVICES")
    text = f"{len(devices)} of {present or len(devices)}: {devices[0]['name']}"
    if choice is not None:
        text += f"; CUDA_VISIBLE_DEVICES={choice}"
    binding = [name for name in ("SLURM_GPUS_PER_TASK", "SLURM_GPU_BIND") if os.environ.get(name)]
    tasks = os.environ.get("SLURM_NTASKS_PER_NODE") or os.environ.get("SLURM_NTASKS") or "1"
    cut_off = pci.cut_off_gpus()
    if cut_off and binding and tasks != "1":
        setting = f"{binding[0]}={os.environ[binding[0]]}"
        text += (f"; {setting}: {', '.join(cut_off)} cannot be opened (cgroup or container): messages to these GPUs "
                 "are staged through host memory")  # fmt: skip
        return slow("visible GPUs", text, "srun --gres-flags=allow-task-sharing, or --gpu-bind=none and a choice of the "
                    "device by SLURM_LOCALID or LOCAL_RANK")  # fmt: skip
    if len(devices) + len(cut_off) < present:
        text += "; ranks map the memory of hidden GPUs"
    return ok("visible GPUs", text)


def check_mode(manager, handles, why, mps=()):
    """`mps`: of all visible GPUs, "on", "off" or "?"."""
    if not manager:
        return unchecked("MIG and compute mode", why)
    mig = [str(ordinal) for ordinal, device in handles.items() if device and manager.mig(device)]
    modes = {manager.compute_mode(device) for device in handles.values() if device} - {None}
    if "prohibited" in modes:
        return broken("MIG and compute mode", "compute mode: prohibited", "as root: nvidia-smi -c DEFAULT")
    if mig:
        return slow("MIG and compute mode", f"MIG on GPU {', '.join(mig)}: instances cannot map each other's memory; "
                    "messages are staged through host memory",
                    "as root, if MIG is not needed: nvidia-smi -mig 0")  # fmt: skip
    if "exclusive process" in modes and "on" not in mps:
        return slow("MIG and compute mode", "compute mode: exclusive process; two ranks cannot share a GPU without MPS",
                    "as root: nvidia-smi -c DEFAULT, or mpiexec --mps on")  # fmt: skip
    text = "no MIG; compute mode: %s" % (", ".join(sorted(modes)) or "unknown")
    return ok("MIG and compute mode", text + (f"; MPS: {', '.join(sorted(mps))}" if mps else ""))


def check_ecc(manager, handles, why):
    if not manager:
        return unchecked("ECC", why)
    errors = {o: manager.uncorrected_errors(device) for o, device in handles.items() if device}
    bad = {ordinal: count for ordinal, count in errors.items() if count}
    if bad:
        listed = ", ".join(f"GPU {ordinal}: {count}" for ordinal, count in bad.items())
        return broken("ECC", f"uncorrected memory errors since the driver was loaded: {listed}",
                      "drain the node; nvidia-smi -q -d ECC,ROW_REMAPPER; reset or replace the GPU")  # fmt: skip
    if not errors or set(errors.values()) == {None}:
        return unchecked("ECC", "the GPUs count no errors (ECC is disabled or unsupported)")
    return ok("ECC", f"no uncorrected error on {len(errors)} GPUs")


def check_clocks(manager, handles, why):
    if not manager:
        return unchecked("clocks", why)
    slowed = {o: manager.slowdowns(device) for o, device in handles.items() if device and manager.slowdowns(device)}
    hottest = max((manager.temperature(device) or 0 for device in handles.values() if device), default=0)
    if slowed:
        listed = "; ".join(f"GPU {ordinal}: {', '.join(reasons)}" for ordinal, reasons in slowed.items())
        return slow("clocks", f"{listed}; hottest {hottest} C",
                    "check cooling and power: nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE")  # fmt: skip
    return ok("clocks", f"no throttling; hottest {hottest} C")


def check_pcie(manager, handles, why):
    if not manager:
        return unchecked("PCIe links", why)
    narrow, links = [], set()
    for ordinal, device in handles.items():
        _, width, generation, most = manager.pcie(device) if device else (None,) * 4
        if width and most:  # an idle GPU lowers the generation, but not the width
            links.add(f"gen {generation} x{width}")
            if width < most:
                narrow.append(f"GPU {ordinal}: x{width} of x{most}")
    if narrow:
        return slow("PCIe links", ", ".join(narrow), "reseat the GPU, or check its slot and riser")
    return ok("PCIe links", ", ".join(sorted(links))) if links else unchecked("PCIe links", "NVML reports none")


def check_peer_access(driver, devices):
    if len(devices) < 2:
        return unchecked("peer access", "only one GPU is visible")
    numbers = [device["ordinal"] for device in devices]
    refused = [f"{a}-{b}" for a in numbers for b in numbers if a < b and not driver.peer_access(a, b)]
    if refused:
        return slow("peer access", f"the driver denies it between GPUs {', '.join(refused)}: "
                    "copies are staged through host memory",
                    "attach both GPUs to one PCIe root; disable ACS and IOMMU translation; GeForce drivers "
                    "have no peer access")  # fmt: skip
    return ok("peer access", f"between all {len(devices)} GPUs")


def expected_gb_s(manager, handles, a, b):
    """Returns (GB/s that a copy between two devices should reach, description of the link); (None, "") if unknown."""
    one, other = handles.get(a), handles.get(b)
    if not manager or not one or not other or a == b:
        return None, ""
    active, _, each = manager.links(one)
    if active and manager.nvlink_between(one, other):
        return LINK_SHARE * active * each, f"{active} NVLinks of {each} GB/s"
    _, width, generation, _ = manager.pcie(one)
    if width and generation in PCIE_GB_S:
        return PCIE_SHARE * width * PCIE_GB_S[generation], f"PCIe gen {generation} x{width}"
    return None, ""


def check_pairs(devices, manager, handles):
    """Maps, copies, compares and times memory between all pairs of GPUs; a single GPU gets two ranks."""
    ranks = max(2, len(devices))
    outcome, lines, slow_paths = host.run_pairs("cuda", ranks, PAIR_BYTES, seconds=60 + 5 * ranks)
    device_of = lines[0]["ranks"] if lines and "ranks" in lines[0] else []
    pairs = [line for line in lines if "from" in line]
    if not outcome.good or not pairs:
        command = f"mpiexec -n 2 {host.prefix.program('bench/pairs')} cuda 1048576"
        yield broken("CUDA IPC", outcome.reason(), f"run `{command}` for its error message")
        yield unchecked("messages between GPUs", "the program of the check above failed")
        return
    yield evaluate_mappings(pairs, device_of, manager, handles)
    yield evaluate_messages(pairs, slow_paths)


def evaluate_mappings(pairs, device_of, manager, handles):
    failed = [pair for pair in pairs if pair["error"]]
    if failed:
        first = failed[0]
        one, other = device_of[first["from"]], device_of[first["to"]]
        return broken("CUDA IPC",
            f"{len(failed)} of {len(pairs)} pairs fail; GPU {one} to GPU {other}: {first['error']}",
            "run all ranks of a host in one PID and IPC namespace (--pid=host --ipc=host, or one container for all "
            "ranks)")  # fmt: skip
    too_slow, link = [], ""
    for pair in pairs:
        a, b = device_of[pair["from"]], device_of[pair["to"]]
        min_gb_s, link = expected_gb_s(manager, handles, a, b)
        if min_gb_s and pair["ipc_gb_s"] < min_gb_s:
            too_slow.append(f"GPU {a} to GPU {b}: {pair['ipc_gb_s']:.0f} GB/s ({link})")
    if too_slow:
        more = f" and {len(too_slow) - 4} more" if len(too_slow) > 4 else ""
        return slow("CUDA IPC", "; ".join(too_slow[:4]) + more,
                    "check nvidia-smi topo -m and nvidia-smi nvlink -s: a link may be down, or the path crosses the "
                    "CPU; check that no other job uses these GPUs")  # fmt: skip
    rates = [pair["ipc_gb_s"] for pair in pairs]
    text = f"{len(pairs)} pairs: 64 MiB mapped, copied and compared; {min(rates):.1f} to {max(rates):.1f} GB/s"
    return ok("CUDA IPC", text + (f" ({link})" if link else ""))


def evaluate_messages(pairs, slow_paths):
    rates = [pair["message_gb_s"] for pair in pairs]
    times = [pair["latency_us"] for pair in pairs]
    text = f"8 bytes in {min(times):.1f} to {max(times):.1f} us, 64 MiB at {min(rates):.1f} to {max(rates):.1f} GB/s"
    if slow_paths:
        return slow("messages between GPUs", f"{text}; {slow_paths[0]}",
                    "the cause is in parentheses; `weft explain send --kind cuda` prints the paths")  # fmt: skip
    return ok("messages between GPUs", text)


def check_descriptors():
    """cuMemMap memory (PyTorch's expandable segments, NCCL's buffers) has no IPC handle; ranks share descriptors."""
    not_taken = descriptors.why_not_taken()
    if not not_taken:
        return ok("cuMemMap memory", "ranks duplicate each other's descriptors (pidfd_getfd)")
    not_sent = descriptors.why_not_sent()
    if not not_sent:
        return ok("cuMemMap memory", f"ranks send each other descriptors through a socket ({not_taken})")
    return slow("cuMemMap memory", f"ranks cannot pass descriptors ({not_taken}; socket: {not_sent}): "
                "messages from this memory are packed",
                "in a container allow pidfd_getfd (--cap-add SYS_PTRACE), and one PID and one network namespace "
                "for all ranks")  # fmt: skip
