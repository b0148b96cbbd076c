# SPDX-License-Identifier: BSD-3-Clause
# weft top: a live table of the ranks of a running job on this host, from the samples of `mpiexec --watch`.
import contextlib
import json
import os
import subprocess
import sys

from weft_mpi import output, prefix
from weft_mpi.job import find, samples
from weft_mpi.output import Failure, Refusal

# Counters of bytes that each path has moved, by the name of the path in the table.
PATHS = {
    "p2p.eager_bytes": "eager",
    "p2p.single_copy_bytes": "single copy",
    "p2p.fragments_bytes": "fragments",
    "p2p.announced_bytes": "announced",
    "p2p.rma_get_bytes": "RMA get",
    "p2p.rma_fragments_bytes": "RMA fragments",
    "p2p.mapped_bytes": "CUDA IPC",
    "p2p.strided_bytes": "strided kernel",
    "p2p.bounce_bytes": "bounce buffer",
    "p2p.eager_pack_bytes": "eager packing",
    "p2p.upload_bytes": "upload",
    "coll.shared_bytes": "collectives: shared memory",
    "coll.gpu_bytes": "collectives: kernels",
    "window.put_bytes": "put",
    "window.get_bytes": "get",
    "io.read_bytes": "file reads",
    "io.written_bytes": "file writes",
}
HEADINGS = (
    "rank", "state", "in MPI", "waits", "for", "streams wait in", "delays others", "bytes/s by path", "unexpected",
    "GPU", "GPU memory",
)  # fmt: skip
NUMBERS = ("rank", "in MPI", "waits", "delays others", "unexpected", "GPU memory")
SAME_NODE = 10  # NUMA distance of a GPU from the cores of its own node; -1: unknown
OTHER_JOB = "another job"  # that has spawned this one, was spawned by it, or is connected
NOTICEABLE = 0.05  # share of the time of all ranks that a rank delays the others before it is named


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "top",
        help="show live what the ranks of a running job do, and which rank delays the others",
        description=run.__doc__,
        epilog="example: weft top $(pgrep -n my_program). Ctrl-C ends it.",
    )
    parser.add_argument(
        "process",
        nargs="?",
        help="a process of the job on this host, its mpiexec, or the job's id (default: the only job)",
    )
    find.add_arguments(parser)
    parser.add_argument("-i", "--interval", type=float, default=1, metavar="SECONDS", help="time between tables")
    parser.add_argument("-c", "--count", type=int, default=0, metavar="N", help="end after N tables")
    parser.add_argument("--json", action="store_true", help="print one JSON object per interval, with all counters")
    return parser


def run(arguments):
    """Shows live, for each rank of a job on this host, or on all its hosts with --job or --hosts, the share of its
    time in MPI and in waits, the ranks that it waits for, the MPI calls in which its GPU streams wait, how much it
    delays others, bytes per second by path, the number of unexpected messages, the GPUs that it has used (number among
    the visible ones, PCI address, NUMA distance if another node's) and the GPU memory that the library holds. Reads
    shared memory only: no rank is stopped, and the job does nothing for it."""
    if not 0 < arguments.interval <= 3600 or arguments.count < 0:
        raise Refusal("--interval is a number of seconds, more than 0 and at most 3600; --count is not negative")
    if arguments.job or arguments.hosts:
        if arguments.process is not None:
            raise Refusal("a process and --job or --hosts: use --job PID to look at all hosts of its job")
        return show_hosts(arguments)
    watched = f"{find_process(arguments.process)},{arguments.interval:g}"
    if arguments.count:
        watched += f",{arguments.count}"
    command = [prefix.mpiexec(), "--watch", watched]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
        try:
            show(watch.stdout, json_lines=arguments.json)
        finally:
            watch.terminate()
            message = watch.stderr.read().strip().removeprefix("mpiexec: ")
    if message:
        raise (Refusal if watch.returncode == 2 else Failure)(message)


def show_hosts(arguments):
    found, job = find.one_job(arguments.job, arguments.hosts, "top")
    with contextlib.closing(samples.of_job(found, job, arguments.interval, arguments.count)) as merged:
        show((json.dumps(sample) + "\n" for sample in merged), json_lines=arguments.json)


def show(lines, *, json_lines):
    """Prints each sample; on a terminal with rich the table is updated in place."""
    rich = output.rich_for(sys.stdout)
    before = None
    if json_lines:
        for line in lines:
            print(line, end="", flush=True)
    elif rich is None:
        for line in lines:
            sample = json.loads(line)
            print(headline(sample))
            output.table(HEADINGS, rows_of(sample, before), NUMBERS)
            print(flush=True)
            before = sample
    else:
        import rich.live

        with rich.live.Live(auto_refresh=False, vertical_overflow="visible") as live:
            for line in lines:
                sample = json.loads(line)
                live.update(screen(rich, sample, before), refresh=True)
                before = sample


def screen(rich, sample, before):
    """Returns the headline and the table; the rank that delays the others is red."""
    slowest = delaying_rank(sample)
    table = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, justify="right" if heading in NUMBERS else "left", overflow="fold")
    for rank, row in zip(sample["ranks"], rows_of(sample, before)):
        style = "bold red" if slowest is not None and rank["rank"] == slowest["rank"] else None
        table.add_row(*(rich.text.Text(cell) for cell in row), style=style)
    text = rich.text.Text(headline(sample), style="bold red" if slowest is not None else "bold")
    return rich.console.Group(text, table)


def delaying_rank(sample):
    """Returns the rank for which the others have waited most; None if that is not noticeable."""
    ranks = sample["ranks"]
    slowest = max(ranks, key=lambda rank: rank["delaying"], default=None)
    if slowest is None or len(ranks) < 2 or slowest["delaying"] < NOTICEABLE * (len(ranks) - 1):
        return None
    return slowest


def headline(sample):
    """Returns the one line that says who delays the job."""
    ranks = sample["ranks"]
    hosts = {rank.get("host") for rank in ranks}
    job = f"{len(ranks)} of {sample['size']} ranks are on " + (f"{len(hosts)} hosts" if len(hosts) > 1 else "this host")
    if len(ranks) == sample["size"]:
        job = f"{len(ranks)} rank{'' if len(ranks) == 1 else 's'}" + (f", {len(hosts)} hosts" if len(hosts) > 1 else "")
    stuck = [text for text in sample.get("conclusions", []) if "deadlock: " in text]
    if stuck:
        return f"{job}; {stuck[0]}"
    slowest = delaying_rank(sample)
    others = mean_share(ranks, OTHER_JOB)
    if others >= NOTICEABLE and (slowest is None or others > mean_share(ranks, str(slowest["rank"]))):
        return f"{job}; they waited for another job {100 * others:.0f} % of the time"
    if slowest is None:
        return f"{job}; no rank delays the others noticeably"
    waiters = [rank for rank in ranks if str(slowest["rank"]) in rank["waits_for"]]
    share = sum(rank["waits_for"][str(slowest["rank"])] for rank in waiters) / len(waiters)
    plural = "" if len(waiters) == 1 else "s"
    return (
        f"{job}; rank {slowest['rank']} (pid {slowest['pid']}) delays the job: "
        f"{len(waiters)} rank{plural} waited for it {100 * share:.0f} % of the time"
    )


def mean_share(ranks, cause):
    return sum(rank["waits_for"].get(cause, 0) for rank in ranks) / max(1, len(ranks))


def rows_of(sample, before):
    """Returns the rows of the table. `before`: the sample before, from which rates are made, or None."""
    last = {rank["rank"]: rank["counters"] for rank in before["ranks"]} if before else {}
    rows = []
    for rank in sample["ranks"]:
        state = rank["state"]
        if state in ("waiting", "inside MPI"):
            state = rank["call"] or state
        rows.append(
            (
                str(rank["rank"]),
                state,
                percent(rank["inside"]),
                percent(rank["waiting"]),
                causes(rank["waits_for"]),
                ", ".join(samples.stream_text(one) for one in rank.get("streams", [])),
                percent(rank["delaying"]) if rank["delaying"] else "",
                rates(rank["counters"], last.get(rank["rank"]), sample["seconds"]),
                str(rank["counters"].get("p2p.unexpected_messages", 0)),
                ", ".join(gpu(one) for one in rank.get("gpus", [])),
                memory(rank["counters"].get("gpu.pool_bytes", 0)),
            )
        )
    return rows


def percent(share):
    return f"{100 * share:.0f} %"


def causes(waits):
    """Returns the ranks that a rank waits for, longest waits first."""
    longest = sorted(waits.items(), key=lambda wait: -wait[1])
    named = [("rank " if cause.isdecimal() else "") + cause for cause, share in longest if share >= 0.005]
    return ", ".join(named[:3]) + (", ..." if len(named) > 3 else "")


def rates(now, before, seconds):
    """Returns the rates of all paths that have moved bytes in the interval, largest first."""
    if before is None:
        return "..."
    moved = {name: now.get(counter, 0) - before.get(counter, 0) for counter, name in PATHS.items()}
    largest = sorted((item for item in moved.items() if item[1] > 0), key=lambda item: -item[1])
    return ", ".join(f"{name} {size(amount / seconds)}/s" for name, amount in largest)


def size(amount):
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:.3g} TB"


def gpu(used):
    """Returns the number of a GPU in its rank, the number that the rank sees, the PCI address and the NUMA distance."""
    text = f"{used['number']} of {used['visible']}: {used['pci'].removeprefix('0000:')}"
    return text + (f", distance {used['numa_distance']}" if used["numa_distance"] > SAME_NODE else "")


def memory(held):
    return f"{held / (1 << 20):.0f} MiB" if held else ""


def find_process(text):
    """Returns a process of the job named on the command line. Raises Refusal."""
    if text is not None and text.isdecimal():
        return int(text)
    found = jobs()
    if text is not None:
        if text not in found:
            raise Refusal(f"no job {text} of this user on this host: specify a process of the job, `weft top PID`")
        return found[text][0]
    if len(found) != 1:
        names = "".join(f"\n  weft top {job}" for job in found)
        raise Refusal(
            f"several jobs of this user run here: specify one of them:{names}"
            if found
            else "no job of this user on this host: specify a process of a rank, `weft top PID`"
        )
    return next(iter(found.values()))[0]


def jobs():
    """Returns the processes that mpiexec has started, by job id, read from their environment."""
    found = {}
    for entry in sorted((name for name in os.listdir("/proc") if name.isdecimal()), key=int):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                variables = file.read().split(b"\0")
            holds_memory = any(is_rank_memory(entry, descriptor) for descriptor in os.listdir(f"/proc/{entry}/fd"))
        except OSError:  # of another user, or ended
            continue
        job = [value[len(b"WEFT_JOB_ID=") :] for value in variables if value.startswith(b"WEFT_JOB_ID=")]
        if job and holds_memory:
            found.setdefault(job[0].decode(errors="replace"), []).append(int(entry))
    return found


def is_rank_memory(process, descriptor):
    try:
        return os.readlink(f"/proc/{process}/fd/{descriptor}") == "/memfd:weft-counters (deleted)"
    except OSError:
        return False
