# SPDX-License-Identifier: BSD-3-Clause
# weft hang: prints the MPI call in which each rank of a running job is blocked, as read from outside, without stopping
# ranks: by `mpiexec --waits` on this host; with --job or --hosts by `mpiexec --collect` on each host, whose answers
# `mpiexec --conclude` joins.
import argparse
import json
import subprocess

from weft_mpi import output, prefix
from weft_mpi.job import find, states
from weft_mpi.output import Failure, Refusal


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "hang",
        help="print what each rank of a running job waits for",
        description=run.__doc__,
        epilog="example: weft hang $(pgrep -n my_program); on all its hosts: weft hang --job $(pgrep -o mpiexec). "
        "Exit status: 0: no rank waits; 1: some ranks wait.",
    )
    parser.add_argument(
        "pid",
        type=process,
        nargs="?",
        help="a process of the job on this host, or its mpiexec (default: search for a job)",
    )
    find.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def process(text):
    """Parses the id of a process."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not the id of a process (--job takes the id of a job)")
    return int(text)


def run(arguments):
    """Prints what each rank of a job waits for: MPI call, communicator, peer, tag, duration, missing ranks of a
    collective, and deadlocks. Covers the ranks on this host, or on all hosts of a job with --job or --hosts; they
    belong to the current user and are not stopped. Waits appear after 50 ms."""
    if arguments.job or arguments.hosts:
        if arguments.pid is not None:
            raise Refusal("a process and --job or --hosts: use --job PID to look at all hosts of its job")
        return run_on_hosts(arguments)
    command = [prefix.mpiexec(), "--waits", "all" if arguments.pid is None else str(arguments.pid)]
    done = subprocess.run(command + ["--json"] * arguments.json, capture_output=True, text=True, check=False)
    message = done.stderr.strip().removeprefix("mpiexec: ")
    if done.returncode == 2:
        raise Refusal(message)
    if done.returncode not in (0, 1):
        raise Failure(message or f"mpiexec --waits ended with status {done.returncode}")
    print(done.stdout, end="")
    return done.returncode


def run_on_hosts(arguments):
    if arguments.job:
        found, _ = find.one_job(arguments.job, arguments.hosts, "hang")
    else:
        found = find.collect(None, arguments.hosts)
    lines, status = [], 0
    jobs = []
    for job, text in found.jobs.items():
        waits, what = states.conclude(text, whole=found.whole, json=arguments.json)
        status = max(status, waits)
        if arguments.json:
            jobs.append(json.loads(what))
        else:
            lines += [f"job {job}:"] * (len(found.jobs) > 1) + what.splitlines()
    if arguments.json:
        problems = [{"host": one.host, "problem": one.problem} for one in found.problems]
        print(output.json_text({**jobs[0], "not_reached": problems} if len(jobs) == 1 else jobs), end="")
    else:
        lines += [f"host {one.host} was not reached: {one.problem}" for one in found.problems]
        print("\n".join(lines))
    return status
