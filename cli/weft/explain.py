# SPDX-License-Identifier: BSD-3-Clause
# weft explain: which way messages take on this machine, by the choices that the library itself makes.
import argparse
import ctypes
import json
import os
import sys

from weft import prefix

KINDS = ("host", "pinned", "cuda", "pool", "managed")
SUFFIX = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
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
        help="which way messages take here",
        description="Prints the protocol of a message between two processes of this host, for each size. What a pair"
        " finds out only when it talks (a failed proof, used up credit) is not known here.",
    )
    parser.add_argument("what", choices=("send",), help="what to explain")
    parser.add_argument("--kind", choices=KINDS, default="cuda", help="memory of the sender (cuda)")
    parser.add_argument("--to", choices=KINDS, help="memory of the receiver (the same)")
    parser.add_argument("--bytes", type=size, default=64 << 20, help="largest size, such as 1M (64M)")
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
    query = "kind=%s to=%s bytes=%d" % (arguments.kind, arguments.to or arguments.kind, arguments.bytes)
    try:
        facts = json.loads(ask(query))
    except (prefix.NotInstalled, OSError, ValueError) as error:
        print("weft explain: %s" % error, file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(facts, indent=2))
    else:
        print("\n".join(lines(facts)))
    return 0


def ask(query):
    """The library's answer. ValueError with its message when there is none."""
    library = ctypes.CDLL(os.path.join(prefix.find(), "lib", prefix.LIBRARY))
    text = ctypes.create_string_buffer(1 << 16)
    status = library.MPIX_Explain_send(query.encode(), text, len(text), None)
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
    groups = []
    for row in facts["rows"]:
        way = (row["protocol"], carrier(row))
        if groups and groups[-1][2] == way:
            groups[-1][1] = row["bytes"]
        else:
            groups.append([row["bytes"], row["bytes"], way])
    for first, last, (protocol, by) in groups:
        sizes = human(first) if first == last else "%s - %s" % (human(first), human(last))
        yield "%-14s %-12s %s" % (sizes, protocol, PROTOCOLS[protocol] + by)


def carrier(row):
    """Who copies, of a mapped message."""
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
