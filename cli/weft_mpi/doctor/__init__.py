# SPDX-License-Identifier: BSD-3-Clause
# weft doctor: detects broken and slow configurations of this machine and prints evidence and remedies.
import itertools
import textwrap

from weft_mpi import output
from weft_mpi.doctor import cluster, gpu, host, hosts, network, other
from weft_mpi.doctor.finding import BROKEN, SLOW, STYLES, UNCHECKED, Finding, worst
from weft_mpi.hosts import names

GROUPS = {"host": host.checks, "gpu": gpu.checks, "network": network.checks}


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "doctor",
        help="find what is broken or slow on this machine, with evidence and remedies",
        description=run.__doc__,
        epilog="Examples: weft doctor; weft doctor --hosts node1,node2; srun --ntasks-per-node=1 weft doctor; weft doctor "
        "--mpi /opt/openmpi/bin/mpicc. "
        "Exit status: 0: nothing is broken; 1: a check is broken (with --strict: or slow); 2: bad input.",
    )
    parser.add_argument("--only", choices=sorted(GROUPS), action="append", help="run only these checks")
    parser.add_argument(
        "--hosts", metavar="HOSTS", type=names, help="check these hosts over ssh, and messages between them: a,b,c"
    )
    parser.add_argument("--mpi", metavar="MPICC", help="check another MPI library instead: does it accept GPU memory?")
    parser.add_argument("--strict", action="store_true", help="exit status 1 also if a check is slow")
    parser.add_argument("--all", action="store_true", help="print a line for each check that does not apply here")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def run(arguments):
    """Checks the driver, GPUs and all GPU pairs, host limits, network adapters, GPUDirect and gdrcopy by performing and
    timing the operations of real programs. Under mpiexec or srun on several nodes, or with --hosts, prints one merged table."""
    if arguments.mpi and arguments.hosts:
        raise output.Refusal("--hosts with --mpi: another MPI is checked on this host only")
    if arguments.mpi:
        return report({"here": list(other.checks(arguments.mpi))}, arguments)
    groups = arguments.only or list(GROUPS)
    if arguments.hosts:
        return report(hosts.survey(arguments.hosts, groups), arguments)
    if cluster.started_by_launcher():
        return run_in_job(groups, arguments)
    findings = []
    with output.progress(len(groups), "checking") as step:
        for name in groups:
            step(name)
            findings += GROUPS[name]()
    return report({"here": findings}, arguments)


def run_in_job(groups, arguments):
    try:
        job = cluster.Job()
    except OSError as problem:
        raise output.Failure(
            f"the ranks of this job cannot connect ({problem}): start the job like an MPI program on Weft, "
            "by mpiexec, or by srun --mpi=pmix or pmi2"
        ) from None
    nodes = cluster.survey(job, lambda: itertools.chain(*(GROUPS[name]() for name in groups)))
    status = job.share(report(nodes, arguments) if nodes is not None else None)
    job.end()
    return status


def report(nodes, arguments):
    """Prints the findings and returns the exit status."""
    everything = [finding for findings in nodes.values() for finding in findings]
    bad = {BROKEN, SLOW} if arguments.strict else {BROKEN}
    status = 1 if any(finding.status in bad for finding in everything) else 0
    if arguments.json:
        listed = {node: [finding._asdict() for finding in findings] for node, findings in nodes.items()}
        print(output.json_text({"worst": worst(everything), "nodes": listed}), end="")
        return status
    several = len(nodes) > 1
    rows = cluster.merge(nodes)
    hidden = [] if arguments.all else [row for row in rows if is_hidden(row, several)]
    remedies = show([row for row in rows if row not in hidden], several)
    print("".join(f"{line}\n" for line in collapsed(hidden)), end="")
    for number, remedy in enumerate(remedies, 1):
        print(("\n" if number == 1 else "") + f"{number}. {remedy}")
    return status


def is_hidden(row, several):
    """Returns True for a row that only reports that its check does not apply, on all nodes."""
    return row[1] == UNCHECKED and not row[4] and (not several or row[2].startswith("all "))


def collapsed(rows):
    """Yields lines for checks that do not apply to this machine: the reason once, and the names of its checks."""
    reasons = {}
    for check, _, _, evidence, _ in rows:
        reasons.setdefault(evidence, []).append(check)
    if rows:
        yield "not checked (`weft doctor --all` lists them all):"
    for evidence, checks in reasons.items():
        if len(checks) > 1:
            yield textwrap.fill(f"  {evidence}: {', '.join(checks)}", 80, subsequent_indent="    ")
    others = [checks[0] for checks in reasons.values() if len(checks) == 1]
    if others:
        yield textwrap.fill(f"  for other reasons: {', '.join(others)}", 80, subsequent_indent="    ")


def show(rows, several):
    """Prints the table with numbered references to remedies. Returns the remedies."""
    remedies, cells = [], []
    for check, status, where, evidence, remedy in rows:
        if remedy and remedy not in remedies:
            remedies.append(remedy)
        number = f"see {remedies.index(remedy) + 1}" if remedy else ""
        cells.append([check, status, *([where] if several else []), evidence, number])
    if not cells:
        return remedies
    headings = ["check", "status", *(["nodes"] if several else []), "evidence", "remedy"]
    if not remedies:
        headings, cells = headings[:-1], [row[:-1] for row in cells]
    output.table(headings, cells, style=lambda row: STYLES[row[1]])
    return remedies


__all__ = ["Finding", "add_parser", "run"]
