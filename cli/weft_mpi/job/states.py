# SPDX-License-Identifier: BSD-3-Clause
# States of ranks, as `mpiexec --collect` prints them (src/mpiexec/states.cpp): lines of fields that tabs separate.
import subprocess
from typing import NamedTuple

from weft_mpi import prefix
from weft_mpi.output import Failure

TITLE = "weft-states 2"
STATES = ("outside MPI", "inside MPI", "waiting", "left MPI", "ended")


class Rank(NamedTuple):
    """`waits`: seconds of its waits; `counters`: {name: Counter}."""

    job: str
    host: str
    launcher: str
    size: int
    rank: int
    pid: int
    state: str
    waits: list
    counters: dict


class Counter(NamedTuple):
    """`unit`: "events", "bytes", "ns" or "objects"; `kind`: "total", "level" or "high water"."""

    value: int
    unit: str
    kind: str


def by_job(answers):
    """Returns {job id: text}, each text with its title. Raises Failure for a host with another version of Weft."""
    jobs = {}
    for answer in answers:
        if answer.problem is not None:
            continue
        title, _, rest = answer.text.partition("\n")
        if title != TITLE:
            raise Failure(f"{answer.host}: its Weft is of another version, or its shell prints text: {title[:80]!r}")
        job = None
        for line in rest.splitlines(keepends=True):
            if line.startswith("rank\t"):
                job = line.split("\t")[2]
            jobs[job] = jobs.get(job, TITLE + "\n") + line
    return jobs


def ranks_in(text):
    """Returns the ranks in a text, each once."""
    found = {}
    for line in text.splitlines():
        kind, *fields = line.split("\t")
        if kind == "rank":
            state, job, host, launcher, size, rank, pid = fields[:7]
            last = Rank(job, host, launcher, int(size), int(rank), int(pid), STATES[int(state)], [], {})
            if last.rank not in found or found[last.rank].state == STATES[-1]:
                found[last.rank] = last
        elif kind == "wait":
            last.waits.append(float(fields[11]))
        elif kind == "counter":
            name, value, unit, counter_kind = fields
            last.counters[name] = Counter(int(value), unit, counter_kind)
    return [found[rank] for rank in sorted(found)]


def here(what):
    """Returns the text of this host. Raises Failure."""
    done = subprocess.run([prefix.mpiexec(), "--collect", what], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(done.stderr.strip().removeprefix("mpiexec: "))
    return done.stdout


def ids_of_process(pid):
    """Returns the ids of the jobs to which a process or its descendants belong."""
    return {line.split("\t")[2] for line in here(f"{pid},ids").splitlines() if line.startswith("rank\t")}


def ids_here():
    """Returns {job id: a process of it} of this host."""
    found = {}
    for rank in (line.split("\t") for line in here("all,ids").splitlines() if line.startswith("rank\t")):
        found.setdefault(rank[2], int(rank[7]))
    return found


def conclude(text, *, whole, json):
    """Returns (exit status, what the ranks wait for as text or JSON). Raises Failure."""
    how = ",".join(["text", *(["json"] if json else []), *(["whole"] if whole else [])])
    done = subprocess.run(
        [prefix.mpiexec(), "--conclude", how], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise Failure(done.stderr.strip().removeprefix("mpiexec: "))
    return done.returncode, done.stdout
