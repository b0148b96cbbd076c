# SPDX-License-Identifier: BSD-3-Clause
# weft jobs: lists the running jobs of this user on this host or others.
from weft_mpi import output
from weft_mpi.job import find, states


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "jobs",
        help="list the running jobs of this user",
        description=run.__doc__,
        epilog="example: weft jobs --hosts node1,node2. The id is what --job of weft hang, top, report and export takes.",
    )
    find.add_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def run(arguments):
    """Lists the running jobs of this user on this host, on the hosts of --hosts, or on all hosts of --job: id, launcher,
    number of ranks that were found, hosts, and how many ranks wait in MPI calls for at least 50 ms."""
    try:
        found = find.collect(arguments.job, arguments.hosts)
        jobs = [facts(job, text) for job, text in found.jobs.items()]
        problems = found.problems
    except find.NoJob as none:
        if arguments.job is not None:
            raise
        jobs, problems = [], none.problems
    if arguments.json:
        failed = [{"host": one.host, "problem": one.problem} for one in problems]
        print(output.json_text({"jobs": jobs, "not_reached": failed}), end="")
        return 0
    if jobs:
        rows = [(one["job"], one["launcher"], f"{one['found']} of {one['ranks']}", ", ".join(one["hosts"]),
                 str(one["waiting"]), str(one["pid"])) for one in jobs]  # fmt: skip
        output.table(("job", "launcher", "ranks", "hosts", "waiting", "pid"), rows, ("ranks", "waiting", "pid"))
    else:
        print("no running job of this user")
    for one in problems:
        print(f"host {one.host} was not reached: {one.problem}")
    return 0


def facts(job, text):
    """Returns what is known about a job."""
    ranks = states.ranks_in(text)
    return {
        "job": job,
        "launcher": ranks[0].launcher,
        "ranks": ranks[0].size,
        "found": len(ranks),
        "hosts": sorted({rank.host for rank in ranks}),
        "waiting": sum(bool(rank.waits) for rank in ranks),
        "pid": ranks[0].pid,
    }
