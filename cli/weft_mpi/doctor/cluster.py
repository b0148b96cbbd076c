# SPDX-License-Identifier: BSD-3-Clause
# Checks on all nodes of a job: under mpiexec or srun one rank per node runs the checks and rank 0 merges the tables.
# The findings are sent with MPI; MPI_Init must therefore work in the job.
import collections
import ctypes
import json
import os
import socket

from weft_mpi import library
from weft_mpi.doctor.finding import ORDER, Finding, broken, ok
from weft_mpi.machine import files, rank_gpus

SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
TAG = 1
MPI_BYTE, MPI_COMM_WORLD, MPI_STATUS_IGNORE = 0x207, 0x101, 0  # handles of the standard ABI


def started_by_launcher():
    """Returns True if this process belongs to a job with several processes."""
    return any(name in os.environ for name in RANK_VARIABLES) and any(
        os.environ.get(name, "1") not in ("", "1") for name in SIZE_VARIABLES
    )


class Job:
    """MPI in this process, called through ctypes. Raises OSError if MPI_Init fails."""

    def __init__(self):
        self.library = library.load()
        message = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
        self.library.MPI_Send.argtypes = message
        self.library.MPI_Recv.argtypes = [*message, ctypes.c_void_p]
        for name in ("MPI_Comm_rank", "MPI_Comm_size"):
            getattr(self.library, name).argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
        status = self.library.MPI_Init(None, None)
        if status != 0:
            raise OSError(f"MPI_Init fails with error {status}")
        self.rank, self.size = self._query("MPI_Comm_rank"), self._query("MPI_Comm_size")

    def _query(self, name):
        value = ctypes.c_int()
        getattr(self.library, name)(MPI_COMM_WORLD, ctypes.byref(value))
        return value.value

    def send(self, to, value):
        data = json.dumps(value).encode()
        size = (ctypes.c_int64 * 1)(len(data))
        self.library.MPI_Send(size, 8, MPI_BYTE, to, TAG, MPI_COMM_WORLD)
        self.library.MPI_Send(data, len(data), MPI_BYTE, to, TAG, MPI_COMM_WORLD)

    def receive(self, source):
        size = (ctypes.c_int64 * 1)()
        self.library.MPI_Recv(size, 8, MPI_BYTE, source, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        data = ctypes.create_string_buffer(size[0])
        self.library.MPI_Recv(data, size[0], MPI_BYTE, source, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        return json.loads(data.raw)

    def gather(self, value):
        """Returns the values of all ranks on rank 0; None on other ranks."""
        if self.rank != 0:
            self.send(0, value)
            return None
        return [value, *(self.receive(source) for source in range(1, self.size))]

    def share(self, value):
        """Returns rank 0's value on every rank."""
        if self.rank != 0:
            return self.receive(0)
        for to in range(1, self.size):
            self.send(to, value)
        return value

    def end(self):
        self.library.MPI_Finalize()


def node_of_rank():
    """Returns what identifies a rank's node, and the properties that all ranks of a node must share."""
    return {
        "node": socket.gethostname(),
        "boot": files.read("/proc/sys/kernel/random/boot_id") or "",
        "pid": files.link("/proc/self/ns/pid"),
        "ipc": files.link("/proc/self/ns/ipc"),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "gpus": rank_gpus.text(),
    }


def survey(job, local_checks):
    """Returns {node: findings} on rank 0, including inconsistencies between ranks of a node; None on other ranks.
    `local_checks()` runs on the first rank of each node."""
    places = job.share(job.gather({**node_of_rank(), "rank": job.rank}))
    mine = places[job.rank]["boot"], places[job.rank]["node"]
    first = next(at for at, other in enumerate(places) if (other["boot"], other["node"]) == mine)
    findings = [list(finding) for finding in local_checks()] if first == job.rank else None
    gathered = job.gather(findings)
    if gathered is None:
        return None
    nodes = {}
    for rank, found in enumerate(gathered):
        if found is not None:
            here = [p for p in places if (p["boot"], p["node"]) == (places[rank]["boot"], places[rank]["node"])]
            nodes[unused(places[rank]["node"], nodes)] = [Finding(*f) for f in found] + list(agreement(here))
    return nodes


def unused(name, nodes):
    return name if name not in nodes else f"{name} ({len(nodes)})"


def agreement(places):
    """Yields findings about the properties that all ranks of one node must share, and about their GPUs."""
    if len({(p["pid"], p["ipc"]) for p in places}) > 1:
        yield broken("namespaces of the ranks", f"{len(places)} ranks are in different PID or IPC namespaces",
                     "use one container for all ranks of a node, or --pid=host --ipc=host")  # fmt: skip
    else:
        yield ok("namespaces of the ranks", f"equal for {len(places)} ranks")
    choices = {p["visible"] for p in places}
    if len(choices) > 1:  # ranks map the memory of GPUs that only the variable hides
        listed = ", ".join(sorted(str(choice) for choice in choices))
        yield ok("devices of the ranks", f"CUDA_VISIBLE_DEVICES by rank: {listed}")
    else:
        yield ok("devices of the ranks", "CUDA_VISIBLE_DEVICES: %s" % (places[0]["visible"] or "not set"))
    if lines := gpus_by_rank(places):
        yield ok("GPUs of the ranks", "; ".join(lines))


def gpus_by_rank(places):
    """Returns a line for all ranks that see the same GPUs at the same distance."""
    ranks = collections.defaultdict(list)
    for place in places:
        ranks[place["gpus"]].append(str(place["rank"]))
    return [f"rank {', '.join(same)}: {text}" for text, same in ranks.items() if text]


def merge(nodes):
    """Returns rows (check, status, nodes, evidence, remedy), one per distinct status and remedy of a check. The most
    frequent status comes first; the other rows list their nodes."""
    order, cells = [], collections.defaultdict(dict)
    for node, findings in nodes.items():
        for finding in findings:
            if finding.check not in order:
                order.append(finding.check)
            cells[finding.check][node] = finding
    rows = []
    for check in order:
        groups = collections.defaultdict(list)
        for node, finding in cells[check].items():
            groups[finding.status, finding.remedy].append(node)
        ranked = sorted(groups, key=lambda key: (-len(groups[key]), ORDER.index(key[0])))
        for at, (status, remedy) in enumerate(ranked):
            named = groups[status, remedy]
            sample = cells[check][named[0]]
            usual = at == 0 and len(named) > 1
            rows.append((check if at == 0 else "", status, summary(named, len(nodes), usual), sample.evidence, remedy))
    return rows


def summary(named, total, usual):
    if len(named) == total:
        return f"all {total}" if total > 1 else named[0]
    return f"{len(named)} nodes" if usual and len(named) > 3 else ", ".join(named)
