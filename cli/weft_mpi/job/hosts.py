# SPDX-License-Identifier: BSD-3-Clause
# Hosts of a job, and programs on them: `mpiexec --collect` and the like run on each host, through srun for a Slurm job,
# else through a remote shell such as ssh. Weft has the same path on all hosts.
import collections
import io
import os
import queue
import re
import shlex
import shutil
import socket
import subprocess
import threading
from typing import NamedTuple

from weft_mpi import children, prefix
from weft_mpi.output import Refusal

LIMIT = 15  # seconds for a host that does not answer
CONNECT_LIMIT = 8  # seconds for a connection
AT_ONCE = 64  # remote shells that are started together
HERE = None  # the channel of this host
SRUN_PIECE_BYTES = 1024  # srun cuts lines after so many, and labels and ends each piece (MAX_MSG_LEN of Slurm)


class Answer(NamedTuple):
    """What a host has printed; `problem`: why it has not, or None."""

    host: str
    text: str
    problem: str | None


class Hosts:
    """The hosts on which programs are run. `names`: other hosts and perhaps this one; `slurm`: a Slurm job, whose hosts
    srun knows; `complete`: they are all hosts of the job."""

    def __init__(self, names=(), *, shell="ssh", slurm=None, complete=False):
        self.names = [socket.gethostname() if is_here(name) else name for name in names]
        self.names = list(dict.fromkeys(self.names)) or [socket.gethostname()]
        self.shell, self.slurm, self.complete = shell, slurm, complete
        if slurm and not shutil.which("srun"):
            raise Refusal(
                f"srun is not on the PATH: run this on a host of Slurm, to look at the hosts of its job {slurm}"
            )

    def run(self, *words, seconds=LIMIT):
        """Runs mpiexec with these words on all hosts at the same time. Returns an Answer for each host."""
        if self.slurm:
            return self.run_in_slurm(words, seconds)
        answers = {}
        free = threading.Semaphore(AT_ONCE)

        def ask(host):
            with free:
                answers[host] = run_on(host, self.command(host, words), seconds)

        threads = [threading.Thread(target=ask, args=(host,), daemon=True) for host in self.names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [answers[host] for host in self.names]

    def command(self, host, words):
        """Returns the command that runs mpiexec with these words on a host."""
        program = [prefix.mpiexec(), *words]
        if is_here(host):
            return program
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_LIMIT}"]
        return [*shlex.split(self.shell), *(options if is_ssh(self.shell) else ()), host, shlex.join(program)]

    def slurm_command(self, words):
        """Returns the command that runs mpiexec with these words once on each host of the Slurm job."""
        nodes = slurm_nodes(self.slurm)
        options = f"--jobid={self.slurm} --overlap --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 --mpi=none"
        return ["srun", *options.split(), "--label", "--quiet", "--input=none", prefix.mpiexec(), *words]

    def run_in_slurm(self, words, seconds):
        done = children.run(
            self.slurm_command(words), seconds, environment=outside_of_slurm(), errors="surrogateescape"
        )
        parts = collections.defaultdict(str)
        for task, line in rejoined(io.StringIO(done.out, newline="\n")):
            parts[task] += line
        problem = None if done.good and parts else f"srun: {done.reason()}"
        answers = [Answer(f"task {task} of srun", text, None) for task, text in sorted(parts.items())]
        return answers + ([Answer(f"Slurm job {self.slurm}", "", problem)] if problem else [])

    def lines(self, *words):
        """Runs mpiexec with these words on all hosts, and yields (host, line) as lines arrive, until all programs have
        ended. A host that cannot be reached gives no line; close() ends the programs."""
        arriving = self.lines_of_commands(words)
        return rejoined(line for _, line in arriving) if self.slurm else arriving

    def lines_of_commands(self, words):
        commands = {"Slurm": self.slurm_command(words)} if self.slurm else {
            host: self.command(host, words) for host in self.names
        }  # fmt: skip
        arrived = queue.SimpleQueue()
        self.running = []
        for host, command in commands.items():
            environment = outside_of_slurm() if self.slurm else children.clean_environment()
            child = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True, errors="surrogateescape" if self.slurm else "replace",
            )  # fmt: skip
            self.running.append(child)
            threading.Thread(target=forward, args=(host, child.stdout, arrived), daemon=True).start()
        left = len(commands)
        while left:
            host, line = arrived.get()
            if line is None:
                left -= 1
            else:
                yield host, line

    def close(self):
        for child in self.running:
            child.terminate()
            child.wait()


def forward(host, lines, to):
    for line in lines:
        to.put((host, line))
    to.put((host, None))


def run_on(host, command, seconds):
    done = children.run(command, seconds)
    if done.good:
        return Answer(host, done.out, None)
    if done.timed_out:
        return Answer(host, "", f"no answer within {seconds:g} s")
    return Answer(host, "", (done.error_line() or done.reason()).removeprefix("mpiexec: "))


def is_here(name):
    own = socket.gethostname()
    return name in (own, own.partition(".")[0], "localhost")


def is_ssh(shell):
    return os.path.basename(shlex.split(shell)[0]) == "ssh"


def rejoined(lines):
    """Yields (task, line) for lines of srun --label, decoded with surrogateescape; a line that srun has cut is whole."""
    begun = collections.defaultdict(bytes)
    for line in lines:
        task, text = unlabelled(line)
        piece = text.removesuffix("\n").encode(errors="surrogateescape")
        begun[task] += piece
        if len(piece) < SRUN_PIECE_BYTES:
            yield task, begun.pop(task).decode(errors="replace") + "\n"


def unlabelled(line):
    """Returns (task, text) of a line of srun --label."""
    found = re.match(r" *(\d+): ?", line)
    return (int(found[1]), line[found.end() :]) if found else (-1, line)


def slurm_nodes(job):
    """Returns the number of hosts of a running Slurm job. Raises Refusal."""
    done = children.run(["squeue", "--noheader", f"--jobs={job}", "--states=RUNNING", "--format=%D"], LIMIT)
    if not done.good or not done.out.split():
        raise Refusal(f"Slurm has no running job {job} ({done.error_line() or 'squeue lists none'})")
    return int(done.out.split()[0])


def outside_of_slurm():
    """Returns the environment without the variables of the allocation in which this process runs: they would be defaults
    of srun."""
    keep = ("SLURM_CONF",)
    return {
        name: value
        for name, value in children.clean_environment().items()
        if not name.startswith(("SLURM_", "SRUN_", "SLURMD_")) or name in keep
    }
