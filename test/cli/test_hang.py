# SPDX-License-Identifier: BSD-3-Clause
# weft hang on a job that hangs, and on processes that are not ranks.
import json
import os
import subprocess
import sys
import time

import pytest
from weft import hang, output

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))


@pytest.fixture
def job(tmp_path):
    """Yields the pid of rank 0 of a hanging job."""
    program = str(tmp_path / "hang")
    subprocess.run([PREFIX + "/bin/mpicc", os.path.join(HERE, "hang.c"), "-o", program], check=True)
    started = subprocess.Popen([PREFIX + "/bin/mpiexec", "-n", "3", program], stdout=subprocess.PIPE, text=True)
    try:
        yield int(started.stdout.readline())
    finally:
        started.terminate()
        started.wait()


def test_what_ranks_wait_for(weft, job):
    for _ in range(50):
        found = weft("hang", str(job), "--json")
        ranks = {wait["rank"]: wait for wait in json.loads(found.out)["ranks"]}
        if ranks[0]["what"] and ranks[2]["what"]:
            break
        time.sleep(0.1)
    assert found.status == 1
    assert (ranks[0]["what"], ranks[0]["peer"], ranks[0]["tag"], ranks[0]["bytes"]) == ("receive", 1, 77, 4)
    assert ranks[0]["communicator"] == "MPI_COMM_WORLD (3 ranks)" and ranks[0]["pid"] == job
    assert ranks[1]["what"] == "" and ranks[1]["pid"] != job
    assert ranks[2]["what"] and "the others (2 ranks)" in ranks[2]["communicator"]
    time.sleep(1)
    later = {wait["rank"]: wait for wait in json.loads(weft("hang", str(job), "--json").out)["ranks"]}
    assert 0.9 < later[0]["seconds"] - ranks[0]["seconds"] < 30
    text = weft("hang", str(ranks[1]["pid"])).out
    assert "nothing: computing" in text and "77" in text


def test_no_job(weft, monkeypatch):
    refused = weft("hang", str(os.getpid()))
    assert refused.status == 2 and "is not a rank" in refused.err
    assert hang.mapping(1 << 30) is None
    monkeypatch.setattr(hang, "mapping", lambda pid: None)
    with pytest.raises(output.Refusal, match="no running job"):
        hang.find_job()


def test_several_jobs(monkeypatch):
    monkeypatch.setattr(hang.os, "listdir", lambda path: ["7", "8", "self"])
    monkeypatch.setattr(hang, "mapping", lambda pid: (4096, 8192))
    monkeypatch.setattr(hang, "areas", lambda pid, start, size: [(0, pid, 0)])
    with pytest.raises(output.Refusal, match="2 jobs run here"):
        hang.find_job()
    monkeypatch.setattr(hang.os, "listdir", lambda path: ["7"])
    assert hang.find_job() == 7


PRETENDER = """
import mmap, os, sys
fd = os.memfd_create("weft")
os.ftruncate(fd, 8192)
memory = mmap.mmap(fd, 8192)
memory[: len(sys.argv[1]) // 2] = bytes.fromhex(sys.argv[1])
other = os.open(sys.argv[2].encode() + b"/\\xff", os.O_CREAT | os.O_RDWR)
os.ftruncate(other, 4096)
mapped = mmap.mmap(other, 4096)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("header", [
    b"", b"\xff" * 64, hang.HEADER.pack(hang.MAGIC, 4000, 4096, 64, 0, 4, 8), hang.HEADER.pack(hang.MAGIC, 1, 0xFFFFFFFF, 0, 0, 0, 0),
])  # fmt: skip
def test_a_memfd_of_the_same_name(header, tmp_path):
    command = [sys.executable, "-c", PRETENDER, header.hex(), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        assert hang.mapping(process.pid) is not None
        try:
            found = hang.find_job()  # a job of another test
            assert found != process.pid
        except output.Refusal as refusal:
            assert "jobs run here" in str(refusal) or "no running job" in str(refusal)
        process.stdin.close()


def test_memory_that_is_not_weft(monkeypatch):
    monkeypatch.setattr(hang, "mapping", lambda pid: (4096, 8192))
    with pytest.raises(output.Failure, match="cannot be read"):
        hang.read_job(os.getpid())
    monkeypatch.setattr(hang, "peek", lambda pid, address, size: bytes(size))
    with pytest.raises(output.Failure, match="not \\(yet\\)"):
        hang.read_job(os.getpid())
    assert hang.format_wildcard(-1, -1) == "any" and hang.format_wildcard(3, -1) == 3


def test_a_header_that_describes_more_than_is_mapped(monkeypatch):
    header = hang.HEADER.pack(hang.MAGIC, 2, 4096, 4096, 64, 0, 8)
    monkeypatch.setattr(hang, "peek", lambda pid, address, size: header[:size] if size == len(header) else bytes(size))
    assert len(list(hang.areas(1, 0, 3 * 4096))) == 2
    with pytest.raises(hang.Unreadable):
        list(hang.areas(1, 0, 3 * 4096 - 1))
