# SPDX-License-Identifier: BSD-3-Clause
# weft hang: what every rank of a running job on this host waits for, read from the job's shared memory from outside: no
# rank is stopped, and none does anything for it. The layout is src/transport/shm/layout.hpp's.
import ctypes
import os
import struct
import time
from collections import namedtuple

from weft import output
from weft.output import Failure, Refusal

MAGIC = 0x776566742D73686D
MAPPING = "/memfd:weft (deleted)"
HEADER = struct.Struct("<QIIIIII")  # magic, ranks, bytes of the header and of an area, offsets of pid, rank, awaited
AWAITED = struct.Struct("<IiiiQQiiQQ64s")
KINDS = {-1: "a collective", 0: "send", 1: "receive", 2: "a nonblocking collective", 3: "a generalized request",
         4: "a partitioned operation", 5: "an enqueued operation"}  # fmt: skip
STALE_NS = 500_000_000  # a wait that was not seen for so long is over
MOST_RANKS = 4096
Wait = namedtuple("Wait", "rank pid what peer tag bytes communicator seconds")


class Unreadable(Exception):
    """Memory of a process cannot be read; the text says why."""


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "hang",
        help="what every rank of a running job waits for",
        description=run.__doc__,
        epilog="example: weft hang $(pgrep -n my_program). Exit status: 0 no rank waits, 1 some do.",
    )
    parser.add_argument("pid", type=int, nargs="?", help="any process of the job on this host (default: find a job)")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    return parser


def run(arguments):
    """Shows what each rank of a job waits for: call, peer, tag, communicator, since when. The ranks of this host, of
    your own processes; they are not stopped. Waits show after 50 ms."""
    pid = arguments.pid or find_job()
    waits = read_job(pid)
    if arguments.json:
        print(output.json_text({"pid": pid, "ranks": [wait._asdict() for wait in waits]}), end="")
    else:
        show(waits)
    return 1 if any(wait.what for wait in waits) else 0


def mapping(pid):
    """Where a process has mapped its job's shared memory; None: it has not."""
    try:
        with open("/proc/%d/maps" % pid, encoding="utf-8") as file:
            for line in file:
                if line.rstrip("\n").endswith(MAPPING) and line.split()[2] == "00000000":
                    return int(line.partition("-")[0], 16)
    except OSError:
        return None
    return None


def find_job():
    """A rank of the only job of this user; Refusal when there is none or are several."""
    jobs = {}
    for name in os.listdir("/proc"):
        start = mapping(int(name)) if name.isdigit() else None
        if start is not None:
            with_pids = tuple(sorted(pid for _, pid, *_ in areas(int(name), start)))
            jobs.setdefault(with_pids, int(name))
    if not jobs:
        raise Refusal("no running job of yours on this host: give the process of a rank, `weft hang PID`")
    if len(jobs) > 1:
        raise Refusal("%d jobs run here: choose one by a process of it: %s" % (
            len(jobs), ", ".join(str(pid) for pid in sorted(jobs.values()))))  # fmt: skip
    return next(iter(jobs.values()))


def peek(pid, address, size):
    """`size` bytes of another process's memory, which goes on running."""

    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    buffer = ctypes.create_string_buffer(size)
    here = Piece(ctypes.addressof(buffer), size)
    there = Piece(address, size)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    got = libc.process_vm_readv(pid, ctypes.byref(here), ctypes.c_ulong(1), ctypes.byref(there), ctypes.c_ulong(1),
                                ctypes.c_ulong(0))  # fmt: skip
    if got != size:
        raise Unreadable(os.strerror(ctypes.get_errno()) if got < 0 else "only a part of it is there")
    return buffer.raw


def areas(pid, start):
    """(rank, pid, address of what it shows) of each rank of the host."""
    magic, ranks, header, area, at_pid, at_rank, awaited = HEADER.unpack(peek(pid, start, HEADER.size))
    if magic != MAGIC or not 0 < ranks <= MOST_RANKS:
        raise Unreadable("its shared memory is not (yet) that of a Weft of this version")
    for index in range(ranks):
        base = start + header + index * area
        (owner,) = struct.unpack("<i", peek(pid, base + at_pid, 4))
        (rank,) = struct.unpack("<i", peek(pid, base + at_rank, 4))
        yield rank, owner, base + awaited


def read_job(pid):
    """A Wait for each rank of the job on this host. Refusal: it is no rank; Failure: it may not be read."""
    start = mapping(pid)
    if start is None:
        raise Refusal("process %d is no rank of a job with several ranks on this host, or not yours: give the process "
                      "of the program itself, not of mpiexec or a shell" % pid)  # fmt: skip
    try:
        return sorted(read_wait(pid, *area) for area in areas(pid, start))
    except Unreadable as reason:
        raise Failure("process %d cannot be read (%s): run as its user; ptrace scope 0 or 1 is needed"
                      % (pid, reason)) from None  # fmt: skip


def read_wait(pid, rank, owner, address):
    for _ in range(100):
        version, *fields = AWAITED.unpack(peek(pid, address, AWAITED.size))
        if version % 2 == 0:
            break
    kind, peer, tag, size, _, _, comm_size, since, seen, name = fields
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    if version == 0 or now - seen > STALE_NS:
        return Wait(rank, owner, "", None, None, None, "", 0.0)
    ours = kind in (0, 1)
    label = name.split(b"\0")[0].decode(errors="replace")
    return Wait(rank, owner, KINDS.get(kind, "something"), peer if ours else None, tag if ours else None,
                size if ours else None, "%s (%d ranks)" % (label or "unnamed", comm_size) if comm_size else "",
                (now - since) / 1e9)  # fmt: skip


def show(waits):
    rows = [[wait.rank, wait.pid, wait.what or "nothing: computing, or outside MPI", named(wait.peer, -1),
             named(wait.tag, -2), wait.bytes, wait.communicator, "%.1f s" % wait.seconds if wait.what else ""]
            for wait in waits]  # fmt: skip
    output.table(["rank", "process", "waits for", "peer", "tag", "bytes", "communicator", "for"], rows,
                 numbers=("rank", "process", "peer", "tag", "bytes", "for"))  # fmt: skip


def named(number, wildcard):
    return "any" if number == wildcard else number
