# SPDX-License-Identifier: BSD-3-Clause
# Commands and pretty-printers for gdb: source PREFIX/share/weft/gdb/weft.py
#
# weft-ranks [attach]   in a gdb that is attached to mpiexec: the processes of the job, and attaches to all of them
# weft-queues           in a rank: its communicators, posted receives, unexpected messages and sends
# print of MPI_Comm, MPI_Request and other handles: names of predefined handles, and what the objects are.
# Needs no debugging information of the library: it reads MPIR_weft_layout (src/api/debugger.cpp).
import os
import re
import struct

import gdb
import gdb.printing

LIVE = 0x77656674  # Slab::kLive
ANY = -(2**31)  # match::kAny
SEND, RECEIVE = 0, 1  # Request::Kind
KINDS = ("send", "receive", "collective", "generalized request", "partitioned operation", "enqueued operation", "none")
STATES = ("not started", "queued", "waits for its receiver", "in transfer", "in transfer", "posted", "matched",
          "in transfer", "complete")  # fmt: skip
HANDLES = ("MPI_Comm", "MPI_Datatype", "MPI_Errhandler", "MPI_File", "MPI_Group", "MPI_Info", "MPI_Message", "MPI_Op",
           "MPI_Request", "MPI_Session", "MPI_Win")  # fmt: skip


class Memory:
    """The memory of the selected process."""

    def __init__(self):
        self.inferior = gdb.selected_inferior()

    def read(self, address, size):
        return self.inferior.read_memory(address, size).tobytes()

    def value(self, address, form):
        return struct.unpack("=" + form, self.read(address, struct.calcsize("=" + form)))[0]

    def pointer(self, address):
        return self.value(address, "Q")

    def string(self, address):
        """A std::string."""
        start, length = self.pointer(address), self.pointer(address + 8)
        return self.read(start, min(length, 200)).decode(errors="replace")


def layout():
    """Returns {name: value} of MPIR_weft_layout; {} before MPI_Init or without Weft."""
    try:
        address = int(gdb.parse_and_eval("&MPIR_weft_layout").cast(gdb.lookup_type("unsigned long")))
    except gdb.error:
        return {}
    memory, found = Memory(), {}
    for entry in range(64):
        name = memory.read(address + 48 * entry, 40).split(b"\0")[0].decode(errors="replace")
        if not name:
            break
        found[name] = memory.pointer(address + 48 * entry + 40)
    return found


def objects(of, slab):
    """Yields the addresses of the live objects of a slab."""
    memory, start = Memory(), of[slab]
    ranges, used = memory.pointer(start + of["slab.range_count"]), memory.pointer(start + of["slab.used"])
    for number in range(ranges):
        cells = memory.pointer(start + of["slab.ranges"] + 16 * number)
        count = used if number + 1 == ranges else memory.pointer(start + of["slab.ranges"] + 16 * number + 8)
        for cell in range(count):
            address = cells + cell * of[slab + ".stride"]
            if memory.value(address + of[slab + ".live"], "I") == LIVE:
                yield address


def group_of(of, address):
    """Returns the world ranks of a group."""
    memory = Memory()
    begin, end = (memory.pointer(address + of["group.processes"] + at) for at in (0, 8))
    return list(struct.unpack("=%dI" % ((end - begin) // 4), memory.read(begin, end - begin)))


def communicator(of, address):
    """Returns the description of a communicator."""
    memory = Memory()
    name = memory.string(address + of["communicator.name"])
    processes = group_of(of, memory.pointer(address + of["communicator.group"]))
    own = processes.index(of["self"]) if of["self"] in processes else None
    text = ('"%s"' % name if name else "communicator") + ": %d ranks" % len(processes)
    text += ", this is rank %d" % own if own is not None else ""
    remote = memory.pointer(address + of["communicator.remote_group"])
    if remote:
        text += "; %d ranks in the remote group" % len(group_of(of, remote))
    return text


def live_objects(of, slab):
    try:
        return set(objects(of, slab))
    except gdb.MemoryError:
        return set()


def rank_text(rank):
    return "any rank" if rank in (-1, ANY) else "rank %d" % rank


def tag_text(tag):
    return "any tag" if tag in (-2, ANY) else "tag %d" % tag


def transfer(of, address):
    """Returns the description of a send or receive."""
    memory = Memory()
    kind, state = memory.value(address + of["request.kind"], "B"), memory.value(address + of["transfer.state"], "B")
    if kind not in (SEND, RECEIVE):
        return KINDS[kind] if kind < len(KINDS) else "request"
    rank, tag = (memory.value(address + of["transfer." + name], "i") for name in ("rank", "tag"))
    size, buffer = (memory.pointer(address + of["transfer." + name]) for name in ("bytes", "address"))
    words = ("send to" if kind == SEND else "receive from", rank_text(rank), tag_text(tag), size, buffer)
    text = "%s %s, %s, %d bytes at %#x" % words
    state = STATES[state] if state < len(STATES) else "unknown"
    if memory.value(address + of["request.persistent"], "B") and not memory.value(address + of["request.active"], "B"):
        state = "persistent, inactive"
    return "%s: %s" % (text, state)


def names_of_handles():
    """Returns {(type, value): name} of the predefined handles, read from the installed mpi.h."""
    here = os.path.dirname(os.path.abspath(__file__))
    for prefix in (os.path.join(here, *[os.pardir] * 3), os.path.join(here, os.pardir, os.pardir, "build", "prefix")):
        path = os.path.join(prefix, "include", "mpi.h")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found = re.findall(r"#define (MPI\w+)\s+\(\((MPI_\w+)\)(0x[0-9a-fA-F]+|0)\)", file.read())
            return {(kind, int(value, 16)): name for name, kind, value in found}
    return {}


NAMES = names_of_handles()


class HandlePrinter:
    def __init__(self, value, kind):
        self.address, self.kind = int(value), kind

    def to_string(self):
        name = NAMES.get((self.kind, self.address))
        described = self.described(layout())
        if name and described:
            return "%s (%s)" % (name, described)
        return name or described or "%s %#x" % (self.kind, self.address)

    def described(self, of):
        if not of:
            return ""
        try:
            if self.kind == "MPI_Comm":
                memory = Memory()
                for address in objects(of, "communicators"):
                    if memory.pointer(address + of["communicator.handle"]) == self.address:
                        return communicator(of, address)
            if self.kind == "MPI_Request" and self.address in live_objects(of, "transfers"):
                return transfer(of, self.address)
        except gdb.MemoryError:
            pass
        return ""


def lookup(value):
    kind = value.type.name
    return HandlePrinter(value, kind) if kind in HANDLES else None


lookup.name = "weft"
lookup.enabled = True
gdb.printing.register_pretty_printer(None, lookup, replace=True)


class Ranks(gdb.Command):
    """weft-ranks [attach]: the processes of the job of this mpiexec; attach: debug all of this host as inferiors."""

    def __init__(self):
        super().__init__("weft-ranks", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        try:
            size = int(gdb.parse_and_eval("MPIR_proctable_size"))
            table = gdb.parse_and_eval("MPIR_proctable")
        except gdb.error as error:
            raise gdb.GdbError("this is no mpiexec with MPIR tables: attach to mpiexec (%s)" % error) from None
        ranks = [(table[rank]["host_name"].string(), table[rank]["executable_name"].string(), int(table[rank]["pid"]))
                 for rank in range(size)]  # fmt: skip
        for entry, (host, program, pid) in enumerate(ranks):
            job, rank = (int(gdb.parse_and_eval("weft_proctable_" + name)[entry]) for name in ("jobs", "ranks"))
            spawned = " of spawned job %d" % job if job else ""
            print("rank %d%s: pid %d on %s, %s" % (rank, spawned, pid, host, program))
        if argument.strip() != "attach":
            return
        gdb.execute("set schedule-multiple on")
        gdb.execute("set detach-on-fork on")
        for _, _, pid in ranks:
            gdb.execute("add-inferior", to_string=True)
            gdb.execute("inferior %d" % max(inferior.num for inferior in gdb.inferiors()), to_string=True)
            gdb.execute("attach %d" % pid, to_string=True)
        print("attached to %d ranks: `inferior %d` is rank 0" % (size, 2))


class Queues(gdb.Command):
    """weft-queues: communicators, posted receives, unexpected messages and sends of this rank."""

    def __init__(self):
        super().__init__("weft-queues", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        of = layout()
        if not of:
            raise gdb.GdbError("this process has not called MPI_Init of Weft")
        memory = Memory()
        names = {}
        for address in objects(of, "communicators"):
            text = communicator(of, address)
            names[memory.pointer(address + of["communicator.id"])] = text.split(":")[0]
            print("communicator %s" % text)
        for node in self.nodes(of, "posted"):
            print("posted %s" % self.receive(of, names, node))
        for node in self.nodes(of, "unexpected"):
            size = memory.pointer(node - of["message.node"] + of["message.bytes"])
            print("unexpected message from %s: %d bytes" % (self.key(of, names, node), size))
        for address in objects(of, "transfers"):
            if memory.value(address + of["request.kind"], "B") == SEND:
                print("%s" % transfer(of, address))

    @staticmethod
    def nodes(of, queue):
        """Yields the nodes of a hash table."""
        memory, start = Memory(), of[queue]
        begin, end = memory.pointer(start), memory.pointer(start + 8)
        for chain in range(begin, end, 16):
            node = memory.pointer(chain)
            while node:
                yield node
                node = memory.pointer(node + of["node.next"])

    @staticmethod
    def key(of, names, node):
        memory = Memory()
        context = memory.pointer(node + of["node.context"])
        source, tag = (memory.value(node + of["node." + name], "i") for name in ("source", "tag"))
        place = names.get(context & ~3, "an unknown communicator")
        of_what = " (of a collective)" if context & 3 == 1 else ""
        return "%s, %s in %s%s" % (rank_text(source), tag_text(tag), place, of_what)

    def receive(self, of, names, node):
        address = node - of["transfer.node"]
        size = Memory().pointer(address + of["transfer.bytes"])
        return "receive from %s: %d bytes" % (self.key(of, names, node), size)


Ranks()
Queues()
