# SPDX-License-Identifier: BSD-3-Clause
# weft tune: with simulated measurements and noise, and once with real measurements and little time.
import json
import os
import random
import re
import subprocess

import pytest
from weft_mpi import library, output, prefix, tune

TABLE = tune.Table("t", "latency", 2, (), "8", "latency_us")
TUNABLE = tune.Tunable("p2p.eager_max", ("4096", "8192"), ("t",))


@pytest.fixture
def simulated(monkeypatch):
    """Installs a cost function of (settings, size) as every measurement, with one percent of noise."""
    noise = random.Random(7)

    def install(cost, enough=True):
        monkeypatch.setattr(tune, "select_tables", lambda only: ((TABLE,), (TUNABLE,)))
        monkeypatch.setattr(tune.Bench, "measure", lambda self, table, values: {
            size: cost(values, size) * noise.gauss(1, 0.01) for size in (8, 4096)})  # fmt: skip
        if not enough:
            monkeypatch.setattr(tune.Bench, "has_time_for", lambda self, *_: setattr(self, "out_of_time", True))

    return install


TUNABLES = tune.HOST_TUNABLES + tune.GPU_TUNABLES


@pytest.mark.parametrize("which", range(max(len(tunable.values) for tunable in TUNABLES)))
def test_the_library_accepts_every_value(which):
    values = {
        "WEFT_" + tunable.setting.upper().replace(".", "_"): tunable.values[min(which, len(tunable.values) - 1)]
        for tunable in TUNABLES
    }
    hello = [os.path.join(prefix.find(), "libexec", "weft", "bench", "hello")]
    done = subprocess.run(hello, env={**os.environ, **values}, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def test_measures_every_crossover_size():
    """Each row of src/coll/schedule/crossovers.cpp has candidates."""
    rows = re.findall(r"coll\.gpu_\w+_bytes", read("src", "coll", "schedule", "crossovers.cpp"))
    assert len(rows) == 11 and set(rows) <= {tunable.setting for tunable in tune.GPU_TUNABLES}


def test_the_library_uses_the_profile(weft, simulated, tmp_path, monkeypatch, emulated):
    """The profile that tune writes changes the protocol of a collective, and info names the profile as the origin."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("WEFT_PROFILE", "")
    simulated(lambda values, size: 0.5 if values else 1.0)
    monkeypatch.setattr(tune, "select_tables", lambda only: ((TABLE,), (
        tune.Tunable("coll.gpu_ll128_min_bytes", ("4096",), ("t",)),)))  # fmt: skip
    before = protocol_of_8k()
    assert before == "LL" and weft("tune").status == 0
    settings = {one["variable"]: one for one in json.loads(command("info", "--config", "--json"))}
    assert settings["WEFT_COLL_GPU_LL128_MIN_BYTES"]["origin"] == "profile"
    assert settings["WEFT_COLL_GPU_LL128_MIN_BYTES"]["value"] == "4096"
    assert protocol_of_8k() == "LL128"
    monkeypatch.setenv("WEFT_PROFILE", "off")
    assert protocol_of_8k() == before


def command(*words):
    """Returns the output of the installed command in a process of its own."""
    return subprocess.run([os.path.join(prefix.find(), "bin", "weft"), *words], capture_output=True, text=True,
                          check=True, timeout=60).stdout  # fmt: skip


def protocol_of_8k():
    rows = json.loads(command("explain", "allreduce", "--kind", "cuda", "--ranks", "4", "--json"))
    return next(row["protocol"] for row in rows["rows"] if row["bytes"] == 8192)


def read(*path):
    with open(os.path.join(os.path.dirname(__file__), "..", "..", *path), encoding="utf-8") as file:
        return file.read()


def better(values, size):
    return 0.8 if values.get("p2p.eager_max") == "8192" and size > 8 else 1.0


def test_keeps_a_better_value(weft, simulated, tmp_path):
    simulated(better)
    path = tmp_path / "folder" / "profile"
    done = weft("tune", "-o", str(path))
    assert done.status == 0, done.err
    assert "better" in done.out and "written" in done.out and "-20" in done.out
    machine = library.text_of(library.load(), "MPIX_Machine_name")
    assert path.read_text().startswith(f"[{machine}]\n# Written by weft tune")
    assert path.read_text().endswith("p2p.eager_max = 8192\n")
    row = next(row for row in json.loads(weft("tune", "--dry-run", "--json").out)["rows"] if row["size"] == 4096)
    assert 0.9 < row["before"] < 1.1 and 0.7 < row["after"] < 0.9
    path.write_text("[other]\na = 1\n\n" + path.read_text().replace("8192", "1") + "\n[third]\nb = 2\n")
    assert weft("tune", "-o", str(path), "--json").status == 0
    assert path.read_text().count("[") == 3 and "p2p.eager_max = 8192" in path.read_text()
    assert "a = 1" in path.read_text() and "b = 2" in path.read_text()


@pytest.mark.parametrize("cost", [
    lambda values, size: 1.0,
    lambda values, size: 0.985 if values else 1.0,
    lambda values, size: (0.5 if size == 8 else 1.2) if values else 1.0,
])  # fmt: skip
def test_refuses_noise_and_regressions(weft, simulated, tmp_path, cost):
    simulated(cost)
    path = tmp_path / "profile"
    done = weft("tune", "-o", str(path))
    assert done.status == 0 and "Nothing is saved" in done.out
    assert not path.exists()
    rows = json.loads(weft("tune", "-o", str(path), "--json").out)["defaults"]
    assert rows == [] or [row["size"] for row in rows] == [8, 4096] and rows[0]["latency_us"] > 0.5


def test_dry_run_and_no_time(weft, simulated, tmp_path):
    simulated(better)
    path = tmp_path / "profile"
    assert "--dry-run" in weft("tune", "-o", str(path), "--dry-run").out
    simulated(better, enough=False)
    found = json.loads(weft("tune", "-o", str(path), "--json").out)
    assert {trial["verdict"] for trial in found["tried"]} == {"no time"} and found["profile"] is None
    assert "within the time limit" in weft("tune", "-o", str(path)).out
    assert not path.exists()


def test_good_alone_and_bad_together(weft, simulated, tmp_path, monkeypatch):
    simulated(better)
    monkeypatch.setattr(tune, "verify", lambda *_: [
        {"table": "t", "size": 8, "change_percent": 9.0, "error_percent": 0.1, "worse": True, "affected": True}
    ])  # fmt: skip
    assert "became slower with all settings together" in weft("tune", "-o", str(tmp_path / "profile")).out
    assert not tune.is_faster([])


def test_verification(simulated, monkeypatch):
    """Tables that a setting does not affect are informational; a slower row is measured again."""
    simulated(lambda values, size: 1.0)
    costs = iter([1.3] * 5 + [1.0] * 100)  # slower in the first five rounds only
    monkeypatch.setattr(tune.Bench, "measure", lambda self, table, values: (
        {8: (next(costs) if values else 1.0) * (2 if table.name == "other" and values else 1)}))  # fmt: skip
    other = TABLE._replace(name="other")
    rows = tune.verify(tune.Bench(float("inf")), (other, TABLE), (TUNABLE,), {"p2p.eager_max": "8192"})
    assert [(row["table"], row["affected"], row["worse"]) for row in rows] == [
        ("t", True, False), ("other", False, False)]  # fmt: skip
    assert rows[0]["change_percent"] > 20 and rows[1]["change_percent"] > 90 and not tune.is_faster(rows)


def test_verification_needs_time(simulated):
    simulated(better, enough=False)
    (row,) = tune.verify(tune.Bench(0), (TABLE,), (TUNABLE,), {"p2p.eager_max": "8192"})
    assert row["worse"] and "no time" in row["why"]


def test_refusals(weft, no_driver, tmp_path, monkeypatch):
    for seconds in ("1", "nan", "inf"):
        refused = weft("tune", "--seconds", seconds)
        assert refused.status == 2 and f"--seconds {seconds}: at least 10 are needed" in refused.err
    assert "at least 2" in weft("tune", "--only", "gpu", "-o", str(tmp_path / "p")).err
    (tmp_path / "file").write_text("")
    assert weft("tune", "-o", str(tmp_path / "file" / "p")).status == 2
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert tune.default_path() == str(tmp_path / "weft" / "profile")


def test_current_values_are_skipped(monkeypatch):
    def values(setting):
        return next(tunable.values for tunable in tune.select_tables("host")[1] if tunable.setting == setting)

    assert "16384" in values("p2p.eager_max")  # not set: the library adapts it per peer
    assert "262144" in values("coll.shared_max_bytes")
    monkeypatch.setenv("WEFT_P2P_EAGER_MAX", "16384")
    monkeypatch.setenv("WEFT_COLL_SHARED_MAX_BYTES", "262144")
    assert "16384" not in values("p2p.eager_max")
    assert "262144" not in values("coll.shared_max_bytes")


def test_real_measurements(weft, tmp_path, monkeypatch, emulated):
    tables = (TABLE._replace(options=("-i", "50", "-x", "5"), sizes="8,16K"),)
    tables += (
        TABLE._replace(name="b", program="bw", options=("-i", "3", "-x", "1"), sizes="1K", field="bandwidth_mb_s"),
    )
    monkeypatch.setattr(tune, "HOST_TABLES", tables)
    monkeypatch.setattr(tune, "HOST_TUNABLES", (TUNABLE._replace(values=("4096",), tables=("t", "b")),))
    done = weft("tune", "--seconds", "10", "--only", "host", "-o", str(tmp_path / "profile"), "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["tried"][0]["setting"] == "p2p.eager_max"
    tunables = tune.select_tables("gpu")[1]
    assert [tunable.setting for tunable in tunables] == [tunable.setting for tunable in tune.GPU_TUNABLES]
    monkeypatch.setenv("WEFT_GPU_RESIDENT_KERNEL_MAX_BYTES", "65536")
    assert "65536" in tunables[0].values and "65536" not in tune.select_tables("gpu")[1][0].values
    with pytest.raises(output.Failure, match="exit status"):
        tune.Bench(0).measure(TABLE._replace(options=("--nonsense",)), {})
    assert os.listdir(tmp_path) in ([], ["profile"])
