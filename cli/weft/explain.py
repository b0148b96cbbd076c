# SPDX-License-Identifier: BSD-3-Clause
# weft explain: which way messages and collectives take on this machine, by the choices that the library itself
# makes.
import argparse
import ctypes
import json
import os
import sys

from weft import prefix

KINDS = ("host", "pinned", "cuda", "mapped", "pool", "managed")
SUFFIX = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
COLLECTIVES = "allreduce reduce bcast scan exscan allgather alltoall gather scatter reduce_scatter_block".split()
FORMS = {
    "parts": "a part to each rank, combined there and given to all",
    "whole vectors": "every rank gets the vectors of all and combines them",
    "direct": "every block to its rank",
}
PROTOCOLS = {
    "eager": "sent at once, with its header, into shared memory",
    "single copy": "the receiver reads the sender's memory (process_vm_readv)",
    "upload": "the receiver reads the sender's memory into pinned chunks, copied up",
    "mapped": "one copy from the sender's mapped allocation (CUDA IPC)",
    "strided": "a kernel reads the sender's runs where they lie",
    "scratch": "packed into GPU scratch, fetched from there",
    "offered": "the sender fills pinned chunks, which the receiver reads",
    "fragments": "through shared memory, a fragment at a time",
}


def add_parser(subparsers):
    """Registers the command."""
    parser = subparsers.add_parser(
        "explain",
        help="which way messages and collectives take here",
        description="Prints the protocol of a message between two processes of this host, for each size; or which way"
        " a collective takes among ranks of this host, each with a GPU of its own. What ranks find out only when they"
        " talk (a failed proof, used up credit, other kinds of memory elsewhere) is not known here.",
    )
    parser.add_argument("what", choices=("send", *COLLECTIVES), help="what to explain")
    parser.add_argument(
        "--kind",
        choices=KINDS,
        default="cuda",
        help="memory of the sender, or of all ranks (cuda); mapped: of cuMemMap, with file descriptors",
    )
    parser.add_argument("--ranks", type=int, default=2, help="of a collective (2)")
    parser.add_argument("--to", choices=KINDS, help="memory of the receiver (the same)")
    parser.add_argument("--bytes", type=size, default=64 << 20, help="largest size, such as 1M (64M)")
    parser.add_argument("--block", type=size, help="of a strided message: bytes of each of the sender's runs")
    parser.add_argument("--json", action="store_true", help="as JSON")
    return parser


def size(text):
    """4K -> 4096."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in SUFFIX else (text, "")
    if not number.isdigit() or int(number) == 0:
        raise argparse.ArgumentTypeError("%s: expected a number of bytes, such as 64K" % text)
    return int(number) * SUFFIX.get(unit, 1)


def run(arguments):
    """Asks the library and prints its answer."""
    collective = arguments.what != "send"
    function = "MPIX_Explain_collective" if collective else "MPIX_Explain_send"
    if collective:
        query = "what=%s ranks=%d kind=%s" % (arguments.what, arguments.ranks, arguments.kind)
    else:
        query = "kind=%s to=%s" % (arguments.kind, arguments.to or arguments.kind)
        query += " block=%d" % arguments.block if arguments.block else ""
    try:
        facts = json.loads(ask(function, query, arguments.bytes))
    except (prefix.NotInstalled, OSError, ValueError) as error:
        print("weft explain: %s" % error, file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(facts, indent=2))
    else:
        print("\n".join(collective_lines(facts) if collective else lines(facts)))
    return 0


def ask(function, query, most):
    """The library's answer. ValueError with its message when there is none."""
    library = ctypes.CDLL(os.path.join(prefix.find(), "lib", prefix.LIBRARY))
    text = ctypes.create_string_buffer(1 << 16)
    status = getattr(library, function)(("%s bytes=%d" % (query, most)).encode(), text, len(text), None)
    if status != 0:
        raise ValueError(text.value.decode())
    return text.value.decode()


def lines(facts):
    """The answer as a table: sizes that share a way are one line."""
    yield "%s memory to %s memory of another process of this host" % (facts["kind"], facts["to"])
    if facts["no_gpu"]:
        yield "no GPU is used here: " + facts["no_gpu"]
    elif facts["devices"]:
        access = "map each other's memory" if facts["peer_access"] else "do not all map each other's memory"
        yield "%d GPUs, which %s" % (facts["devices"], access)
    for sizes, (protocol, by) in grouped(facts["rows"], lambda row: (row["protocol"], carrier(row) + writer(row))):
        yield "%-14s %-12s %s" % (sizes, protocol, PROTOCOLS[protocol] + by)


def grouped(rows, way_of):
    """Ranges of sizes that share a way, and the way."""
    groups = []
    for row in rows:
        way = way_of(row)
        if groups and groups[-1][2] == way:
            groups[-1][1] = row["bytes"]
        else:
            groups.append([row["bytes"], row["bytes"], way])
    for first, last, way in groups:
        yield human(first) if first == last else "%s - %s" % (human(first), human(last)), way


def collective_lines(facts):
    """The answer for a collective."""
    where = "GPU memory, a GPU for each rank" if facts["kind"] == "cuda" else "host memory"
    yield "%s among %d ranks of this host, %s; bytes of a %s" % (facts["what"], facts["ranks"], where, facts["of"])
    measured = facts.get("measured_ranks", facts["ranks"])
    if facts["ranks"] != measured and any(row["way"] == "kernels" for row in facts["rows"]):
        numbers = (measured, facts["ranks"])
        yield "sizes at which kernels change their method: measured with %d GPUs, derived for %d" % numbers
    for sizes, way in grouped(facts["rows"], collective_way):
        yield "%-14s %s" % (sizes, way)


def collective_way(row):
    """One line for a way."""
    if row["way"] == "messages":
        return "messages      algorithm " + row["algorithm"]
    if row["way"] != "kernels":
        return row["way"]
    blocks = "1 block" if row["blocks"] == 1 else "%d blocks" % row["blocks"]
    bell = "; in a stream of calls by the copier" if row["bell"] else ""
    return "kernels       %s: %s, %s%s" % (FORMS[row["form"]], row["wire"], blocks, bell)


def writer(row):
    """Who moves it when the receive comes first."""
    return "; by the sender when the receive comes first" if row["put"] else ""


def carrier(row):
    """Who copies, of a mapped message; when a strided one is packed."""
    if row["ahead"]:
        return ": packed as it is sent, while the receiver unpacks"
    if row["protocol"] != "mapped":
        return ""
    ways = []
    if row["copier_blocks"]:
        blocks = "1 block" if row["copier_blocks"] == 1 else "%d blocks" % row["copier_blocks"]
        ways.append("in a stream of messages by the copier, %s" % blocks)
    if row["list"]:
        ways.append("in windows as lists by a kernel")
    return ": " + "; ".join([*ways, "else by a copy engine" if ways else "by a copy engine"])


def human(number):
    """1048576 -> 1M."""
    for suffix in ("G", "M", "K"):
        if number % SUFFIX[suffix] == 0:
            return "%d%s" % (number // SUFFIX[suffix], suffix)
    return str(number)
