# SPDX-License-Identifier: BSD-3-Clause
# weft hang: prints the MPI call in which each rank of a running job on this host is blocked, as read by
# `mpiexec --waits` from outside, without stopping ranks.
import subprocess

from weft_mpi import prefix
from weft_mpi.output import Failure, Refusal


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
    """Prints what each rank of a job waits for: MPI call, communicator, peer, tag, duration, missing ranks of a
    collective, and deadlocks. Covers the ranks on this host, which belong to the current user and are not stopped.
    Waits appear after 50 ms."""
    command = [prefix.mpiexec(), "--waits", "all" if arguments.pid is None else str(arguments.pid)]
    done = subprocess.run(command + ["--json"] * arguments.json, capture_output=True, text=True, check=False)
    message = done.stderr.strip().removeprefix("mpiexec: ")
    if done.returncode == 2:
        raise Refusal(message)
    if done.returncode not in (0, 1):
        raise Failure(message or f"mpiexec --waits ended with status {done.returncode}")
    print(done.stdout, end="")
    return done.returncode
