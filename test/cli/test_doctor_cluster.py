# SPDX-License-Identifier: BSD-3-Clause
# weft doctor on all nodes of a job, and on another MPI library.
import os
import subprocess

from test_doctor import PREFIX, by_check, script
from weft_mpi import library, output
from weft_mpi.doctor import cluster, host, other
from weft_mpi.doctor.finding import BROKEN, OK, SLOW, UNCHECKED, Finding, worst
from weft_mpi.machine import rank_gpus


def nodes():
    good, bad = Finding("shm", OK, "fine", ""), Finding("shm", BROKEN, "full", "empty it")
    return {**{"n%d" % at: [good] for at in range(5)}, "n5": [bad], "n6": [good, Finding("gpu", UNCHECKED, "none", "")]}


def test_merge():
    rows = cluster.merge(nodes())
    assert rows[0][:3] == ("shm", OK, "6 nodes") and rows[1][:3] == ("", BROKEN, "n5")
    assert rows[2][:3] == ("gpu", UNCHECKED, "n6")
    assert cluster.merge({"a": [Finding("x", OK, "", "")], "b": [Finding("x", OK, "", "")]})[0][2] == "all 2"
    assert worst([]) == OK and cluster.unused("a", {"a": 1}) == "a (1)"


def test_agreement():
    one = {"node": "n", "boot": "b", "pid": "1", "ipc": "1", "visible": None, "rank": 0, "gpus": None}
    assert {finding.status for finding in cluster.agreement([one, one])} == {OK}
    differing = list(cluster.agreement([one, {**one, "pid": "2", "visible": "1"}]))
    assert [finding.status for finding in differing] == [BROKEN, OK] and "1, None" in differing[1].evidence


def test_gpus_of_the_ranks():
    places = [{"rank": rank, "gpus": text} for rank, text in enumerate(["GPU 0: a", "GPU 0: b", "GPU 0: a", None])]
    assert cluster.gpus_by_rank(places) == ["rank 0, 2: GPU 0: a", "rank 1: GPU 0: b"]


def test_gpus_of_a_rank(monkeypatch, emulated, machine):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1})
    for node, cpulist in enumerate(("0", "1-2,4")):
        machine.write(f"/sys/devices/system/node/node{node}/cpulist", cpulist)
        machine.write(f"/sys/devices/system/node/node{node}/distance", "10 21" if node == 0 else "21 10")
    address = rank_gpus.cuda.open_driver()[0].devices()[0]["pci"]
    machine.gpu(f"pci0000:00/{address}", numa=0)
    machine.gpu("pci0000:00/0000:77:00.0", numa=0)
    machine.gpu("pci0000:00/0000:78:00.0", numa=0)
    shown = rank_gpus.text()
    assert shown.startswith(f"GPU 0: {address} (GPU-656d756c-6174-6564-2047-505520202030, NUMA distance 21"), shown
    assert shown.endswith("505520202031); 1 hidden")  # of three GPUs the driver shows two
    assert rank_gpus.numa_distance("0000:79:00.0", {1}) is None
    assert rank_gpus.numbers("0-2,7") == {0, 1, 2, 7} and rank_gpus.numbers(None) == set()


class MockJob:
    """Mock of a job with two ranks, as seen by rank 0."""

    rank, size = 0, 2

    def __init__(self, others):
        self.others = others

    def gather(self, value):
        return [value, self.others[type(value)](value)]

    def share(self, value):
        return value

    def end(self):
        pass


def test_survey_and_job(weft, monkeypatch, machine):
    job = MockJob(
        {
            dict: lambda place: {**place, "boot": "other", "node": "far"},
            list: lambda found: [*found, ["x", SLOW, "e", "r"]],
        }
    )
    found = cluster.survey(job, lambda: [Finding("x", OK, "e", "")])
    assert list(found)[1] == "far" and found["far"][1].status == SLOW
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "2")
    assert cluster.started_by_launcher()
    monkeypatch.setattr(cluster, "Job", lambda: job)
    shown = weft("doctor", "--only", "host")
    assert shown.status == 0 and "all 2" in shown.out and "far" in shown.out

    def refuse():
        raise OSError("MPI_Init fails")

    monkeypatch.setattr(cluster, "Job", refuse)
    assert weft("doctor").status == 1


def test_under_mpiexec():
    words = [
        os.path.join(PREFIX, "bin", "mpiexec"),
        "-n",
        "2",
        os.path.join(PREFIX, "bin", "weft"),
        "doctor",
        "--only",
        "host",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "equal for 2 ranks" in done.stdout and done.stdout.count("mpiexec and messages") == 1


def fake_mpi(tmp_path, mpiexec=f'exec "{PREFIX}/bin/mpiexec" "$@"', mpicc=f'exec "{PREFIX}/bin/mpicc" "$@"'):
    """Creates an installation with the given scripts as mpiexec and mpicc; by default they run Weft's programs."""
    (tmp_path / "bin").mkdir()
    if mpiexec:
        script(tmp_path / "bin" / "mpiexec", mpiexec)
    return script(tmp_path / "bin" / "mpicc", mpicc)


def test_another_mpi(weft, emulated, tmp_path):
    checks = by_check(weft("doctor", "--json", "--mpi", fake_mpi(tmp_path)).out)
    assert checks["library"]["evidence"].startswith("Weft")
    assert "cuda" in checks["claimed GPU support"]["evidence"]
    assert checks["small messages of GPU memory"]["status"] == OK
    assert checks["reductions of GPU memory"]["status"] == OK


def test_another_mpi_without_a_gpu(weft, no_driver, tmp_path):
    found = weft("doctor", "--mpi", fake_mpi(tmp_path))
    assert found.status == 0 and "no GPU is usable" in found.out


def test_another_mpi_that_crashes(weft, emulated, tmp_path):
    crash = f'case "$*" in *cuda*) kill -SEGV $$;; *latency*) exit 3;; esac; exec "{PREFIX}/bin/mpiexec" "$@"'
    found = weft("doctor", "--json", "--mpi", fake_mpi(tmp_path, crash))
    assert found.status == 1
    checks = by_check(found.out)
    assert checks["large messages of GPU memory"]["evidence"].startswith("it crashed (SIGSEGV)")
    assert checks["host messages"]["status"] == BROKEN


def test_mpicc_that_does_not_work(weft, tmp_path):
    (tmp_path / "a").mkdir()
    for mpicc, reason in (
        ("/not/there", "is not a program"),
        (fake_mpi(tmp_path, mpicc="exit 1"), "does not compile"),
        (fake_mpi(tmp_path / "a", mpiexec=None), "no mpiexec"),
    ):
        refused = weft("doctor", "--mpi", mpicc)
        assert refused.status == 2 and reason in refused.err and len(refused.err.splitlines()) == 1


def test_slow_large_messages(tmp_path):
    class Slow:
        folder, name, mpicc, mpiexec = str(tmp_path), "X", "mpicc", "mpiexec"

        def benchmark(self, name):
            return [name]

        def run(self, ranks, words, seconds):
            output.write_file(words[-1], output.json_text({"rows": [{"size": 1 << 20, "latency_us": 9000}]}))
            return host.children.Outcome(0, None, False, "", "")

    assert other.run_benchmark(Slow(), "large", "latency", ["-d", "cuda"], "yes").status == SLOW
    assert library.path().startswith(PREFIX)
