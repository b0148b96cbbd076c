# SPDX-License-Identifier: BSD-3-Clause
# weft check: reports of all ranks, summed up; its exit status; a race with emulated GPUs.
import os
import subprocess

import pytest
from weft_mpi.check import Findings

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("check") / "check")
    source = os.path.join(HERE, "check.c")
    subprocess.run([PREFIX + "/bin/mpicc", source, "-o", path, "-ldl", "-pthread"], check=True)
    return path


@pytest.fixture
def checked(weft, program):
    """Returns checked(ranks, what): the Result, and the summary's lines."""

    def call(ranks, what):
        launcher = [PREFIX + "/bin/mpiexec", "-n", str(ranks)] if ranks else []
        result = weft("check", *launcher, program, what)
        lines = result.out.splitlines()
        first = [i for i, line in enumerate(lines) if line.startswith("weft check: ")]
        assert len(first) <= 1 and "WEFT_CHECK summary" not in result.err
        return result, lines[first[0] :] if first else []

    return call


@pytest.mark.parametrize("command", ["check", "trace"])
def test_programs_that_are_none_of_mpi(weft, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = weft(command, "/not/there")
    assert refused.status == 2 and refused.err.startswith(f"weft {command}: /not/there cannot be started")
    failed = weft(command, "true", "argument")
    assert failed.status == 1 and failed.err.startswith(f"weft {command}: no rank of Weft has ")


def test_nothing(checked):
    result, lines = checked(2, "nothing")
    assert result.status == 0, result.err
    assert "end of rank 0" in result.out and "end of rank 1" in result.out
    assert len(lines) == 1 and "no reports in" in lines[0] and "2 ranks that ended MPI" in lines[0], lines
    result, lines = checked(0, "nothing")
    assert result.status == 0 and "of 1 rank that ended MPI" in lines[0], lines


def test_status_of_the_program(checked):
    result, lines = checked(0, "status")
    assert result.status == 5 and lines[1:] == ["  the program ended with status 5"], lines


def test_requests_that_nobody_waits_for(checked):
    result, lines = checked(3, "leak")
    assert result.status == 1
    assert "3 reports in" in lines[0] and len(lines) == 4, lines
    for rank in range(3):
        text = f"  1 x rank {rank}: MPI_Finalize found a request that leaks: a send of 4 bytes to rank {(rank + 1) % 3}"
        assert any(line.startswith(text) for line in lines), (text, lines)
    assert result.err.count("WEFT_CHECK: ") == 3


def test_different_collectives(checked):
    result, lines = checked(2, "collective")
    assert result.status == 1
    assert any("MPI_Bcast: the sizes differ: rank 0 passes 4 bytes, rank 1 passes 8 bytes" in line for line in lines), (
        lines
    )
    assert not any("The error handler aborts" in line for line in lines)
    assert any(line.startswith("  the program ended with status") for line in lines)


def test_race(checked, emulated):
    result, lines = checked(2, "race")
    assert result.status == 1, result.err
    assert "3 reports in" in lines[0] and "3 GPU buffers with queued work compared" in lines[0], lines
    assert len(lines) == 2, lines
    assert lines[1].startswith("  3 x rank 0: GPU work that was queued before MPI_Send still wrote the buffer"), lines
    assert "end of rank 1" in result.out  # a race does not end the program


def test_old_driver(checked, emulated, monkeypatch):
    monkeypatch.setenv("EMUCUDA_VERSION", "12040")
    result, lines = checked(2, "race")
    assert result.status == 0, result.err
    assert any(
        "not checked, ranks 0, 1: buffers are not checked (the driver implements CUDA 12.4)" in line for line in lines
    )


def test_refusals(weft):
    assert weft("check", "/nonexistent/program").status == 2
    result = weft("check", "true")
    assert result.status == 1 and "no rank of Weft has ended MPI" in result.err
    ended = weft("check", "sh", "-c", "exit 15")  # as an error of MPI that is not one of the check ends a job
    assert ended.status == 15 and "no rank of Weft" not in ended.err
    assert "no reports in 0 MPI calls of 0 ranks that ended MPI" in ended.out and "status 15" in ended.out
    assert weft("check").status == 2


def test_quiet_log(checked, monkeypatch):
    monkeypatch.setenv("WEFT_LOG", "none")
    assert checked(2, "leak")[0].status == 1


def test_lines():
    found = Findings()
    assert not found.add(b"a line of the program\n")
    assert not found.add(b"mpi4py.MPI.Exception: MPI_Send: WEFT_CHECK: text\n")
    assert not found.add(b"weft[1]: WEFT_CHECK=gpu: buffers are not checked\n")
    assert found.add(b"weft[2]: WEFT_CHECK summary: calls=3 gpu_compared=1 gpu_undecided=2 gpu_races=0 gpu_skipped=0\n")
    text = found.text(0)
    assert "1 x some rank: mpi4py.MPI.Exception: MPI_Send: text" in text
    assert "not checked, rank 1: buffers" in text and "2 not (the work did not end in time)" in text
