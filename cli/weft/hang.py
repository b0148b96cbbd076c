# SPDX-License-Identifier: BSD-3-Clause
# weft hang: prints the operation in which each rank of a running job on this host is blocked. Reads the job's shared
# memory from outside, without stopping ranks; src/transport/shm/layout.hpp defines the layout.
import ctypes
import os
import struct
import time
from collections import namedtuple

from weft import output
from weft.output import Failure, Refusal

MAGIC = 0x776566742D73686D
MAPPING = "/memfd:weft (deleted)"
HEADER = struct.Struct("<QIIIIII")  # magic, ranks, bytes of header and area, offsets of pid, rank, wait record
WAIT_RECORD = struct.Struct("<IiiiQQiiQQ64s")
KINDS = {-1: "a collective", 0: "send", 1: "receive", 2: "a nonblocking collective", 3: "a generalized request",
         4: "a partitioned operation", 5: "an enqueued operation"}  # fmt: skip
STALE_NS = 500_000_000  # age of the last update after which a wait record is obsolete
MAX_RANKS = 4096
Wait = namedtuple("Wait", "rank pid what peer tag bytes communicator seconds")


class Unreadable(Exception):
    """Memory of a process cannot be read; the text gives the reason."""


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "hang",
        help="print what each rank of a running job waits for",
        description=run.__doc__,
        epilog="example: weft hang $(pgrep -n my_program). Exit status: 0: no rank waits; 1: some ranks wait.",
    )
    parser.add_argument(
        "pid", type=int, nargs="?", help="a process of the job on this host (default: search for a job)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def run(arguments):
    """Prints what each rank of a job waits for: operation, peer, tag, communicator, duration. Covers the ranks on this
    host, which belong to the current user and are not stopped. Waits appear after 50 ms."""
    pid = arguments.pid or find_job()
    waits = read_job(pid)
    if arguments.json:
        print(output.json_text({"pid": pid, "ranks": [wait._asdict() for wait in waits]}), end="")
    else:
        show(waits)
    return 1 if any(wait.what for wait in waits) else 0


def mapping(pid):
    """Returns (address, bytes) of the job's shared memory in a process; None if it has not mapped any."""
    start = end = None
    try:
        with open("/proc/%d/maps" % pid, encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.rstrip("\n").endswith(MAPPING):
                    continue
                first, last = (int(address, 16) for address in line.split()[0].split("-"))
                if start is None and line.split()[2] == "00000000":
                    start, end = first, last
                elif first == end:  # the kernel divides a mapping whose parts have different properties
                    end = last
    except OSError:
        return None
    return None if start is None else (start, end - start)


def find_job():
    """Returns the pid of a rank of the user's only job. Raises Refusal if there is no job or several."""
    jobs, unreadable = {}, ""
    for name in os.listdir("/proc"):
        memory = mapping(int(name)) if name.isdigit() else None
        if memory is None:
            continue
        try:
            with_pids = tuple(sorted(pid for _, pid, *_ in areas(int(name), *memory)))
        except Unreadable as reason:  # any program may map a memfd of this name
            unreadable = " (process %s maps a memfd of Weft's name, but %s)" % (name, reason)
            continue
        jobs.setdefault(with_pids, int(name))
    if not jobs:
        raise Refusal("no running job of this user on this host%s: specify the process of a rank, `weft hang PID`"
                      % unreadable)  # fmt: skip
    if len(jobs) > 1:
        raise Refusal("%d jobs run here: specify a process of one of them: %s" % (
            len(jobs), ", ".join(str(pid) for pid in sorted(jobs.values()))))  # fmt: skip
    return next(iter(jobs.values()))


def peek(pid, address, size):
    """Returns `size` bytes of another process's memory; the process keeps running."""

    class IoVec(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    buffer = ctypes.create_string_buffer(size)
    here = IoVec(ctypes.addressof(buffer), size)
    there = IoVec(address, size)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    got = libc.process_vm_readv(pid, ctypes.byref(here), ctypes.c_ulong(1), ctypes.byref(there), ctypes.c_ulong(1),
                                ctypes.c_ulong(0))  # fmt: skip
    if got != size:
        raise Unreadable(os.strerror(ctypes.get_errno()) if got < 0 else "short read")
    return buffer.raw


def areas(pid, start, size):
    """Yields (rank, pid, address of the wait record) of each rank of the host. Raises Unreadable if the header does not
    describe a mapping of `size` bytes."""
    magic, ranks, header, area, at_pid, at_rank, wait_record = HEADER.unpack(peek(pid, start, HEADER.size))
    if magic != MAGIC or not 0 < ranks <= MAX_RANKS or header + ranks * area > size:
        raise Unreadable("its shared memory is not (yet) initialized, or of another version of Weft")
    for index in range(ranks):
        base = start + header + index * area
        (owner,) = struct.unpack("<i", peek(pid, base + at_pid, 4))
        (rank,) = struct.unpack("<i", peek(pid, base + at_rank, 4))
        yield rank, owner, base + wait_record


def read_job(pid):
    """Returns a Wait per rank of the job on this host. Raises Refusal if the process is not a rank, Failure if its
    memory cannot be read."""
    memory = mapping(pid)
    if memory is None:
        raise Refusal("process %d is not a rank of a job with several ranks on this host, or belongs to another user: "
                      "specify the process of the program itself, not of mpiexec or a shell" % pid)  # fmt: skip
    try:
        return sorted(read_wait(pid, *area) for area in areas(pid, *memory))
    except Unreadable as reason:
        raise Failure("process %d cannot be read (%s): run as its user, with ptrace scope 0 or 1"
                      % (pid, reason)) from None  # fmt: skip


def read_wait(pid, rank, owner, address):
    for _ in range(100):
        version, *fields = WAIT_RECORD.unpack(peek(pid, address, WAIT_RECORD.size))
        if version % 2 == 0:
            break
    kind, peer, tag, size, _, _, comm_size, since, seen, name = fields
    now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    if version == 0 or now - seen > STALE_NS:
        return Wait(rank, owner, "", None, None, None, "", 0.0)
    point_to_point = kind in (0, 1)
    label = name.split(b"\0")[0].decode(errors="replace")
    label = "".join(c if c.isprintable() else "?" for c in label)  # no control sequences on the terminal
    communicator = "%s (%d ranks)" % (label or "unnamed", comm_size) if comm_size else ""
    if not point_to_point:
        peer = tag = size = None
    return Wait(rank, owner, KINDS.get(kind, "unknown"), peer, tag, size, communicator, (now - since) / 1e9)


def show(waits):
    rows = [[wait.rank, wait.pid, wait.what or "nothing: computing or outside MPI", format_wildcard(wait.peer, -1),
             format_wildcard(wait.tag, -2), wait.bytes, wait.communicator, "%.1f s" % wait.seconds if wait.what else ""]
            for wait in waits]  # fmt: skip
    output.table(["rank", "process", "waits for", "peer", "tag", "bytes", "communicator", "for"], rows,
                 numbers=("rank", "process", "peer", "tag", "bytes", "for"))  # fmt: skip


def format_wildcard(number, wildcard):
    return "any" if number == wildcard else number
