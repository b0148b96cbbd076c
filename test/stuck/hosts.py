#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Jobs on two to four fake hosts that are stuck: `weft hang --job` names the cause, within 2 s.
# usage: hosts.py PROGRAM MIXED ENQUEUED [--all]: the programs of programs.c, mixed.cpp and enqueued.cpp; without --all
# a few cases
import os
import re
import subprocess
import sys
import time

from cases import CASES, RANKS

PROGRAM, MIXED, ENQUEUED = sys.argv[1:4]
ALL = "--all" in sys.argv
SECONDS = 40  # in which the texts must appear
COMMAND_SECONDS = 2.0  # for the command that finds them, on idle cores
TRIES = 3  # of the command, on a busy machine
# Cases of programs.c: each kind of blocking call. Ranks and hosts: RANKS, or two on two.
CALLS = [
    "recv_recv", "ssend_ssend", "large_sends", "tags", "communicators", "any_source", "chain", "sendrecv", "probe",
    "waitall", "persistent", "bcast_reduce", "order", "barrier_recv", "two_communicators", "nonblocking", "split",
    "alltoall_recv", "window_locks", "window_fence", "window_start",
]  # fmt: skip
WINDOW = r"on \"communicator of a window\" \(4 ranks\) since [\d.]+ s"
MIXED_CASES = {
    "all_kinds": [
        r"rank 0 .*: outside MPI.*; in stream 0x\w+: MPIX_Recv_enqueue on \"in order\" \(2 ranks\) since [\d.]+ s: "
        r"receive from rank 1, tag 5",
        rf"rank 2 .*: MPI_Win_lock {WINDOW}: lock of rank 3, held exclusively by rank 0",
        r"\npossible deadlock: a stream of rank 0 waits in MPIX_Recv_enqueue for rank 1, rank 1 waits in MPI_Recv for "
        r"rank 2, rank 2 waits in MPI_Win_lock for rank 0 \(unless rank 0, outside of MPI, does not wait for its stream\)",
    ],
    "streams": [
        r"\npossible deadlock: a stream of rank 0 waits in MPIX_Recv_enqueue for rank 1, a stream of rank 1 waits in "
        r"MPIX_Recv_enqueue for rank 0: both receive, neither sends \(unless ranks 0, 1, outside of MPI, do not wait",
        r"\npossible deadlock: a stream of rank 2 waits in MPIX_Recv_enqueue for rank 3",
    ],
    "locks": [
        rf"rank 1 .*: MPI_Win_lock {WINDOW}: lock of rank 2, held exclusively by rank 2",
        r"\ndeadlock: rank 0 waits in MPI_Win_lock for rank 1, rank 1 waits in MPI_Win_lock for rank 2, rank 2 waits in "
        r"MPI_Win_lock for rank 3, rank 3 waits in MPI_Win_lock for rank 0",
    ],
    "remote_lock": [
        rf"rank 1 .*: MPI_Win_lock {WINDOW}: lock of rank 2, held exclusively by rank 0",
        r"\ndeadlock: rank 0 waits in MPI_Recv for rank 1, rank 1 waits in MPI_Win_lock for rank 0",
    ],
    "shared_lock": [
        rf"rank 1 .*: MPI_Win_lock {WINDOW}: lock of rank 2, held shared by rank 0",
        r"\ndeadlock: rank 0 waits in MPI_Recv for rank 1, rank 1 waits in MPI_Win_lock for rank 0",
    ],
    "dead": [
        r"rank 3 \(pid \d+\): has ended",
        r"\ndeadlock: rank 0 waits in MPI_Recv for rank 2, rank 2 waits in MPI_Recv for rank 0: both receive, neither sends",
    ],
}  # fmt: skip
STREAM = r"; in stream 0x\w+: "
SINCE = r" since [\d.]+ s"
FIRST, SECOND = (rf' on "{name}" \(2 ranks\)' for name in ("first", "second"))
ENQUEUE = "MPIX_Allreduce_enqueue"
DOUBT = r" \(unless rank 0, outside of MPI, does not wait for its stream\)"
BOTH_DOUBT = r" \(unless ranks 0, 1, outside of MPI, do not wait for their streams\)"
ENQUEUED_CASES = {
    "not_enqueued": [
        rf"rank 0 .*: outside MPI.*{STREAM}{ENQUEUE}{FIRST}{SINCE}; waits for rank 1; rank 1 has not enqueued it",
        rf"rank 2 .*{ENQUEUE}{FIRST}{SINCE}; waits for rank 1 \(rank 3 of MPI_COMM_WORLD\); rank 1 has not enqueued it",
        rf"\npossible deadlock: a stream of rank 0 waits in {ENQUEUE} for rank 1, rank 1 waits in MPI_Recv for rank 0{DOUBT}",
        rf"\npossible deadlock: a stream of rank 2 waits in {ENQUEUE} for rank 3, rank 3 waits in MPI_Recv for rank 2",
    ],
    "opposite_order": [
        rf"rank 0 .*{STREAM}{ENQUEUE}{FIRST}{SINCE}; waits for rank 1; rank 1 has enqueued it behind {ENQUEUE}; "
        rf"behind it: {ENQUEUE}{SECOND}\n",
        rf"rank 1 .*{STREAM}{ENQUEUE}{SECOND}{SINCE}; waits for rank 0; rank 0 has enqueued it behind {ENQUEUE}; "
        rf"behind it: {ENQUEUE}{FIRST}\n",
        rf"\npossible deadlock: a stream of rank 0 waits in {ENQUEUE} for rank 1, a stream of rank 1 waits in {ENQUEUE} "
        rf'for rank 0: on different communicators \("first" \(2 ranks\) and "second" \(2 ranks\)\){BOTH_DOUBT}',
    ],
    "behind_receive": [
        rf"rank 0 .*{STREAM}MPIX_Recv_enqueue{FIRST}{SINCE}: receive from rank 1, tag 5, .*; "
        rf"behind it: {ENQUEUE}{SECOND}\n",
        rf"rank 1 .*{STREAM}{ENQUEUE}{SECOND}{SINCE}; waits for rank 0; rank 0 has enqueued it behind MPIX_Recv_enqueue\n",
        r"\npossible deadlock: a stream of rank 0 waits in MPIX_Recv_enqueue for rank 1, a stream of rank 1 waits in "
        rf"{ENQUEUE} for rank 0{BOTH_DOUBT}",
    ],
    "blocking_barrier": [
        rf"rank 1 .*{STREAM}{ENQUEUE}{FIRST}{SINCE}; waits for rank 0; rank 0 has not enqueued it",
        rf"rank(s 0, 2| 0 .*): MPI_Barrier on MPI_COMM_WORLD{SINCE}; waits for ranks 1, 3",
        rf"\npossible deadlock: rank 0 waits in MPI_Barrier for rank 1, a stream of rank 1 waits in {ENQUEUE} for rank 0"
        r": on different communicators",
    ],
    "both_hosts": [
        rf"rank 0 .*{STREAM}{ENQUEUE}{FIRST}{SINCE}; waits for rank 1; rank 1 has not enqueued it; "
        rf"behind it: {ENQUEUE}{FIRST} and 598 more calls\n",
        rf"\npossible deadlock: a stream of rank 0 waits in {ENQUEUE} for rank 1, rank 1 waits in MPI_Recv for rank 2, "
        rf"a stream of rank 2 waits in {ENQUEUE} for rank 3, rank 3 waits in MPI_Recv for rank 0 \(unless ranks 0, 2, ",
    ],
    "overwritten": [
        rf"rank 0 .*; in a stream: a collective{FIRST}{SINCE}; waits for rank 1; rank 1 has not enqueued it\n",
        r"\npossible deadlock: a stream of rank 0 waits in a collective for rank 1, rank 1 waits in MPI_Recv for rank 0",
    ],
    "in_graph": [
        rf"rank 0 .*{STREAM}{ENQUEUE}{SECOND}{SINCE}; waits for rank 1\n",
        rf"\npossible deadlock: a stream of rank 0 waits in {ENQUEUE} for rank 1, rank 1 waits in MPI_Recv for rank 0{DOUBT}",
    ],
    "by_kernels": [
        rf'rank 0 .*: MPI_Wait{SINCE}{STREAM}MPI_Iallreduce on "kernels" \(2 ranks\){SINCE}; waits for rank 1; '
        "rank 1 has not enqueued it",
        r"\ndeadlock: a stream of rank 0 waits in MPI_Iallreduce for rank 1, rank 1 waits in MPI_Recv for rank 0\n",
    ],
    "by_host": [
        rf'rank 0 .*: in stream 0x\w+: MPI_Recv on "words" \(2 ranks\){SINCE}: receive from rank 1, tag 9, .*; '
        r'behind it: MPI_Allreduce on "words" \(2 ranks\)\n',
        rf'rank 1 .*: MPI_Allreduce on "words" \(2 ranks\){SINCE}; waits for rank 0; rank 0 has enqueued it behind MPI_Recv\n',
        r"\n(possible )?deadlock: a stream of rank 0 waits in MPI_Recv for rank 1, rank 1 waits in MPI_Allreduce for rank 0",
    ],
}  # fmt: skip
OF_KIND = {"calls": CASES, "mixed": MIXED_CASES, "enqueued": ENQUEUED_CASES}
QUICK = [
    ("calls", "chain"), ("mixed", "all_kinds"), ("mixed", "remote_lock"), ("enqueued", "opposite_order"),
    ("enqueued", "by_host"),
]  # fmt: skip


def limit():
    """Seconds for the command: longer on busy cores."""
    return COMMAND_SECONDS * max(1, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def texts_of(kind, case):
    """Several hosts: each rank has the name of its host."""
    return [text.replace(r"\(pid \d+\)", r"\(pid \d+ on \S+\)") for text in OF_KIND[kind][case]]


def command(kind, case):
    if kind == "mixed":
        options = ["--continue-on-failure"] if case == "dead" else []
        return 2, ["mpiexec", "-n", "4", *options, MIXED, case]
    if kind == "enqueued":
        return 2, ["mpiexec", "-n", "4", ENQUEUED, case]
    ranks = RANKS.get(case, 4 if case == "chain" else 2)
    return ranks, ["mpiexec", "-n", str(ranks), PROGRAM, "multiple", case]


def look(kind, case):
    """Returns (error text or None, seconds of the command that has found the cause)."""
    hosts, words = command(kind, case)
    texts, name = texts_of(kind, case), f"{kind} {case}"
    job = subprocess.Popen(
        words, env={**os.environ, "WEFT_FAKE_HOSTS": str(hosts)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        if not job.stdout.readline().strip():
            return f"{name}: does not start: {job.stderr.read()}", 0
        deadline = time.time() + SECONDS
        shortest, tries = SECONDS, 0
        while True:
            begin = time.time()
            done = subprocess.run(["weft", "hang", "--job", str(job.pid)], capture_output=True, text=True, check=False)
            seconds = time.time() - begin
            missing = [text for text in texts if not re.search(text, "\n" + done.stdout)]
            if not missing:
                shortest = min(shortest, seconds)
                tries += 1
                if shortest <= limit() or tries == TRIES:
                    return None, shortest
            if job.poll() is not None:
                return f"{name}: has ended: {job.stdout.read()}{job.stderr.read()}", seconds
            if time.time() > deadline:
                return f"{name}: lacks {missing} in\n{done.stdout}{done.stderr}", seconds
            time.sleep(0.1)
    finally:
        job.terminate()
        job.communicate()


def main():
    cases = [("calls", case) for case in CALLS]
    cases += [(kind, case) for kind in ("mixed", "enqueued") for case in OF_KIND[kind]]
    cases = cases if ALL else QUICK
    errors, longest = [], 0.0
    for kind, case in cases:
        error, seconds = look(kind, case)
        longest = max(longest, seconds)
        if error is None and seconds > limit():
            error = f"{kind} {case}: the command took {seconds:.1f} s"
        print(f"{kind} {case}: {seconds:.2f} s", flush=True)
        errors += [error] if error else []
    print("\n".join(errors) or f"{len(cases)} jobs: every cause is named, the longest command took {longest:.2f} s")
    return len(errors) != 0


if __name__ == "__main__":
    sys.exit(main())
