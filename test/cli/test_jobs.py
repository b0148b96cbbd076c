# SPDX-License-Identifier: BSD-3-Clause
# Jobs of several hosts: weft jobs, weft hang, top, report and export with --job and --hosts, on fake hosts and through a
# stand-in for ssh; launchers by their command lines.
import json
import os
import re
import subprocess
import time

import pytest
import slow_paths as declared
from weft_mpi import export
from weft_mpi.job import find, hosts, launcher, samples, slow_paths, states
from weft_mpi.machine import files

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))
# ssh [-o OPTION]... HOST COMMAND: "down" refuses, "silent" hangs, "other" has another version; all others are here.
SSH = """#!/bin/sh
while [ "$1" = -o ]; do shift 2; done
host=$1; shift
case $host in
  down) echo "ssh: connect to host down port 22: Connection refused" >&2; exit 255 ;;
  silent) exec sleep 60 ;;
  other) echo "weft-states 0"; exit 0 ;;
esac
exec sh -c "$*"
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("jobs") / "hang")
    subprocess.run([PREFIX + "/bin/mpicc", os.path.join(HERE, "hang.c"), "-lpthread", "-o", path], check=True)
    return path


@pytest.fixture(scope="module")
def job(program):
    """Yields the mpiexec of a job of three ranks in a cycle of MPI_Recv."""
    running = subprocess.Popen(
        [PREFIX + "/bin/mpiexec", "-n", "3", program, "ring"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    deadline = time.time() + 20
    look = f"{PREFIX}/bin/mpiexec --collect {running.pid} | {PREFIX}/bin/mpiexec --conclude text"
    while b"deadlock" not in subprocess.run(look, shell=True, capture_output=True, check=False).stdout:
        assert time.time() < deadline
        time.sleep(0.1)
    yield running
    running.terminate()
    running.communicate()


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    path = tmp_path / "ssh"
    path.write_text(SSH)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def id_of(weft, mpiexec):
    (one,) = (found for found in json.loads(weft("jobs", "--json").out)["jobs"] if f"-{mpiexec.pid}-" in found["job"])
    return one


def test_jobs(weft, job):
    one = id_of(weft, job)
    assert (one["launcher"], one["ranks"], one["found"], one["waiting"]) == ("weft mpiexec", 3, 3, 3)
    assert len(one["hosts"]) == 1
    assert re.search(rf"{one['job']}\s+weft mpiexec\s+3 of 3", weft("jobs").out)
    assert weft("jobs", "--job", one["job"]).status == 0


@pytest.mark.parametrize("command", ["jobs", "hang", "top", "report"])
@pytest.mark.parametrize("words, text", [
    (("--job", ""), "--job: '' is not a job"),
    (("--hosts", ""), "--hosts: '' has no host"),
    (("--hosts", ","), "--hosts: ',' has no host"),
])  # fmt: skip
def test_an_empty_name_is_not_all_jobs(weft, job, command, words, text):
    """Scripts pass an empty name of a job or host from a variable that is not set."""
    refused = weft(command, *words)
    assert refused.status == 2 and text in refused.err and refused.out == ""


def test_hang_of_a_job(weft, job, ssh):
    by_id = id_of(weft, job)["job"]
    for name in (by_id, str(job.pid), str(id_of(weft, job)["pid"])):
        found = weft("hang", "--job", name)
        assert found.status == 1 and "deadlock: rank 0 waits in MPI_Recv for rank 1" in found.out, found.err
    found = weft("hang", "--job", by_id, "--hosts", "localhost,node7,down")
    assert found.status == 1 and found.out.count("rank 1 (pid") == 1  # two answers about the same ranks
    assert "host down was not reached: ssh: connect to host down port 22: Connection refused" in found.out
    asked = json.loads(weft("hang", "--job", by_id, "--hosts", "localhost,down", "--json").out)
    assert [one["host"] for one in asked["not_reached"]] == ["down"] and asked["missing"] == []
    assert len(asked["ranks"]) == 3 and asked["job"] == by_id
    assert "deadlock" in weft("hang", "--hosts", "localhost").out


def test_refusals(weft, job, ssh, monkeypatch):
    assert weft("hang", "1", "--job", "2").status == weft("top", "1", "--job", "2").status == 2
    found = weft("hang", "--job", "no-such-job")
    assert found.status == 2 and "no running job no-such-job of this user on" in found.err
    assert "A,B; running jobs:\n  " in found.err and f"\n  {id_of(weft, job)['job']}\n" in found.err
    for words in (("jobs", "--job", "no-such-job"), ("jobs", "--json", "--job", "no-such-job")):
        found = weft(*words)
        assert found.status == 2 and found.out == "" and "no running job no-such-job of this user on" in found.err
    found = weft("hang", "--hosts", "down")
    assert found.status == 1 and "no host was reached:\n  down: ssh: connect" in found.err
    found = weft("hang", "--job", "x", "--hosts", "localhost,down")
    assert found.status == 2 and "hosts that were not reached:\n  down: ssh" in found.err
    found = weft("hang", "--hosts", "other")
    assert found.status == 1 and "its Weft is of another version" in found.err
    assert hosts.Hosts(["silent"]).run("--collect", "all", seconds=0.5) == [
        hosts.Answer("silent", "", "no answer within 0.5 s")
    ]
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(hosts.Refusal, match="srun is not on the PATH"):
        hosts.Hosts(slurm="7")


def test_states_of_another_version():
    with pytest.raises(states.Failure, match="not of this version"):
        states.conclude(states.TITLE + "\nrank\t9\n", whole=False, json=False)
    for line in ("wait\t1", "rank\t0\tj\th\tl\t2\t2\t5\t0\t0\t0\t83\t1\t0\tMPI_Init", "else\t1"):
        with pytest.raises(states.Failure, match="line 2"):
            states.conclude(f"{states.TITLE}\n{line}\n", whole=False, json=False)
    rank = "rank\t0\tj\th\tl\t{}\t{}\t5\t0\t0\t0\t83\t1.5\t0\tMPI_Init\n"
    status, text = states.conclude(states.TITLE + "\n" + rank.format(4, 1) + rank.format(4, 2), whole=True, json=False)
    assert status == 0 and "ranks 0, 3: found on no host (ended, or not through MPI_Init)" in text
    assert (
        "the other 2 ranks"
        in states.conclude(states.TITLE + "\n" + rank.format(4, 1) + rank.format(4, 2), whole=False, json=False)[1]
    )


def test_enqueued_collectives():
    """A rank that has enqueued a collective arrives by itself, unless its stream waits in another call."""
    rank = "rank\t{}\tj\th\tl\t2\t{}\t5\t0\t0\t0\t83\t1.5\t0\tMPI_Recv\n"
    collective = "wait\t0\t0\t0\t-1\t0\t1\t5\t0\t0\t7\t0\t2\t3.0\tMPIX_Allreduce_enqueue\t\tsums\t1\t64\t0\t1\n"
    receive = "wait\t2\t0\t1\t0\t0\t{}\t0\t4\t4\t8\t1\t2\t2.0\t{}\t\thalo\t{}\t0\t1\n"
    of_host, of_stream = receive.format(0, "MPI_Recv", "0"), receive.format(1, "MPIX_Recv_enqueue", "1\t80")
    enqueued, pending = "enqueued\t7\t1\t{}\t0\n", "pending\t7\t5\t80\t1\t2\tMPIX_Allreduce_enqueue\tsums\n"
    first = states.TITLE + "\n" + rank.format(0, 0) + collective + enqueued.format(5).replace("\t1\t", "\t0\t", 1)

    def conclude(more):
        return states.conclude(first + more, whole=True, json=False)[1]

    text = conclude(rank.format(2, 1) + of_host + enqueued.format(4))
    assert "waits for rank 1; rank 1 has not enqueued it\n" in text
    assert "possible deadlock: a stream of rank 0 waits in MPIX_Allreduce_enqueue for rank 1, rank 1 waits" in text
    text = conclude(rank.format(2, 1) + of_host + enqueued.format(5))
    assert "waits for rank 1; rank 1 has enqueued it\n" in text
    assert "deadlock" not in text
    text = conclude(rank.format(0, 1) + of_stream + enqueued.format(5) + pending)
    assert "waits for rank 1; rank 1 has enqueued it behind MPIX_Recv_enqueue\n" in text
    assert 'behind it: MPIX_Allreduce_enqueue on "sums" (2 ranks)\n' in text
    assert (
        "possible deadlock: a stream of rank 0 waits in MPIX_Allreduce_enqueue for rank 1, a stream of rank 1" in text
    )
    found = json.loads(
        states.conclude(first + rank.format(2, 1) + of_host + enqueued.format(4), whole=True, json=True)[1]
    )
    assert found["ranks"][0]["waits_for"] == found["ranks"][0]["not_enqueued"] == [1]
    assert found["ranks"][0]["stream"] == "stream 0x40"


def test_top_of_a_job(weft, job, ssh):
    found = weft("top", "--job", str(job.pid), "--hosts", "localhost,node7", "-i", "0.3", "-c", "2")
    assert found.status == 0 and found.out.count("deadlock: rank 0 waits in MPI_Recv for rank 1") == 2, found.err
    lines = weft("top", "--job", id_of(weft, job)["job"], "-i", "0.2", "-c", "2", "--json").out.splitlines()
    assert [len(json.loads(line)["ranks"]) for line in lines] == [3, 3]


def rank_of(number, host, waits_for):
    return {"rank": number, "host": host, "state": "waiting", "waits_for": waits_for, "delaying": 0}


def test_chains_cross_hosts():
    """Rank 0 waits for rank 1, which waits half of the time for rank 2, on a third host."""
    ranks = {0: rank_of(0, "a", {"1": 0.8}), 1: rank_of(1, "b", {"2": 0.5, "unknown": 0.1}), 2: rank_of(2, "c", {})}
    samples.compose(ranks)
    assert ranks[0]["waits_for"] == pytest.approx({"1": 0.32, "2": 0.4, "unknown": 0.08})
    assert (ranks[1]["delaying"], ranks[2]["delaying"]) == (pytest.approx(0.32), pytest.approx(0.9))
    ring = {rank: rank_of(rank, str(rank), {str((rank + 1) % 3): 1.0}) for rank in range(3)}
    samples.compose(ring)
    assert all(0.99 < sum(rank["waits_for"].values()) < 1.01 for rank in ring.values())


def test_export(weft, job, tmp_path):
    path = str(tmp_path / "weft.prom")
    assert weft("export", "--prometheus", path, "--job", str(job.pid)).status == 0
    text = open(path, encoding="utf-8").read()
    name = re.escape(id_of(weft, job)["job"])
    assert "# TYPE weft_jobs gauge\nweft_jobs 1\n" in text
    assert re.search(rf'weft_job_size{{job="{name}",launcher="weft mpiexec",host="[^"]+"}} 3\n', text)
    assert re.search(rf'weft_ranks_waiting{{job="{name}",host="[^"]+"}} 3\n', text)
    for line in text.splitlines():  # the text format of Prometheus
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+({\w+="[^"]*"(,\w+="[^"]*")*})? [\d.]+', line), line
    families = re.findall(r"# TYPE (\w+)", text)
    assert len(families) == len(set(families))
    assert weft("export", "--prometheus", path, "--ranks", "--interval", "0.1", "--count", "2").status == 0
    assert re.search(r'weft_ranks{job="[^"]+",host="[^"]+",rank="2"} 1\n', open(path, encoding="utf-8").read())
    assert os.listdir(tmp_path) == ["weft.prom"]
    assert weft("export", "--prometheus", path, "--interval", "-1").status == 2
    refused = weft("export", "--prometheus", path, "--count", "2")
    assert refused.status == 2 and "--count without --interval" in refused.err
    assert weft("export", "--prometheus", "/not/there/weft.prom").status == 2
    assert weft("export", "--prometheus", path, "--job", "no-such-job").status == 0
    assert "weft_jobs 0\n" in open(path, encoding="utf-8").read()


def test_names_of_slow_paths():
    assert slow_paths.NAMES == declared.declared(os.path.dirname(os.path.dirname(HERE)))


def test_metrics():
    counters = {
        "p2p.eager_bytes": states.Counter(10, "bytes", "total"),
        "net.staged": states.Counter(2, "events", "total"),
        "coll.wait_time": states.Counter(1_500_000_000, "ns", "total"),
        "gpu.pool_bytes": states.Counter(7, "bytes", "level"),
        "p2p.unexpected_high": states.Counter(3, "objects", "high water"),
    }
    ranks = [states.Rank("j", 'h"1', "slurm", 4, rank, 5, "waiting", [0.5 * rank], counters) for rank in (0, 1)]
    text = export.metrics(ranks, [hosts.Answer("down", "", "why")], by_rank=False)
    for line in (
        'weft_path_bytes_total{job="j",host="h\\"1",path="eager"} 20',
        'weft_slow_path_total{job="j",host="h\\"1",path="net.staged"} 4',
        'weft_wait_seconds_total{job="j",host="h\\"1",wait="collective"} 3',
        'weft_gpu_pool_bytes{job="j",host="h\\"1"} 14',
        'weft_p2p_unexpected_high{job="j",host="h\\"1"} 3',
        'weft_longest_wait_seconds{job="j",host="h\\"1"} 0.5',
        'weft_host_not_reached{host="down"} 1',
    ):
        assert f"\n{line}\n" in text, text


def test_report_of_a_job(weft, job, tmp_path):
    pytest.importorskip("matplotlib")
    page = str(tmp_path / "page.html")
    found = weft("report", "--job", str(job.pid), "--seconds", "1", "-o", page, "--json")
    assert found.status == 0, found.err
    rows = json.loads(found.out)
    assert len(rows["A running job, 3 ranks"]) == 3
    assert "deadlock: rank 0 waits in MPI_Recv for rank 1" in open(page, encoding="utf-8").read()
    assert weft("report", "-o", page).status == 2


LAUNCHERS = {
    "mpiexec.hydra -hosts a:2,b:2 -n 4 ./program -hosts c": ["a", "b"],
    "prterun --prefix /opt --host a:1,b:1 -n 2 ./program": ["a", "b"],
    "mpirun --hostfile hosts -n 2 ./program": ["x", "y"],
    "mpirun -n 2 ./program -hostfile hosts": [],
    "mpiexec --hosts=a,b -n 2 ./program": ["a", "b"],
}


@pytest.mark.parametrize("words", LAUNCHERS)
def test_hosts_of_a_launcher(tmp_path, monkeypatch, words):
    """The rank's process is 12, its launcher 10."""
    monkeypatch.setattr(files, "ROOT", str(tmp_path))
    for pid, parent, line in ((10, 1, words), (11, 10, "sh -c x"), (12, 11, "./program")):
        folder = tmp_path / "proc" / str(pid)
        (folder / "task" / str(pid)).mkdir(parents=True)
        (folder / "stat").write_text(f"{pid} (a b) c) S {parent} 1")
        (folder / "cmdline").write_text(line.replace(" ", "\0") + "\0")
        (folder / "environ").write_text("HYDRA_LAUNCHER_EXEC=/opt/rsh\0")
    (tmp_path / "proc" / "10" / "cwd").mkdir()
    (tmp_path / "proc" / "10" / "cwd" / "hosts").write_text("# hosts\nx:4\ny slots=2\nx\n")
    found = launcher.of_process(12)
    assert (found.pid, found.hosts, found.shell, found.slurm) == (10, LAUNCHERS[words], "/opt/rsh", None)
    assert launcher.of_process(99) is None


def test_remote_shells_of_a_launcher(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "ROOT", str(tmp_path))
    for pid, line in ((10, "mpiexec -n 4 ./program"), (11, "ssh -x -p 22 me@a proxy"), (12, "ssh b proxy")):
        folder = tmp_path / "proc" / str(pid)
        (folder / "task" / str(pid)).mkdir(parents=True)
        (folder / "cmdline").write_text(line.replace(" ", "\0") + "\0")
    (tmp_path / "proc" / "10" / "task" / "10" / "children").write_text("11 12 ")
    assert launcher.of_process(10).hosts == ["a", "b"]


# squeue ...; srun --OPTION... COMMAND: a task on each of two hosts, of which the second has no rank. As Slurm does, srun
# cuts lines after 1024 bytes.
SQUEUE = """#!/bin/sh
case "$*" in *--jobs=7*) echo 2 ;; *) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1 ;; esac
"""
SRUN = """#!/bin/sh
while case $1 in --*) true ;; *) false ;; esac; do shift; done
"$@" | fold -b -w 1024 | sed 's/^/0: /'
case $2 in --collect) echo "1: weft-states 2" ;; esac
"""


def test_slurm(weft, job, tmp_path, monkeypatch):
    """The id of the job is not one of Slurm, so it is found as a job of the hosts."""
    for name, text in (("squeue", SQUEUE), ("srun", SRUN)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    slurm = hosts.Hosts(slurm="7", complete=True)
    answers = slurm.run("--collect", "all")
    assert [answer.host for answer in answers] == ["task 0 of srun", "task 1 of srun"]
    assert len(states.ranks_in(states.by_job(answers)[id_of(weft, job)["job"]])) == 3
    assert states.by_job(answers[1:]) == {}
    found = find.Found({}, slurm, [], answers)
    (sample,) = samples.of_job(found, id_of(weft, job)["job"], 0.2, 1)
    assert len(sample["ranks"]) == 3 and "deadlock" in sample["conclusions"][0]
    found = weft("hang", "--job", "8.0")
    assert found.status == 2 and "Slurm has no running job 8 (slurm_load_jobs error: Invalid job id" in found.err
    found = weft("hang", "--job", "7.0")
    assert found.status == 2 and "no running job 7.0 of this user on the Slurm job 7" in found.err


def test_names_of_jobs():
    assert find.names_process("prterun-node0-4711@1", "4711") and find.names_process("kvs_4711_0_x_node0", "4711")
    assert not find.names_process("prterun-node0-47110@1", "4711")
    assert find.is_of_slurm("slurm.pmix.7.0", "7", None) and find.is_of_slurm("7.1", "7", ".1")
    assert not find.is_of_slurm("slurm.pmix.17.0", "7", None) and not find.is_of_slurm("7.11", "7", ".1")
    assert hosts.unlabelled(" 3: rank\t1\n") == (3, "rank\t1\n") and hosts.unlabelled("x") == (-1, "x")


def test_lines_that_srun_has_cut():
    text = ("ü" * 700).encode()  # the cut is inside of a character
    cut = [text[:1024], text[1024:], b"x" * 1024, b"", b"end"]
    lines = [b"0: " + piece + b"\n" for piece in cut]
    lines.insert(1, b"1: other\n")
    given = (line.decode(errors="surrogateescape") for line in lines)
    assert list(hosts.rejoined(given)) == [(1, "other\n"), (0, "ü" * 700 + "\n"), (0, "x" * 1024 + "\n"), (0, "end\n")]
