# SPDX-License-Identifier: BSD-3-Clause
# weft check: runs a program with WEFT_CHECK=on and sums up the reports of all ranks.
#
# The library writes to standard error, a line for each report and one at the end of each process (src/api/check.cpp):
#     weft[0]: WEFT_CHECK: TEXT
#     weft[0]: MPI_Send failed: WEFT_CHECK: TEXT (MPI_ERR_...). The error handler aborts; ...
#     weft[0]: WEFT_CHECK=gpu: TEXT                 a part of the check that does not take place
#     weft[0]: WEFT_CHECK summary: calls=12 gpu_compared=3 ...
import os
import re
import subprocess
import sys

from weft_mpi import children
from weft_mpi.output import Failure, Refusal

SUMMARY = re.compile(rb"weft\[(\d+)\]: WEFT_CHECK summary: (.*)")
NOTE = re.compile(r"(?:weft\[(\d+)\]: )?WEFT_CHECK=gpu: (.*)")
REPORT = re.compile(r"(?:weft\[(\d+)\]: )?(.*?)WEFT_CHECK: (.*)")
HANDLER = re.compile(r" \(MPI_ERR_\w+\)\. The error handler aborts;.*")
QUIET = ("none", "error")  # values of WEFT_LOG that would hide reports


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "check",
        help="run a program and sum up its mistakes in the use of MPI",
        description=run.__doc__,
        epilog="example: weft check mpiexec -n 4 ./program. Exit status: 1 if there are reports, else that of the "
        "program.",
    )
    parser.add_argument("command", metavar="PROGRAM", help="the launcher or program to run")
    parser.add_argument("arguments", nargs="...", metavar="...", help="its arguments")
    return parser


def run(arguments):
    """Runs a program with WEFT_CHECK=on and sums up the reports of all ranks: GPU buffers that queued work changes while
    a call uses them, mismatched collectives and datatypes, requests and objects that leak, messages that are never
    received. GPU buffers are reported without ending the program; the other mistakes are errors of the call."""
    level = "warn" if os.environ.get("WEFT_LOG", "warn") in QUIET else os.environ.get("WEFT_LOG")
    environment = children.clean_environment(
        WEFT_CHECK="on", WEFT_CHECK_GPU_RACES="report", WEFT_CHECK_SUMMARY="on", WEFT_LOG=level
    )
    found = Findings()
    command = [arguments.command, *arguments.arguments]
    try:
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) as child:
            for line in child.stderr:
                if not found.add(line):
                    sys.stderr.buffer.write(line)
                    sys.stderr.buffer.flush()
            status = child.wait()
    except OSError as error:
        raise Refusal(f"{arguments.command} cannot be started ({error.strerror})") from None
    if not found.ended and not found.reports and status == 0:
        raise Failure("no rank of Weft has ended MPI: is the program an MPI program that runs on Weft?")
    status = status if status >= 0 else 128 - status
    sys.stderr.flush()
    print(found.text(status))
    return 1 if found.reports else status


class Findings:
    """The reports of all ranks. `reports`: ranks by text, in the order of the first one; `notes`: the same of parts of
    the check that did not take place; `ended`: the number of processes that have ended MPI."""

    def __init__(self):
        self.reports, self.notes, self.counts = {}, {}, {}
        self.ended = 0

    def add(self, line):
        """Takes a line of standard error. Returns True if it is not for the user."""
        if match := SUMMARY.search(line):
            self.ended += 1
            for word in match[2].split():
                name, _, value = word.decode().partition("=")
                self.counts[name] = self.counts.get(name, 0) + int(value)
            return True
        text = line.decode(errors="replace").rstrip("\n")
        if match := NOTE.search(text):
            self.notes.setdefault(match[2], []).append(match[1])
        elif match := REPORT.search(text):
            call = match[2].replace(" failed: ", ": ")
            self.reports.setdefault(call + HANDLER.sub("", match[3]), []).append(match[1])
        return False

    def text(self, status):
        """Returns the summary. `status`: of the program."""
        total = sum(map(len, self.reports.values()))
        lines = [f"weft check: {total or 'no'} report{'' if total == 1 else 's'}"]
        lines[0] += f" in {self.counts.get('calls', 0)} MPI calls of {plural(self.ended, 'rank')} that ended MPI"
        compared, undecided = self.counts.get("gpu_compared", 0), self.counts.get("gpu_undecided", 0)
        if compared or undecided:
            lines[0] += f"; {plural(compared, 'GPU buffer')} with queued work compared"
        if undecided:
            lines[0] += f", {undecided} not (the work did not end in time)"
        for text, ranks in self.reports.items():
            lines.append(f"  {len(ranks)} x {of_ranks(ranks)}: {text}")
        for text, ranks in self.notes.items():
            lines.append(f"  not checked, {of_ranks(ranks)}: {text}")
        if status:
            lines.append(f"  the program ended with status {status}")
        return "\n".join(lines)


def plural(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


def of_ranks(ranks):
    """Returns "rank 1" or "ranks 0, 2"; `ranks`: texts, None for a line without a rank."""
    known = sorted({int(rank) for rank in ranks if rank is not None})
    if not known:
        return "some rank"
    return ("rank " if len(known) == 1 else "ranks ") + ", ".join(map(str, known))
