# SPDX-License-Identifier: BSD-3-Clause
# weft hang, and mpiexec --timeout, Ctrl-C and SIGUSR1, on jobs that are stuck in many ways, and on processes that are
# not ranks.
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))

# Case: (call, what, peer, tag, count, bytes, polls) of rank 0 of the communicator named after the case.
POINT_TO_POINT = {
    "MPI_Recv": ("MPI_Recv", "receive", 1, 77, 2, 8, False),
    "MPI_Recv_any": ("MPI_Recv", "receive", None, None, 2, 8, False),
    "MPI_Send": ("MPI_Send", "send", 1, 5, 1 << 22, 1 << 22, False),
    "MPI_Ssend": ("MPI_Ssend", "send", 1, 6, 1, 4, False),
    "MPI_Sendrecv": ("MPI_Sendrecv", "receive", 1, 8, 1, 4, False),
    "MPI_Probe": ("MPI_Probe", "probe", 1, 9, 0, 0, False),
    "MPI_Mprobe": ("MPI_Mprobe", "probe", None, 10, 0, 0, False),
    "MPI_Iprobe": ("MPI_Iprobe", "probe", 1, 3, 0, 0, True),
    "MPI_Wait": ("MPI_Wait", "receive", 1, 4, 1, 4, False),
    "MPI_Waitall": ("MPI_Waitall", "receive", 1, 3, 1, 4, False),
    "MPI_Waitany": ("MPI_Waitany", "receive", 1, 3, 1, 4, False),
    "MPI_Test": ("MPI_Test", "receive", 1, 3, 1, 4, True),
}
COLLECTIVES = [
    "MPI_Barrier", "MPI_Reduce", "MPI_Allreduce", "MPI_Gather", "MPI_Gatherv", "MPI_Allgather", "MPI_Allgatherv",
    "MPI_Alltoall", "MPI_Alltoallv", "MPI_Reduce_scatter_block", "MPI_Bcast", "MPI_Scatter", "MPI_Comm_split",
]  # fmt: skip
CONCLUSIONS = {
    "receives": r"deadlock: rank %d waits in MPI_Recv for rank %d, rank %d waits in MPI_Recv .*: both receive",
    "sends": r"deadlock: rank %d waits in MPI_Ssend for rank %d, rank %d waits in MPI_Ssend .*: both send",
    "tags": r"deadlock: rank %d waits in MPI_Ssend for rank %d, rank %d waits in MPI_Recv .*: the tags differ \(5 and 6\)",
    "mixed": r"deadlock: rank %d waits in MPI_Barrier for rank %d, rank %d waits in MPI_Recv",
    "collectives": r'mismatched collectives on "collectives" \(2 ranks\): rank 0 in MPI_Bcast, rank 1 in MPI_Reduce',
    "roots": r'all ranks of "roots" \(2 ranks\) are in MPI_Bcast: .* roots or counts differ',
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("hang") / "hang")
    subprocess.run([PREFIX + "/bin/mpicc", os.path.join(HERE, "hang.c"), "-lpthread", "-o", path], check=True)
    return path


def start(*words, **options):
    return subprocess.Popen(
        [PREFIX + "/bin/mpiexec", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )


def ended(*words):
    """Returns (exit code, standard error) of a job that ends by itself."""
    job = start(*words)
    error = job.communicate(timeout=100)[1]
    return job.returncode, error


def until(look, seconds=20):
    """Calls look() until it returns something true."""
    deadline = time.time() + seconds
    while not (found := look()):
        assert time.time() < deadline, "not within %d s" % seconds
        time.sleep(0.05)
    return found


def look_for(weft, pid, expected):
    """Returns what `weft hang` prints once it contains a match."""
    found = weft("hang", str(pid))
    return found.out if re.search(expected, found.out) else None


@pytest.fixture(scope="module")
def stuck(program):
    """Yields (job, pid of rank 0) of a job in which each pair of ranks is stuck in one case."""
    cases = int(subprocess.run([program, "count"], stdout=subprocess.PIPE, text=True, check=True).stdout)
    job = start("-n", str(2 * cases), program, "calls")
    try:
        yield job, int(job.stdout.readline())
    finally:
        job.kill()
        job.communicate()


@pytest.fixture
def report(weft, stuck):
    def look():
        found = weft("hang", str(stuck[1]), "--json")
        job = json.loads(found.out)
        waiting = {wait["communicator"]: wait for wait in job["ranks"] if wait.get("what")}
        expected = len(POINT_TO_POINT) + len(COLLECTIVES) + len(CONCLUSIONS) + 2
        return job if len(waiting) == expected and len(job["conclusions"]) == len(CONCLUSIONS) else None

    return until(look)


def of_case(report, name):
    """Returns the waits of ranks in the communicator named after the case."""
    return [wait for wait in report["ranks"] if wait.get("communicator") == name]


@pytest.mark.parametrize("name", POINT_TO_POINT)
def test_point_to_point(report, name):
    call, what, peer, tag, count, size, polls = POINT_TO_POINT[name]
    (wait,) = of_case(report, name)
    assert (wait["call"], wait["what"], wait["peer"], wait["tag"], wait["polls"]) == (call, what, peer, tag, polls)
    assert (wait["count"], wait["bytes"]) == (count, size) and wait["communicator_size"] == 2
    assert wait["text"].startswith(("polls " if polls else "") + call + f' on "{name}" (2 ranks) ')
    other = " rank 1," if wait["rank"] == 0 else " rank 1 (rank %d of MPI_COMM_WORLD)," % (wait["rank"] + 1)
    assert (" any rank, " if peer is None else other) in wait["text"]


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives(report, name):
    (wait,) = of_case(report, name)
    assert (wait["call"], wait["what"], wait["waits_for"]) == (name, "collective", [1])
    assert wait["peer"] is None and wait["tag"] is None
    assert wait["text"].endswith("; waits for rank 1 (rank %d of MPI_COMM_WORLD)" % (wait["rank"] + 1))


def test_collectives_by_messages_and_nonblocking(report):
    (wait,) = of_case(report, "new")
    assert (wait["call"], wait["what"], wait["waits_for"]) == ("MPI_Barrier", "collective", [1])
    (wait,) = of_case(report, "nonblocking")
    assert (wait["call"], wait["what"], wait["waits_for"]) == ("MPI_Wait", "nonblocking collective", [1])
    assert "nonblocking allreduce; waits for rank 1" in wait["text"]


@pytest.mark.parametrize("name", CONCLUSIONS)
def test_conclusions(report, name):
    first, second = (wait["rank"] for wait in of_case(report, name))
    expected = CONCLUSIONS[name]
    if "%d" in expected:
        expected = expected % (first, second, second)
    assert [text for text in report["conclusions"] if re.match(expected, text)]


def test_a_computing_rank(weft, report, stuck):
    first, second = sorted(report["ranks"], key=lambda rank: rank["rank"])[:2]
    assert first["pid"] == stuck[1] == report["pid"] and (first["rank"], second["rank"]) == (0, 1)
    assert (second["state"], second["call"]) == ("outside MPI", "MPI_Barrier")
    text = until(lambda: look_for(weft, second["pid"], "ranks 1, 3, .*: outside MPI since"))
    assert re.search(r"ranks 1, 3, .*: outside MPI since [\d.]+ s, not running; last call: MPI_Barrier", text)
    time.sleep(1)
    later = json.loads(weft("hang", str(stuck[1]), "--json").out)["ranks"]
    assert 0.9 < later[0]["seconds"] - first["seconds"] < 60
    assert 0.5 < later[1]["seconds"] - second["seconds"] < 60


def test_sigusr1_prints_and_goes_on(stuck):
    job, _ = stuck
    job.send_signal(signal.SIGUSR1)
    lines = [job.stderr.readline() for _ in range(3)]
    assert lines[0] == "mpiexec: what the ranks do:\n" and "MPI_Recv on" in lines[1], lines
    time.sleep(0.2)
    assert job.poll() is None


def test_timeout(program):
    status, error = ended("-n", "3", "--timeout", "0.7", program, "ring")
    assert status == 124
    assert re.search(r"rank 2 \(pid \d+\): MPI_Recv on MPI_COMM_WORLD since [\d.]+ s: receive from rank 0, tag 0, count 1",
                     error)  # fmt: skip
    assert "deadlock: rank 0 waits in MPI_Recv for rank 1, rank 1 waits in MPI_Recv for rank 2, rank 2 waits" in error
    assert "ran longer than 0.7 s" in error


@pytest.mark.parametrize("mode, expected", [
    ("barrier", r"ranks 0, 2: MPI_Barrier on MPI_COMM_WORLD since [\d.]+ s; waits for rank 1\n"),
    ("finalize", r"ranks 0, 2: MPI_Finalize on MPI_COMM_WORLD since [\d.]+ s; waits for rank 1\n"),
    ("init", r"rank 1 \(pid \d+\): has not called MPI_Init\n"),
    ("threads", r"rank 0 \(pid \d+\): one thread: MPI_Recv on MPI_COMM_WORLD .* tag 1[12], .*; another: MPI_Recv .* tag 1[12]"),
])  # fmt: skip
def test_timeout_of_the_whole_job(program, mode, expected):
    status, error = ended("-n", "3", "--timeout", "0.7", program, mode)
    assert status == 124 and re.search(expected, error), error
    assert "deadlock" not in error


def test_interrupt(program):
    def heed():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells ignore it for background jobs, and so does mpiexec

    job = start("-n", "3", program, "ring", preexec_fn=heed)
    try:
        time.sleep(0.7)
        job.send_signal(signal.SIGINT)
        error = job.communicate(timeout=60)[1]
    finally:
        job.kill()
    assert job.returncode == 130 and "deadlock: rank 0" in error and "interrupted" in error


def test_windows(program):
    code, error = ended("--timeout", "2", "-n", "6", program, "window")
    assert code != 0
    for expected in (
        r"rank 0 .*MPI_Win_lock on .*: lock of rank 1, held exclusively by rank 1",
        r"rank 1 .*MPI_Win_lock on .*: lock of rank 0, held exclusively by rank 0",
        r"rank 2 .*MPI_Win_lock on .*: lock of rank 2, held shared by rank 4",
        r"rank 3 .*MPI_Win_start on .*: MPI_Win_post of rank 5",
        r"rank 5 .*MPI_Win_wait on .*: MPI_Win_complete of 1 more ranks",
        r"deadlock: rank 0 waits in MPI_Win_lock for rank 1, rank 1 waits in MPI_Win_lock for rank 0",
    ):
        assert re.search(expected, error), (expected, error)


def test_singletons(weft, program):
    with subprocess.Popen([program, "alone"], stdout=subprocess.PIPE, text=True) as alone:
        pid = int(alone.stdout.readline())
        try:
            text = until(lambda: look_for(weft, pid, "since"))
        finally:
            alone.kill()
    assert text.startswith("a singleton (pid %d, the only rank of its job): MPI_Recv on MPI_COMM_SELF since" % pid)
    assert "deadlock: rank 0 waits in MPI_Recv for itself" in text


@pytest.mark.parametrize("launch", [[], [PREFIX + "/bin/mpiexec", "-n", "1"]])
def test_computing_since_mpi_init(weft, program, launch):
    """A rank that has called nothing but MPI_Init is outside of MPI."""
    with subprocess.Popen([*launch, program, "early"], stdout=subprocess.PIPE, text=True) as early:
        pid = int(early.stdout.readline())
        try:
            (rank,) = json.loads(weft("hang", str(pid), "--json").out)["ranks"]
        finally:
            os.kill(pid, signal.SIGKILL)
    assert (rank["state"], rank["call"]) == ("outside MPI", "MPI_Init"), rank


def test_a_failed_rank(weft, program):
    job = start("--continue-on-failure", "-n", "3", program, "dead")
    try:
        pid = int(job.stdout.readline())
        text = until(lambda: look_for(weft, pid, r"rank 1 \(pid \d+\): has ended\n[^$]*deadlock"))
    finally:
        job.kill()
        job.communicate()
    assert re.search(r"deadlock: rank 0 waits in MPI_Recv for rank 2, rank 2 waits in MPI_Recv for rank 0", text)


def test_spawned_jobs(weft, program):
    """A process of either job names its job; a signal to mpiexec shows both."""
    job = start("-n", "1", program, "spawn")
    try:
        parent, child = (int(job.stdout.readline()) for _ in range(2))
        spawned = until(lambda: look_for(weft, child, "deadlock"))
        assert "rank 0 (pid %d): MPI_Recv on MPI_COMM_WORLD" % child in spawned and str(parent) not in spawned
        first = until(lambda: look_for(weft, parent, "since"))
        assert "(pid %d" % parent in first and first.count("(pid") == 1 and "rank 1 (of another job), tag 6" in first
        job.send_signal(signal.SIGUSR1)
        lines = []
        while not lines or "deadlock" not in lines[-1]:
            lines.append(job.stderr.readline())
            assert lines[-1], lines
    finally:
        job.kill()
        job.communicate()
    assert re.search(r"tag 6[^$]*\n spawned job 1:\n  rank 0 [^$]*\n  rank 1 ", "".join(lines)), lines


def test_no_job(weft):
    with subprocess.Popen(["sleep", "60"]) as sleeping:
        refused = weft("hang", str(sleeping.pid))
        sleeping.kill()
    assert refused.status == 2 and "is not a rank" in refused.err
    for word in ("0", "-1", "1.5", "weft-1-2"):
        refused = weft("hang", word)
        assert refused.status == 2 and word in refused.err and "--waits" not in refused.err
    refused = weft("hang", str(1 << 22))
    assert refused.status == 2 and "is not a rank" in refused.err


def test_several_jobs(weft, program):
    jobs = [start("-n", "2", program, "ring") for _ in range(2)]
    try:
        until(lambda: "jobs run here: specify" in weft("hang").err)
        for job in jobs:  # by the process of mpiexec
            found = until(lambda job=job: weft("hang", str(job.pid), "--json").out)
            assert len(json.loads(found)["ranks"]) == 2
    finally:
        for job in jobs:
            job.terminate()
            job.communicate()


PRETENDER = """
import mmap, os, sys
fd = os.memfd_create("weft")
os.ftruncate(fd, 1 << 20)
memory = mmap.mmap(fd, 1 << 20)
memory[: len(sys.argv[1]) // 2] = bytes.fromhex(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""


def words(*values):
    return b"".join(value.to_bytes(4, "little") for value in values)


MAGIC = (0x776566742D776169).to_bytes(8, "little")


@pytest.mark.parametrize("header", [
    b"", b"\xff" * 64, MAGIC, MAGIC + words(4000, 4096, 64, 0, 8192), MAGIC + words(1, 0xFFFFFFFF, 0, 0, 8192),
])  # fmt: skip
def test_a_memfd_of_the_same_name(weft, header):
    command = [sys.executable, "-c", PRETENDER, header.hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        refused = weft("hang", str(process.pid))
        process.stdin.close()
    assert refused.status == 2 and "not (yet) initialized" in refused.err
