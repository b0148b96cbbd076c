# SPDX-License-Identifier: BSD-3-Clause
# weft tune: with made-up figures that it must tell from noise, and once really, with little time.
import json
import os
import random
import subprocess

import pytest
from weft import library, output, prefix, tune

TABLE = tune.Table("t", "latency", 2, (), "8", "latency_us")
KNOB = tune.Knob("p2p.eager_max", ("4096", "8192"), ("t",))


@pytest.fixture
def made_up(monkeypatch):
    """figures(function of (settings, size)): what every measurement yields, with one percent of noise."""
    noise = random.Random(7)

    def install(cost, enough=True):
        monkeypatch.setattr(tune, "chosen", lambda only: ((TABLE,), (KNOB,)))
        monkeypatch.setattr(tune.Bench, "measure", lambda self, table, values: {
            size: cost(values, size) * noise.gauss(1, 0.01) for size in (8, 4096)})  # fmt: skip
        if not enough:
            monkeypatch.setattr(tune.Bench, "enough_for", lambda self, *_: setattr(self, "out_of_time", True))

    return install


KNOBS = tune.HOST_KNOBS + tune.GPU_KNOBS


@pytest.mark.parametrize("which", range(max(len(knob.values) for knob in KNOBS)))
def test_the_library_takes_every_value(which):
    values = {
        "WEFT_" + knob.setting.upper().replace(".", "_"): knob.values[min(which, len(knob.values) - 1)]
        for knob in KNOBS
    }
    hello = [os.path.join(prefix.find(), "libexec", "weft", "bench", "hello")]
    done = subprocess.run(hello, env={**os.environ, **values}, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


def better(values, size):
    return 0.8 if values.get("p2p.eager_max") == "8192" and size > 8 else 1.0


def test_keeps_what_is_better(weft, made_up, tmp_path):
    made_up(better)
    path = tmp_path / "folder" / "profile"
    done = weft("tune", "-o", str(path))
    assert done.status == 0, done.err
    assert "better" in done.out and "written" in done.out and "-20" in done.out
    machine = library.text_of(library.load(), "MPIX_Machine_name")
    assert path.read_text().startswith("[%s]\n# Written by weft tune" % machine)
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
def test_refuses_noise_and_what_costs_elsewhere(weft, made_up, tmp_path, cost):
    made_up(cost)
    path = tmp_path / "profile"
    done = weft("tune", "-o", str(path))
    assert done.status == 0 and "Nothing is saved" in done.out
    assert not path.exists()
    rows = json.loads(weft("tune", "-o", str(path), "--json").out)["defaults"]
    assert rows == [] or [row["size"] for row in rows] == [8, 4096] and rows[0]["latency_us"] > 0.5


def test_dry_run_and_no_time(weft, made_up, tmp_path):
    made_up(better)
    path = tmp_path / "profile"
    assert "--dry-run" in weft("tune", "-o", str(path), "--dry-run").out
    made_up(better, enough=False)
    found = json.loads(weft("tune", "-o", str(path), "--json").out)
    assert {trial["verdict"] for trial in found["tried"]} == {"no time"} and found["profile"] is None
    assert "that there was time to try" in weft("tune", "-o", str(path)).out
    assert not path.exists()


def test_what_is_good_alone_and_bad_together(weft, made_up, tmp_path, monkeypatch):
    made_up(better)
    monkeypatch.setattr(tune, "verify", lambda *_: [
        {"table": "t", "size": 8, "change_percent": 9.0, "error_percent": 0.1, "worse": True, "affected": True}
    ])  # fmt: skip
    assert "became slower together" in weft("tune", "-o", str(tmp_path / "profile")).out
    assert not tune.gains([])


def test_verification(made_up, monkeypatch):
    """Tables that a setting cannot change are shown and decide nothing; what is worse once is measured again."""
    made_up(lambda values, size: 1.0)
    costs = iter([1.3] * 5 + [1.0] * 100)  # seems worse for five rounds, then not
    monkeypatch.setattr(tune.Bench, "measure", lambda self, table, values: (
        {8: (next(costs) if values else 1.0) * (2 if table.name == "other" and values else 1)}))  # fmt: skip
    other = TABLE._replace(name="other")
    rows = tune.verify(tune.Bench(float("inf")), (other, TABLE), (KNOB,), {"p2p.eager_max": "8192"})
    assert [(row["table"], row["affected"], row["worse"]) for row in rows] == [
        ("t", True, False), ("other", False, False)]  # fmt: skip
    assert rows[0]["change_percent"] > 20 and rows[1]["change_percent"] > 90 and not tune.gains(rows)


def test_verification_needs_time(made_up):
    made_up(better, enough=False)
    (row,) = tune.verify(tune.Bench(0), (TABLE,), (KNOB,), {"p2p.eager_max": "8192"})
    assert row["worse"] and "no time" in row["why"]


def test_refusals(weft, no_driver, tmp_path, monkeypatch):
    assert weft("tune", "--seconds", "1").status == 2
    assert "at least 2" in weft("tune", "--only", "gpu", "-o", str(tmp_path / "p")).err
    (tmp_path / "file").write_text("")
    assert weft("tune", "-o", str(tmp_path / "file" / "p")).status == 2
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert tune.default_path() == str(tmp_path / "weft" / "profile")


def test_values_in_force_are_left_out(monkeypatch):
    def values(setting):
        return next(knob.values for knob in tune.chosen("host")[1] if knob.setting == setting)

    assert "16384" in values("p2p.eager_max")  # not set: the library decides for each peer
    assert "262144" in values("coll.shared_max")
    monkeypatch.setenv("WEFT_P2P_EAGER_MAX", "16384")
    monkeypatch.setenv("WEFT_COLL_SHARED_MAX", "262144")
    assert "16384" not in values("p2p.eager_max")
    assert "262144" not in values("coll.shared_max")


def test_really(weft, tmp_path, monkeypatch, emulated):
    tables = (TABLE._replace(options=("-i", "50", "-x", "5"), sizes="8,16K"),)
    tables += (
        TABLE._replace(name="b", program="bw", options=("-i", "3", "-x", "1"), sizes="1K", field="bandwidth_mb_s"),
    )
    monkeypatch.setattr(tune, "HOST_TABLES", tables)
    monkeypatch.setattr(tune, "HOST_KNOBS", (KNOB._replace(values=("4096",), tables=("t", "b")),))
    done = weft("tune", "--seconds", "10", "--only", "host", "-o", str(tmp_path / "profile"), "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["tried"][0]["setting"] == "p2p.eager_max"
    knobs = tune.chosen("gpu")[1]
    assert [knob.setting for knob in knobs] == [knob.setting for knob in tune.GPU_KNOBS]
    monkeypatch.setenv("WEFT_GPU_COPIER_MAX", "65536")
    assert "65536" in knobs[0].values and "65536" not in tune.chosen("gpu")[1][0].values
    with pytest.raises(output.Failure, match="exit status"):
        tune.Bench(0).measure(TABLE._replace(options=("--nonsense",)), {})
    assert os.listdir(tmp_path) in ([], ["profile"])
