# SPDX-License-Identifier: BSD-3-Clause
# weft explain: prints the protocols of messages and the paths of collectives, one-sided operations and file accesses on
# this machine, as selected by the library, or measures cold costs (cold.py).
import argparse
import ctypes
import json
import os

from weft_mpi import cold, prefix, run_info
from weft_mpi.output import Refusal

KINDS = ("host", "pinned", "cuda", "mapped", "pool", "managed")
SUFFIX = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
LARGEST_BYTES, COLD_BYTES = 64 << 20, 64 << 10
COLLECTIVES = "allreduce reduce bcast scan exscan allgather alltoall gather scatter reduce_scatter_block".split()
ONE_SIDED = "put get accumulate get_accumulate fetch_and_op compare_and_swap".split()
OPERATIONS = ("send", "file", "program", *COLLECTIVES, *ONE_SIDED)
MAX_RANKS = 4096  # of src/coll/dispatch/explain.cpp
# The options that an operation takes; None: --cold.
TAKES = {
    None: ("kind", "ranks", "bytes", "json"),
    "send": ("kind", "to", "bytes", "block", "json"),
    "file": ("path", "kind", "json"),
    "program": ("path",),
    **dict.fromkeys(COLLECTIVES, ("kind", "ranks", "bytes", "json")),
    **dict.fromkeys(ONE_SIDED, ("kind", "to", "window", "bytes", "json")),
}
FORMS = {
    "parts": "two-shot: reduce-scatter, then allgather",
    "whole vectors": "one-shot: every rank reads and combines all vectors",
    "direct": "every block directly to its rank",
}
RECORDS = {
    "mapping": "independent writes through a mapping of the file",
    "system calls": "independent writes by one system call for each record; collective ones by aggregators",
}
OVERWRITES = {
    "mapping": "writes of several ranks over existing bytes through mappings: no rank waits for another",
    "system calls": "as new bytes",
}
INTERLEAVED = {
    "direct": "collective reads from 4 KiB and writes from 32 KiB a record: each rank itself; else two-phase",
    "two-phase": "collective accesses by aggregators (two-phase)",
}


def add_parser(subparsers):
    """Adds the command's parser."""
    parser = subparsers.add_parser(
        "explain",
        help="print the protocols of messages and the paths of collectives, one-sided operations and files",
        description="Prints, for each size, the protocol of a message between two processes of this host, the path of a"
        " one-sided operation, or the path of a collective among ranks of this host with one GPU each. The prediction"
        " ignores conditions known only at run time: failed access probes, exhausted credit, different memory kinds on"
        " other ranks. For a file: how data of this memory kind reaches it. For a program: for which MPI it was built"
        " (`weft run-info`). With --cold: a short job measures what is slower at first than later.",
    )
    parser.add_argument("what", nargs="?", choices=OPERATIONS,
                        help="a message (send), a file, a program, a collective or a one-sided operation")  # fmt: skip
    parser.add_argument("path", nargs="?", help="the file of `weft explain file`, which need not exist, or the program")
    parser.add_argument(
        "--kind",
        choices=KINDS,
        help="memory kind of the sender, or of all ranks (cuda); mapped: cuMemMap memory, shared by file descriptor",
    )
    parser.add_argument("--ranks", type=int, help="number of ranks of a collective (2)")
    parser.add_argument("--to", choices=KINDS, help="memory kind of the receiver, or of the window (as --kind)")
    parser.add_argument(
        "--window",
        choices=("create", "allocate"),
        help="one-sided operations: window of MPI_Win_create, or memory of MPI_Win_allocate or MPI_Alloc_mem "
        "(allocate)",
    )
    parser.add_argument("--bytes", type=size, help="largest size, such as 1M (64M); with --cold the only one (64K)")
    parser.add_argument("--block", type=size, help="strided message: bytes of each contiguous block of the sender")
    parser.add_argument(
        "--cold", action="store_true", help="measure what the first messages and collectives of a process cost here"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parse = parser.parse_known_args

    def parse_names_last(args=None, namespace=None):
        """Accepts the operation and the path after options, where argparse leaves them over."""
        found, rest = parse(args, namespace)
        for name in ("what", "path"):
            if rest and not rest[0].startswith("-") and getattr(found, name) is None:
                setattr(found, name, rest.pop(0))
        if found.what not in (None, *OPERATIONS):
            parser.error(f"{found.what}: expected one of {', '.join(OPERATIONS)}")
        return found, rest

    parser.parse_known_args = parse_names_last
    return parser


def size(text):
    """Parses a size: 4K -> 4096."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].upper() in SUFFIX else (text, "")
    if not number.isdigit() or int(number) == 0:
        raise argparse.ArgumentTypeError(f"{text}: expected a number of bytes, such as 64K")
    return int(number) * SUFFIX.get(unit, 1)


def run(arguments):
    """Queries the library, or measures cold costs, and prints the result."""
    check_options(arguments)
    arguments.kind, arguments.ranks = arguments.kind or "cuda", 2 if arguments.ranks is None else arguments.ranks
    arguments.window = arguments.window or "allocate"
    arguments.bytes = arguments.bytes or (COLD_BYTES if arguments.cold else LARGEST_BYTES)
    if arguments.cold:
        return cold.run(arguments)
    if arguments.what == "file":
        return run_file(arguments)
    if arguments.what == "program":
        if arguments.path is None:
            raise Refusal("use `weft explain program PROGRAM`")
        return run_info.run(argparse.Namespace(program=arguments.path))
    return predict(arguments)


def check_options(arguments):
    """Raises Refusal for options that the operation does not take, and for numbers and kinds that it has not."""
    what = arguments.what
    if arguments.cold == (what is not None):
        raise Refusal("use either --cold or the name of an operation, such as send")
    for option in ("path", "kind", "ranks", "to", "window", "bytes", "block", "json"):
        if getattr(arguments, option) not in (None, False) and option not in TAKES[what]:
            name = "a path" if option == "path" else "--" + option
            takers = ", ".join(dict.fromkeys(kind_of(one) for one in TAKES if option in TAKES[one]))
            raise Refusal(f"{name} does not apply to {what or '--cold'}: it is of {takers}")
    if what in COLLECTIVES and arguments.kind not in (None, "host", "cuda"):
        raise Refusal(f"a collective is on memory of --kind host or cuda, not {arguments.kind}")
    if what in COLLECTIVES and arguments.ranks is not None and not 1 <= arguments.ranks <= MAX_RANKS:
        raise Refusal(f"--ranks {arguments.ranks}: expected a number from 1 to {MAX_RANKS}")


def kind_of(what):
    """Returns the name of the kind of an operation."""
    if what in COLLECTIVES:
        return "collectives"
    return "one-sided operations" if what in ONE_SIDED else what or "--cold"


def predict(arguments):
    """Prints the paths of an operation, size by size."""
    collective = arguments.what in COLLECTIVES
    function = "MPIX_Explain_collective" if collective else "MPIX_Explain_send"
    table = collective_lines if collective else lines
    if arguments.what in ONE_SIDED:
        function, table = "MPIX_Explain_window", window_lines
        facts = (arguments.what, arguments.kind, arguments.to or arguments.kind, arguments.window)
        query = "what={} kind={} to={} window={}".format(*facts)
    elif collective:
        query = f"what={arguments.what} ranks={arguments.ranks} kind={arguments.kind}"
    else:
        query = f"kind={arguments.kind} to={arguments.to or arguments.kind}"
        query += f" block={arguments.block}" if arguments.block else ""
    try:
        facts = json.loads(query_library(function, f"{query} bytes={arguments.bytes}"))
        if collective and arguments.kind == "cuda":
            facts["no_gpu"] = json.loads(query_library("MPIX_Explain_send", "kind=cuda to=cuda bytes=1"))["no_gpu"]
    except (OSError, ValueError) as error:
        raise Refusal(str(error)) from error
    if arguments.json:
        print(json.dumps(facts, indent=2))
    else:
        print("\n".join(table(facts)))
    return 0


def run_file(arguments):
    """Prints the paths of accesses of one file."""
    if arguments.path is None or arguments.kind not in ("host", "cuda"):
        raise Refusal("use `weft explain file --kind host|cuda PATH`")
    try:
        query = f"kind={arguments.kind} path={arguments.path}"
        facts = json.loads(query_library("MPIX_Explain_file", query))
    except (OSError, ValueError) as error:
        raise Refusal(str(error)) from error
    print(json.dumps(facts, indent=2) if arguments.json else "\n".join(file_lines(facts)))
    return 0


def file_lines(facts):
    """Yields one line for each form of access."""
    place = "a file system of this host" if facts["local"] else "not known as a file system of one host"
    yield f"{facts['path']}{'' if facts['exists'] else ' (new)'}: {facts['file_system']}, {place}"
    if "striping_factor" in facts:
        yield f"stripes of {facts['striping_unit']} bytes on {facts['striping_factor']} servers"
    if facts["kind"] == "cuda" and facts["gpu_path"] == "cufile":
        yield "GPU memory     cuFile for aligned parts, after a checked read; else pinned memory in two halves"
    elif facts["kind"] == "cuda":
        yield f"GPU memory     pinned memory in two halves, copy and file access overlap; cuFile: {facts['no_cufile']}"
    yield f"short records  {RECORDS[facts['records']]}"
    yield f"overwrites     {OVERWRITES[facts['overwrites']]}"
    yield f"interleaved    {INTERLEAVED[facts['interleaved']]}"


def query_library(function, query):
    """Returns the library's result. Raises ValueError with the library's message on error."""
    library = ctypes.CDLL(os.path.join(prefix.find(), "lib", prefix.LIBRARY))
    text = ctypes.create_string_buffer(1 << 16)
    status = getattr(library, function)(os.fsencode(query), text, len(text), None)
    if status != 0:
        raise ValueError(text.value.decode())
    return text.value.decode()


def lines(facts):
    """Yields the lines of the table; consecutive sizes with the same protocol share a line."""
    yield f"{facts['kind']} memory to {facts['to']} memory of another process of this host"
    if facts["no_gpu"]:
        yield f"no usable GPU: {facts['no_gpu']}"
    elif facts["devices"]:
        access = "with" if facts["peer_access"] else "not all with"
        yield f"{facts['devices']} GPUs, {access} peer access"

    def path(row):
        copies = "; 1 copy" if row["copies"] == 1 else f"; {row['copies']} copies"
        return row["protocol"], row["text"] + carrier(row) + copies + writer(row)

    for sizes, (protocol, by) in grouped(facts["rows"], path):
        yield f"{sizes:14} {protocol:12} {by}"


def window_lines(facts):
    """Yields the lines of the table of a one-sided operation."""
    names = (facts["what"], facts["kind"], facts["to"], facts["window"])
    yield "MPI_{}: origin in {} memory, {} memory of another process of this host, window of MPI_Win_{}".format(
        names[0].capitalize(), *names[1:])  # fmt: skip
    if facts["no_gpu"]:
        yield f"no usable GPU: {facts['no_gpu']}"
    for sizes, text in grouped(facts["rows"], window_path):
        yield f"{sizes:14} {text}"


def window_path(row):
    """Describes the path of a one-sided operation in one line."""
    text = f"{row['path']:12} {row['by']}"
    if row["resident_kernel"]:
        text += "; in quick succession the resident kernel"
    if row["reason"]:
        text += f" ({row['reason']})"
    return text + ("" if row["target_progress"] else "; the target need not call MPI")


def grouped(rows, key_of_row):
    """Yields (range of sizes, key) for consecutive rows with equal keys."""
    groups = []
    for row in rows:
        key = key_of_row(row)
        if groups and groups[-1][2] == key:
            groups[-1][1] = row["bytes"]
        else:
            groups.append([row["bytes"], row["bytes"], key])
    for first, last, key in groups:
        yield human(first) if first == last else f"{human(first)} - {human(last)}", key


def collective_lines(facts):
    """Yields the lines of the table of a collective."""
    where = "GPU memory, one GPU per rank" if facts["kind"] == "cuda" else "host memory"
    yield f"{facts['what']} among {facts['ranks']} ranks of this host, {where}; bytes of a {facts['of']}"
    if facts.get("no_gpu"):
        yield f"no usable GPU here: {facts['no_gpu']}; a machine with one GPU per rank would do this:"
    measured = facts.get("measured_ranks", facts["ranks"])
    if facts["ranks"] != measured and any(row["path"] == "kernels" for row in facts["rows"]):
        yield f"thresholds of the kernels: measured with {measured} GPUs, derived for {facts['ranks']}"
    for sizes, path in grouped(facts["rows"], collective_path):
        yield f"{sizes:14} {path}"


def collective_path(row):
    """Describes the path of a row in one line."""
    if row["path"] == "messages":
        return f"messages      algorithm {row['algorithm']}"
    if row["path"] != "kernels":
        return row["path"]
    blocks = "1 block" if row["blocks"] == 1 else f"{row['blocks']} blocks"
    doorbell = "; repeated calls by the resident kernel" if row["doorbell"] else ""
    return f"kernels       {FORMS[row['form']]}: {row['protocol']}, {blocks}{doorbell}"


def writer(row):
    """Describes whether the sender copies if the receive is posted first."""
    return "; put by the sender if the receive is posted first" if row["put"] else ""


def carrier(row):
    """Describes what executes the copy of a mapped message, and when a strided message is packed."""
    if row["eager_pack"]:
        return ": packed at the send, overlapping with the receiver's unpacking"
    if row["protocol"] != "mapped":
        return ""
    engines = []
    if row["resident_blocks"]:
        blocks = "1 block" if row["resident_blocks"] == 1 else f"{row['resident_blocks']} blocks"
        engines.append(f"repeated messages by the resident kernel, {blocks}")
    if row["batch_copy"]:
        engines.append("windows of messages by a batch copy kernel")
    return f": {'; '.join([*engines, 'else by a copy engine' if engines else 'by a copy engine'])}"


def human(number):
    """Formats a size: 1048576 -> 1M."""
    for suffix in ("G", "M", "K"):
        if number % SUFFIX[suffix] == 0:
            return f"{number // SUFFIX[suffix]}{suffix}"
    return str(number)
