# SPDX-License-Identifier: BSD-3-Clause
# weft run-info: prints for which MPI a program was built, as read by `mpiexec --run-info` from the file, and what else may
# give it another MPI.
import subprocess

from weft_mpi import conflicts, prefix
from weft_mpi.output import Refusal


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "run-info",
        help="print for which MPI a program was built",
        description=run.__doc__,
        epilog="example: weft run-info $(which lmp). Exit status: 0: it runs; 126: a library or symbol is missing.",
    )
    parser.add_argument("program", help="a program, a script or a shared library")
    return parser


def run(arguments):
    """Prints the MPI library with which a program is linked, the library that mpiexec gives it, the number of MPI
    symbols that it imports, and the symbols that Weft lacks; then other packages of MPI in this environment, and
    commands of another MPI on the PATH. Nothing is started."""
    command = [prefix.mpiexec(), "--run-info", arguments.program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 126):
        raise Refusal(done.stderr.strip().removeprefix("mpiexec: ").removeprefix("--run-info: "))
    print(done.stdout, end="")
    for conflict in conflicts.find():
        print(f"another MPI: {conflict.text}\n  remedy: {conflict.remedy}")
    return done.returncode
