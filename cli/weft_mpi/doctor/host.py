# SPDX-License-Identifier: BSD-3-Clause
# Host checks: limits, kernel settings, and test messages between two processes.
import json
import os

from weft_mpi import children, conflicts, library, output, prefix
from weft_mpi.doctor import windows
from weft_mpi.doctor.finding import BROKEN, OK, Finding, broken, ok, slow, unchecked
from weft_mpi.machine import files, pci, system

MEBI = 1 << 20
MESSAGE_BYTES = 4 * MEBI
SECONDS = 60  # timeout of one program


def checks():
    """Yields all host findings in print order."""
    yield check_load()
    yield check_library()
    yield check_other_mpi()
    yield from check_messages()
    yield windows.check_host()
    yield check_ptrace()
    yield check_shm()
    yield check_memlock()
    yield check_hugepages()
    yield check_governor()
    yield check_iommu()
    yield check_pid_namespace()


def check_load():
    text = system.busy()
    if text:
        return slow("load", text, "repeat the checks when other programs have ended: times and rates below are too bad")
    return ok("load", f"{system.load() or 0:.2f} on {os.cpu_count() or 1} cores")


def check_library():
    try:
        loaded = library.load()
        found = library.settings(loaded)
    except output.Refusal as problem:
        return broken("library", str(problem), "correct the setting, or reinstall Weft")
    changed = [setting["variable"] for setting in found if setting["origin"] != "default"]
    return ok("library", library.version_text(loaded) + (f"; set here: {', '.join(changed)}" if changed else ""))


def check_other_mpi():
    """Reports other packages of MPI in the environment, which have files of the same names, and on the PATH."""
    found = conflicts.find()
    if not found:
        return ok("other MPI", "none in this Python environment, none first on the PATH")
    status = BROKEN if any(conflict.broken for conflict in found) else OK
    remedies = dict.fromkeys(conflict.remedy for conflict in found)
    return Finding("other MPI", status, "; ".join(conflict.text for conflict in found), "; ".join(remedies))


def run_pairs(memory, ranks, size, seconds=SECONDS):
    """Returns (outcome of the program `pairs`, its output lines, slow paths reported by the library)."""
    words = [prefix.mpiexec(), "-n", str(ranks), prefix.program("bench/pairs"), memory, str(size)]
    outcome = children.run(words, seconds, children.clean_environment(WEFT_LOG="warn"))
    lines = [json.loads(line) for line in outcome.out.splitlines() if line.startswith("{") and line.endswith("}")]
    return outcome, lines, outcome.slow_paths()


def check_messages():
    """Exchanges messages in host memory between two processes of this host, started by Weft's mpiexec."""
    outcome, lines, slow_path_lines = run_pairs("host", 2, MESSAGE_BYTES)
    pairs = [line for line in lines if "from" in line]
    wrong = [pair["error"] for pair in pairs if pair["error"]]
    if not outcome.good or wrong or not pairs:
        reason = wrong[0] if wrong else outcome.reason()
        yield broken("mpiexec and messages", reason, "run `mpiexec -n 2 true` for its error message")
        yield unchecked("single copy", "no message arrived")
        return
    latency = min(pair["latency_us"] for pair in pairs)
    rate = max(pair["message_gb_s"] for pair in pairs)
    figures = f"2 ranks: {latency:.2f} us for 8 bytes, {rate:.1f} GB/s for 4 MiB"
    yield ok("mpiexec and messages", figures)
    names = ("p2p.no_single_copy", "p2p.single_copy_failed")
    copied_twice = [line for line in slow_path_lines if any(name in line for name in names)]
    if copied_twice:
        yield slow("single copy", copied_twice[0], "let processes read each other's memory: ptrace_scope 0 or 1; "
                   "in a container --cap-add SYS_PTRACE, and one PID namespace for all ranks")  # fmt: skip
    else:
        yield ok("single copy", "process_vm_readv between two ranks: 4 MiB transferred and compared")


def check_ptrace():
    scope = files.number("/proc/sys/kernel/yama/ptrace_scope")
    if scope is None:
        return ok("ptrace scope", "the kernel has no Yama: processes of one user may read each other's memory")
    text = f"kernel.yama.ptrace_scope = {scope}"
    if scope >= 2:
        return slow("ptrace scope", f"{text}: large host messages are copied twice",
                    "as root: sysctl kernel.yama.ptrace_scope=1")  # fmt: skip
    return ok("ptrace scope", text)


def check_shm():
    sizes = system.shm_bytes()
    if sizes is None:
        return ok("/dev/shm", "not mounted; Weft does not use it")
    text = f"{sizes[0] // MEBI} MiB, {sizes[1] // MEBI} free; Weft does not use it (memfd)"
    if not system.shm_is_writable():
        return slow("/dev/shm", f"{text}, but this user cannot create files there, as UCX, NCCL and PyTorch do",
                    "as root: chmod 1777 /dev/shm; in a container: --ipc=host, or mount a tmpfs there")  # fmt: skip
    if sizes[1] < 64 * MEBI:
        return slow("/dev/shm", f"{text}, but NCCL and PyTorch data loaders do",
                    "remove stale files in /dev/shm; in a container: --shm-size=1g or --ipc=host")  # fmt: skip
    return ok("/dev/shm", text)


def check_memlock():
    limit = system.memlock_bytes()
    text = "unlimited" if limit is None else f"{limit // 1024} KiB"
    if limit is None or limit >= 1 << 30:
        return ok("locked memory", text)
    if not pci.nics():
        return ok("locked memory", f"{text}; only network adapters need more, and none is present")
    return broken("locked memory", f"{text}: a network adapter cannot register buffers",
                  "`* - memlock unlimited` in /etc/security/limits.conf; for Slurm LimitMEMLOCK=infinity in "
                  "slurmd's unit; in a container --ulimit memlock=-1")  # fmt: skip


def check_hugepages():
    reserved = {size: count for size, count in system.hugepages().items() if count}
    transparent = system.transparent_hugepages()
    text = "transparent: %s" % (transparent or "unsupported by this kernel")
    text += "".join(f"; {count} of {size} KiB reserved" for size, count in sorted(reserved.items()))
    if transparent == "never" and not reserved:
        return slow("huge pages", f"{text}: large host buffers cost more TLB misses",
                    "as root: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")  # fmt: skip
    return ok("huge pages", text)


def check_governor():
    found = system.governors()
    if not found:
        return unchecked("CPU governor", "the kernel reports none (virtual machine, or controlled by firmware)")
    text = ", ".join(sorted(found))
    if found & {"powersave", "conservative"} and not files.exists("/sys/devices/system/cpu/intel_pstate"):
        return slow("CPU governor", text, "as root: cpupower frequency-set -g performance")
    return ok("CPU governor", text)


def check_iommu():
    state, groups = pci.iommu()
    redirecting, hidden = [], 0
    gpus = pci.gpus()
    for bridge in sorted({bridge for gpu in gpus for bridge in pci.bridges(gpu)}):
        redirects = pci.acs(bridge)
        hidden += redirects is None
        if redirects:
            redirecting.append(bridge)
    text = f"IOMMU: {state}{(f' ({groups} groups)' if groups else '')}"
    if redirecting:
        return slow("IOMMU and ACS", f"{text}; ACS redirects peer traffic at {', '.join(redirecting)}",
                    "disable ACS on these bridges (setpci), or add pci=disable_acs_redir=... to the kernel command "
                    "line; in a virtual machine ask the host's administrator")  # fmt: skip
    if not gpus:
        return unchecked("IOMMU and ACS", f"{text}; no GPU, hence no PCIe bridge to check")
    if state == "translating":
        return slow("IOMMU and ACS", f"{text}: peer traffic over PCIe may cross the CPU",
                    "iommu=pt on the kernel command line, unless virtual machines need translation")  # fmt: skip
    if hidden:
        return unchecked("IOMMU and ACS", f"{text}; the kernel reports ACS only to root", "run `weft doctor` as root")
    return ok("IOMMU and ACS", f"{text}; no bridge above a GPU redirects peer traffic")


def check_pid_namespace():
    """Reports the PID namespace. Ranks in different PID namespaces can use neither CUDA IPC nor process_vm_readv;
    cluster.agreement() compares the ranks of a node."""
    name = files.link("/proc/self/ns/pid")
    kind = system.container()
    where = f"in a {kind} container" if kind else "not in a container"
    return ok("PID namespace", f"{where}; processes of this mpiexec share {name or 'it'}")
