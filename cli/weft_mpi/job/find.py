# SPDX-License-Identifier: BSD-3-Clause
# Finds running jobs and the hosts of a job. A job has an id that is equal on all its hosts; on the command line it may
# also be named by a process on this host (a rank or the launcher), or by the number of a Slurm job.
import argparse
import re
import shutil
from typing import NamedTuple

from weft_mpi.job import hosts as job_hosts
from weft_mpi.job import launcher, states
from weft_mpi.output import Failure, Refusal

OWN_ID = "weft-"  # begins the ids of Weft's mpiexec (src/mpiexec/plan.cpp)


class NoJob(Refusal):
    """There is no such job; `problems`: Answer of each host that was not reached."""

    def __init__(self, text, problems):
        super().__init__(text)
        self.problems = problems


def job_name(text):
    """Returns the name of a job. An empty one is that of an unset variable, and names none."""
    if not text:
        raise argparse.ArgumentTypeError("'' is not a job; `weft jobs` lists the jobs")
    return text


def host_names(text):
    """Returns the hosts of a list with commas, which may end with one."""
    found = [name for name in text.split(",") if name]
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' has no host: use names such as node1,node2")
    return found


def add_arguments(parser):
    """Adds the options that choose a job of several hosts."""
    parser.add_argument(
        "--job", metavar="JOB", type=job_name, help="all hosts of this job: an id as in `weft jobs`, a process of the job or its "
        "launcher on this host, or the number of a Slurm job",
    )  # fmt: skip
    parser.add_argument(
        "--hosts", metavar="A,B", type=host_names,
        help="look at these hosts, through ssh (default with --job: the hosts of the launcher)",
    )  # fmt: skip


class Found(NamedTuple):
    """The states of one job or several, and where they were looked for."""

    jobs: dict  # text of the states by job id
    hosts: job_hosts.Hosts
    problems: list  # Answer of each host that was not reached
    answers: list  # of the other hosts

    @property
    def whole(self):
        """Whether all hosts of the job were looked at."""
        return self.hosts.complete and not self.problems


def collect(job, names, *, counters=False):
    """Returns what the ranks of a job do, or of all jobs if `job` is None. Raises Refusal if there is no such job."""
    where, matches = places(job, names)
    answers = where.run("--collect", "all,counters" if counters else "all")
    problems = [answer for answer in answers if answer.problem is not None]
    if len(problems) == len(answers):
        raise Failure("no host was reached:" + "".join(f"\n  {one.host}: {one.problem}" for one in problems))
    jobs = states.by_job(answers)
    chosen = {name: text for name, text in jobs.items() if matches(name)}
    if not chosen:
        raise NoJob(nothing_found(job, where, jobs, problems), problems)
    return Found(chosen, where, problems, [answer for answer in answers if answer.problem is None])


def one_job(job, names, command):
    """Returns what collect() does, and the id of the job. Raises Refusal if there are several."""
    found = collect(job, names)
    if len(found.jobs) > 1:
        lines = "".join(f"\n  weft {command} --job {one}" for one in found.jobs)
        raise Refusal(f"several jobs: specify one of them:{lines}")
    return found, next(iter(found.jobs))


def nothing_found(job, where, jobs, problems):
    """Returns the text for a job of which there is no rank."""
    named = f"no running job {job}" if job else "no running job"
    on = f"the Slurm job {where.slurm}" if where.slurm else ", ".join(where.names)
    others = "".join(f"\n  {name}" for name in jobs)
    failed = "".join(f"\n  {one.host}: {one.problem}" for one in problems)
    return (
        f"{named} of this user on {on}"
        + (f"; hosts that were not reached:{failed}" if failed else "")
        + ("" if where.complete or where.slurm else ": name its hosts, --hosts A,B")
        + (f"; running jobs:{others}" if others else "")
    )


def places(job, names):
    """Returns the hosts of a job, and a function that returns whether the id of a job is that of this job."""
    if job is None:
        return job_hosts.Hosts(names or ()), lambda _: True
    started_by = launcher.of_process(int(job)) if job.isdecimal() else None
    if job.isdecimal():
        ids = states.ids_of_process(int(job))
        if ids or started_by:
            return of_launcher(
                names, started_by, ids
            ), lambda name: name in ids or (not ids and names_process(name, job))
    ids = states.ids_here()
    if job in ids:
        return of_launcher(names, launcher.of_process(ids[job]), {job}), lambda name: name == job
    slurm = re.fullmatch(r"(\d+)(\.\d+)?", job)
    if slurm and not names and shutil.which("srun"):
        where = job_hosts.Hosts(slurm=slurm[1], complete=True)
        return where, lambda name: is_of_slurm(name, slurm[1], slurm[2])
    if slurm:
        return job_hosts.Hosts(names or ()), lambda name: is_of_slurm(name, slurm[1], slurm[2])
    return job_hosts.Hosts(names or ()), lambda name: name == job


def of_launcher(names, started_by, ids):
    """Returns the hosts named on the command line, else those of the launcher of the jobs `ids`."""
    shell = started_by.shell if started_by else "ssh"
    if names:
        return job_hosts.Hosts(names, shell=shell)
    if started_by is None:
        return job_hosts.Hosts()
    own = bool(ids) and all(name.startswith(OWN_ID) for name in ids)  # of Weft's mpiexec, which starts ranks here only
    if started_by.slurm and not started_by.hosts and not own and shutil.which("srun"):
        return job_hosts.Hosts(slurm=started_by.slurm, complete=True)
    return job_hosts.Hosts(["localhost", *started_by.hosts], shell=shell, complete=True)


def names_process(name, pid):
    """Returns whether the id of a job is made of the process id of its launcher, as those of PRRTE and Hydra are."""
    return re.search(rf"(^|[-_]){pid}([-_@]|$)", name) is not None


def is_of_slurm(name, job, step):
    """Returns whether an id is that of a step of a Slurm job: "7.0", or "slurm.pmix.7.0"."""
    steps = re.escape(step) if step else r"\.\d+"
    return re.search(rf"(^|\.){job}{steps}($|\D)", name) is not None
