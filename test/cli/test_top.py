# SPDX-License-Identifier: BSD-3-Clause
# weft top, on jobs with one slow rank and with known traffic.
import json
import os
import re
import signal
import subprocess

import pytest
from weft_mpi import top

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))
MESSAGES, BYTES, LARGE, LARGE_MESSAGES, COLLECTIVES = 500, 100, 1 << 20, 20, 300  # as in top.c


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("top") / "top")
    subprocess.run([PREFIX + "/bin/mpicc", os.path.join(HERE, "top.c"), "-o", path], check=True)
    return path


@pytest.fixture
def job(program):
    """Returns start(ranks, words...), which starts a job and waits for a line of rank 0."""
    started = []

    def start(ranks, *words, line="ready"):
        command = [PREFIX + "/bin/mpiexec", "-n", str(ranks), program, *words]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        while started[-1].stdout.readline().strip() != line:
            pass
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


def test_gpus():
    used = {"number": 0, "visible": 4, "pci": "0000:3b:00.0", "uuid": "GPU-1", "numa_distance": -1}
    assert top.gpu(used) == "0 of 4: 3b:00.0"
    assert top.gpu({**used, "numa_distance": 10}) == "0 of 4: 3b:00.0"
    assert top.gpu({**used, "numa_distance": 21}) == "0 of 4: 3b:00.0, distance 21"


def test_the_slow_rank_of_eight(weft, job):
    """The first table, after two seconds, names the rank that sleeps 100 ms a step."""
    mpiexec = job(8, "steps", "5")
    found = weft("top", str(mpiexec.pid), "-i", "2", "-c", "1")
    assert found.status == 0
    assert re.search(r"8 ranks; rank 5 \(pid \d+\) delays the job: 7 ranks waited for it \d\d %", found.out)
    rows = [line.split() for line in found.out.splitlines()[2:] if line]
    assert [row[0] for row in rows] == [str(rank) for rank in range(8)]


def test_the_end_of_a_chain_is_named(weft, job):
    mpiexec = job(4, "chain", "2")
    found = weft("top", str(mpiexec.pid), "-i", "1", "-c", "1", "--json")
    sample = json.loads(found.out)
    slowest = top.delaying_rank(sample)
    assert slowest["rank"] == 2 and slowest["delaying"] > 1
    for rank in sample["ranks"]:  # directly, or through the ranks between
        assert rank["rank"] == 2 or max(rank["waits_for"], key=rank["waits_for"].get) == "2"
    assert slowest["inside"] < 0.5


@pytest.mark.parametrize("case, cause, why", [
    ("tags", "rank 1", "deadlock: rank 0 waits in MPI_Recv for rank 1, .* rank 0 receives tag 1, but rank 1 sent tag 2"),
    ("any_source", "any rank", "deadlock: ranks 0, 1: rank 0 waits in MPI_Recv for any rank"),
])  # fmt: skip
def test_ranks_that_wait_for_each_other(case, cause, why, weft, tmp_path):
    """Also with MPI_THREAD_MULTIPLE the cause is no unknown rank."""
    program = str(tmp_path / "programs")
    source = os.path.join(os.path.dirname(HERE), "stuck", "programs.c")
    subprocess.run([PREFIX + "/bin/mpicc", source, "-lpthread", "-o", program], check=True)
    words = [PREFIX + "/bin/mpiexec", "-n", "2", program, "multiple", case]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as job:
        try:
            pid = job.stdout.readline().strip()
            for _ in range(20):
                found = weft("top", pid, "-i", "0.5", "-c", "1").out
                if "deadlock" in found:
                    break
        finally:
            job.kill()
    assert re.search("2 ranks; " + why, found), found
    assert re.search(rf"\n +0 +MPI_Recv +\S+ % +\S+ % +{cause} ", found) and "unknown" not in found, found


def test_counts_equal_known_traffic(weft, job):
    mpiexec = job(3, "traffic", line="done")
    found = weft("top", str(mpiexec.pid), "-i", "0.2", "-c", "1", "--json")
    sample = json.loads(found.out)
    assert sample["size"] == 3 and [rank["rank"] for rank in sample["ranks"]] == [0, 1, 2]
    for rank in sample["ranks"]:
        counters = rank["counters"]
        by_messages = counters["coll.message_calls"]  # before the communicator has slots
        assert by_messages + counters["coll.shared_calls"] == COLLECTIVES
        assert counters["coll.shared_bytes"] == 32 * counters["coll.shared_calls"]
        eager = counters["p2p.eager_messages"] - MESSAGES
        # Collectives before the lease of the slots, and the lease itself, send a few messages of at most 32 bytes.
        assert 0 < eager <= 4 * by_messages
        assert MESSAGES * BYTES < counters["p2p.eager_bytes"] <= MESSAGES * BYTES + 32 * eager
        large = counters.get("p2p.single_copy_bytes", 0) + counters.get("p2p.fragments_bytes", 0)
        assert large == LARGE_MESSAGES * LARGE
        assert rank["state"] == "outside MPI" and rank["call"] == "MPI_Allreduce" and rank["inside"] == 0


def test_spawned_jobs(weft, job):
    """mpiexec has two jobs: each has a table of its own, and the waits between them are named."""
    mpiexec = job(2, "spawn", "100000", line="all")
    several = weft("top", str(mpiexec.pid))
    assert several.status == 2 and several.err.count(": a job of 2 ranks") == 2, several.err
    waits, headlines = {}, []
    for process in re.findall(r"^  weft top (\d+):", several.err, re.MULTILINE):
        sample = json.loads(weft("top", process, "-i", "1", "-c", "1", "--json").out)
        assert process in [str(rank["pid"]) for rank in sample["ranks"]]
        headlines.append(top.headline(sample))
        waits.update({rank["pid"]: rank["waits_for"] for rank in sample["ranks"]})
    assert len(waits) == 4 and sum("another job" in causes for causes in waits.values()) >= 3
    assert any("1" in causes for causes in waits.values())  # rank 0 of the spawned job
    assert any(re.match(r"2 ranks; they waited for another job \d+ % of the time", line) for line in headlines)


def test_a_terminal(job, on_terminal):
    """With rich the table is updated in place, and the slow rank is red."""
    mpiexec = job(4, "steps", "1")
    shown = on_terminal(PREFIX + "/bin/weft", "top", str(mpiexec.pid), "-i", "0.5", "-c", "2", COLUMNS="160").out
    assert re.search(rb"rank 1 \(pid \d+\) delays the job", shown)
    assert b"\x1b[1;31m" in shown


def test_jobs_are_found(weft, job, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(top, "jobs", dict)
        assert "no job of this user" in weft("top").err
    mpiexec = job(2, "steps", "0")
    (name,) = (name for name in top.jobs() if name.startswith("weft-%d-" % mpiexec.pid))
    assert "2 ranks; rank 0" in weft("top", name, "-i", "0.5", "-c", "1").out
    other = weft("top", "weft-1-00")
    assert other.status == 2 and "no job weft-1-00" in other.err
    monkeypatch.setattr(top, "jobs", lambda: {"one": [1], "two": [2]})
    several = weft("top")
    assert several.status == 2 and "weft top one\n  weft top two" in several.err


def test_ends_with_the_job(weft, job):
    mpiexec = job(2, "steps", "0")
    os.kill(mpiexec.pid, signal.SIGTERM)
    mpiexec.wait()
    gone = weft("top", str(mpiexec.pid))
    assert gone.status == 2 and "is not a rank of a job" in gone.err


def test_refusals(weft):
    assert weft("top", "1", "-i", "0").status == 2
    assert "is not a rank" in weft("top", str(os.getpid()), "-c", "1").err


def test_texts():
    assert top.size(999) == "999 B" and top.size(1.5e9) == "1.5 GB" and top.size(2e15) == "2e+03 TB"
    assert top.memory(0) == "" and top.memory(3 << 20) == "3 MiB"
    assert top.causes({"1": 0.5, "unknown": 0.2, "3": 0.7, "4": 0.1}) == "rank 3, rank 1, unknown, ..."
    assert top.rates({"p2p.eager_bytes": 3000, "window.put_bytes": 9000}, {}, 3) == "put 3 kB/s, eager 1 kB/s"
    idle = {
        "size": 4,
        "ranks": [{"rank": 0, "delaying": 0, "waits_for": {}}, {"rank": 1, "delaying": 0, "waits_for": {}}],
    }
    assert top.headline(idle) == "2 of 4 ranks are on this host; no rank delays the others noticeably"
