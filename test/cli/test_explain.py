# SPDX-License-Identifier: BSD-3-Clause
# weft explain, in this process. test/p2p compares its output with the engine's choices.
import json

import pytest
from weft_mpi import cold


def test_explain(weft, no_driver):
    facts = json.loads(weft("explain", "send", "--kind", "host", "--bytes", "1M", "--json").out)
    assert facts
    assert "eager" in weft("explain", "send", "--kind", "host").out
    assert weft("explain", "send", "--bytes", "many").status == 2
    rows = json.loads(weft("explain", "send", "--kind", "host", "--block", "8", "--bytes", "1M", "--json").out)["rows"]
    assert rows[-1]["protocol"] == "fragments" and not rows[-1]["eager_pack"] and rows[-1]["copies"] == 2
    assert weft("explain", "send", "--kind", "mapped", "--bytes", "1M").status == 0
    assert weft("explain", "nonsense").status == 2


def test_file(weft, no_driver, tmp_path, monkeypatch):
    new = str(tmp_path / "new file")
    facts = json.loads(weft("explain", "file", "--kind", "host", new, "--json").out)
    assert facts["path"] == new and not facts["exists"] and "gpu_path" not in facts
    assert not (tmp_path / "new file").exists()
    (tmp_path / "old").write_text("x")
    out = weft("explain", "file", str(tmp_path / "old")).out
    assert (
        "pinned memory in two halves" in out
        and "short records" in out
        and "interleaved" in out
        and "overwrites" in out
        and "(new)" not in out
    )
    assert weft("explain", "file", "--kind", "cuda", str(tmp_path / "no" / "folder")).status == 2
    assert weft("explain", "file").status == 2
    assert weft("explain", "file", "--kind", "pool", new).status == 2
    assert weft("explain", "send", new).status == 2


def test_one_sided(weft, no_driver):
    rows = json.loads(weft("explain", "put", "--kind", "host", "--bytes", "8", "--json").out)["rows"]
    assert [row["bytes"] for row in rows] == [1, 2, 4, 8]
    assert {row["path"] for row in rows} == {"direct"} and not any(row["target_progress"] for row in rows)
    assert "process_vm_readv" in weft("explain", "get", "--kind", "host", "--window", "create").out
    out = weft("explain", "put", "--kind", "managed", "--to", "managed").out
    assert "message" in out and "must make progress" in out and "migrate" in out
    rows = json.loads(weft("explain", "fetch_and_op", "--kind", "host", "--json").out)["rows"]
    assert [row["bytes"] for row in rows] == [8] and "accumulate lock" in rows[0]["by"]
    out = weft("explain", "put", "--kind", "cuda", "--bytes", "8").out
    assert "no usable GPU" in out and "message" in out
    assert weft("explain", "put", "--window", "dynamic").status == 2


def test_a_collective_without_a_gpu(weft, no_driver):
    assert "no usable GPU here" in weft("explain", "allreduce", "--kind", "cuda").out
    assert "no usable GPU" not in weft("explain", "allreduce", "--kind", "host").out


def test_one_sided_between_gpus(weft, emulated):
    rows = json.loads(weft("explain", "put", "--bytes", "64M", "--json").out)["rows"]
    assert rows[3] == {"bytes": 8, "path": "direct", "by": "a copy engine", "resident_kernel": True,
                       "target_progress": False, "reason": ""}  # fmt: skip
    assert not rows[-1]["resident_kernel"]
    out = weft("explain", "accumulate", "--bytes", "1M").out
    assert "1 - 1K" in out and "atomic operations of a kernel" in out and "in quick succession" in out
    assert "pool has no handle" in weft("explain", "put", "--kind", "pool").out


def test_collectives(weft, no_driver):
    out = weft("explain", "allreduce", "--ranks", "8", "--bytes", "256M").out
    assert "8 ranks" in out and "kernels" in out and "Simple" in out and "derived for 8" in out
    assert "shared memory" in weft("explain", "bcast", "--kind", "host", "--ranks", "4").out
    refused = weft("explain", "allreduce", "--kind", "pool")
    assert refused.status == 2 and "--kind host or cuda" in refused.err
    for ranks in ("0", "4097"):
        refused = weft("explain", "bcast", "--ranks", ranks)
        assert refused.status == 2 and f"--ranks {ranks}: expected a number from 1 to 4096" in refused.err


@pytest.mark.parametrize("words, option, takers", [
    (("send", "--ranks", "4"), "--ranks", "--cold, collectives"),
    (("send", "--window", "create"), "--window", "one-sided operations"),
    (("allreduce", "--block", "8"), "--block", "send"),
    (("allreduce", "--to", "host"), "--to", "send, one-sided operations"),
    (("file", "name", "--bytes", "8"), "--bytes", "--cold, send, collectives, one-sided operations"),
    (("program", "name", "--json"), "--json", "--cold, send, file, collectives, one-sided operations"),
    (("--cold", "--to", "host"), "--to", "send, one-sided operations"),
    (("put", "name"), "a path", "file, program"),
])  # fmt: skip
def test_options_of_another_operation(weft, no_driver, words, option, takers):
    refused = weft("explain", *words)
    assert refused.status == 2 and refused.out == ""
    assert f"{option} does not apply to {words[0]}: it is of {takers}\n" in refused.err


def test_cold(weft, emulated):
    facts = json.loads(weft("explain", "--cold", "--bytes", "64K", "--json").out)
    assert (facts["ranks"], facts["gpus"], facts["bytes"]) == (2, 2, 65536)
    assert all(us > 0 for us in facts["total_us"].values())
    helps = dict(line.split("\t")[::3] for line in cold.counters() if line.startswith(cold.COUNTERS))
    assert {part["counter"]: part["help"] for part in facts["parts"]} == helps
    assert not helps or sum(part["us"] for part in facts["parts"]) > 0
    assert [part["us"] for part in facts["parts"]] == sorted((part["us"] for part in facts["parts"]), reverse=True)
    out = weft("explain", "--bytes", "1K", "--cold").out
    assert "2 GPUs, messages of 1024 bytes" in out and "MPI_Init" in out
    assert all(text in out for text in helps.values())


def test_cold_needs_a_gpu_or_host_memory(weft, no_driver):
    refused = weft("explain", "--cold")
    assert refused.status == 2 and "no usable GPU" in refused.err
    out = weft("explain", "--cold", "--kind", "host", "--bytes", "8").out
    assert "2 ranks of this host, host memory, messages of 8 bytes" in out
    assert weft("explain", "--cold", "--kind", "pool").status == 2
    assert weft("explain", "--cold", "send").status == 2
    assert weft("explain").status == 2
    assert weft("explain", "--cold", "--kind", "host", "--ranks", "1").status == 2
    failed = weft("explain", "--cold", "--kind", "host", "--bytes", "4G")
    assert failed.status == 1 and "the measurement failed: exit status 2: usage" in failed.err


def test_names_may_follow_options(weft, no_driver, tmp_path):
    assert "eager" in weft("explain", "--kind", "host", "send").out
    assert weft("explain", "--kind", "host", "file", str(tmp_path / "new")).status == 0
    assert weft("explain", "--kind", "host", "nonsense").status == 2
