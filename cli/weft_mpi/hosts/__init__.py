# SPDX-License-Identifier: BSD-3-Clause
# weft hosts: lists and sets up the hosts on which `mpiexec --hosts` starts processes over ssh.
from __future__ import annotations

import argparse

from weft_mpi import output
from weft_mpi.hosts import package, record, setup
from weft_mpi.output import Refusal

READY = "ready"


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "hosts",
        help="set up other hosts for mpiexec --hosts, and list them",
        description=run.__doc__,
        epilog="example: weft hosts --setup node1,node2; mpiexec --hosts node1,node2 -n 4 ./program. Exit status: 0: all "
        "hosts are ready; 1: a host is not; 2: bad input or a missing requirement.",
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--setup", metavar="HOSTS", type=names, help="install the launcher here and on these hosts: a,b,c"
    )
    action.add_argument("--remove", metavar="HOSTS", type=names, help="remove the launcher from these hosts")
    parser.add_argument(
        "--wheel", metavar="FILE", help=f"with --setup: the wheel of {package.NAME}; without it pip downloads it"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def names(text: str) -> list[str]:
    """Returns the hosts of a list as of `mpiexec --hosts`, without numbers of processes and duplicates."""
    found = list(dict.fromkeys(entry.partition(":")[0].strip() for entry in text.split(",")))
    for name in found:
        if not name or name.startswith("-") or any(c.isspace() or c in "/'\"" for c in name):
            raise argparse.ArgumentTypeError(f"'{name}' is not the name of a host, such as node1")
    return found


def run(arguments):
    """Lists the hosts on which the launcher over ssh is set up, after a connection to each. --setup installs it here and on
    other hosts, in a folder of its own: the launcher Hydra of MPICH, which `mpiexec --hosts` starts."""
    if arguments.wheel and not arguments.setup:
        raise Refusal("--wheel without --setup: it names the file to install")
    if arguments.remove:
        states = setup.remove(arguments.remove)
    elif arguments.setup:
        states = setup.install(arguments.setup, arguments.wheel)
    else:
        states = setup.check(record.hosts())
    version = record.version()
    if arguments.json:
        listed = [{"host": host, "state": state, "remedy": remedy} for host, (state, remedy) in states.items()]
        print(output.json_text({"launcher": version, "folder": record.folder(), "hosts": listed}), end="")
    else:
        show(states, version)
    return 0 if all(state in (READY, setup.REMOVED) for state, _ in states.values()) else 1


def show(states, version):
    """Prints the launcher, a line for each host, and the remedies."""
    if not version and not states:
        print(
            "no launcher is set up (mpiexec --hosts uses Slurm, prterun or mpiexec.hydra): weft hosts --setup HOST,HOST"
        )
        return
    print(f"launcher {version or 'none'} in {record.folder()}")
    if states:
        output.table(["host", "state"], [[host, state] for host, (state, _) in states.items()])
    for remedy in dict.fromkeys(remedy for _, remedy in states.values() if remedy):
        print(f"  {remedy}")
