# SPDX-License-Identifier: BSD-3-Clause
import json
import os

import pytest
from weft_mpi import info, library
from weft_mpi.output import Refusal

PREFIX = os.environ["MPI_PREFIX"]


def test_forms(weft, no_driver):
    facts = json.loads(weft("info", "--json").out)
    assert facts["prefix"] == PREFIX
    assert facts["mpi_standard"] == "5.0" and facts["abi"] == "1.0"
    assert "Weft" in facts["library_version"] and "mpiexec" in facts["launcher"]
    assert facts["cuda_usable"] is False and facts["devices"] == []
    lines = weft("info", "--parsable").out.splitlines()
    assert lines[0] == "weft:weft:" + facts["weft"]
    assert "weft:mpi_built_with_cuda_support:value:true" in lines
    assert "weft:cuda_usable:false" in lines
    text = weft("info").out
    assert PREFIX in text and facts["machine"] in text and facts["transports"]


def test_devices(weft, emulated, fake_nvml, machine):
    machine.gpu("pci0000:00/0000:00:01.0/0000:10:00.0", numa=1)
    machine.gpu("pci0000:00/0000:00:02.0/0000:11:00.0")
    machine.nic("mlx5_0", "pci0000:00/0000:00:01.0/0000:12:00.0")
    facts = json.loads(weft("info", "--json").out)
    assert [device["numa_node"] for device in facts["devices"]] == [1, 0]
    assert facts["devices"][0]["nics"] == {"mlx5_0": "PIX"} and facts["devices"][1]["nics"] == {"mlx5_0": "PHB"}
    assert facts["devices"][0]["nvlinks"] == 18
    assert facts["devices"][0]["mps"] == "off" and facts["devices"][0]["compute_mode"] == "default"
    assert facts["device_matrix"][0] == {"from": 0, "to": 1, "peer_access": True, "nvlink": True, "pcie": "PHB"}
    assert facts["nics"][0]["driver"] == "mlx5_core"
    text = weft("info").out
    assert "NV18" in text and "mlx5_0" in text and "PIX" in text
    assert "weft:devices:0:nics:mlx5_0:PIX" in weft("info", "--parsable").out


def test_connections():
    row = {"peer_access": False, "nvlink": False, "pcie": "SYS"}
    assert info.connection(row, {"nvlinks": 4}) == "SYS!"
    assert info.connection({**row, "nvlink": True, "peer_access": True}, {"nvlinks": 4}) == "NV4"


def test_settings(weft, monkeypatch):
    monkeypatch.setenv("WEFT_P2P_CREDIT", "64k")
    found = {setting["variable"]: setting for setting in library.settings()}
    assert {"value", "default", "origin", "level", "range", "help", "change_when"} < set(found["WEFT_P2P_CREDIT"])
    assert "WEFT_P2P_CREDIT" in weft("info", "--config").out
    assert "weft:config:WEFT_P2P_CREDIT:value:65536" in weft("info", "--config", "--parsable").out
    assert found["WEFT_P2P_CREDIT"]["origin"] == "environment"
    assert json.loads(weft("info", "--config", "--json").out)
    assert "(environment)" in weft("info", "--config").out
    monkeypatch.setenv("WEFT_P2P_CREDIT", "many")
    refused = weft("info", "--config")
    assert refused.status == 2 and "WEFT_P2P_CREDIT=many" in refused.err


def test_levels_of_settings(weft, monkeypatch):
    def listed(*options):
        return {one["variable"]: one for one in json.loads(weft("info", "--config", "--json", *options).out)}

    user, every = listed(), listed("--all")
    assert 40 < len(user) <= 60 < len(every)
    assert user == {name: one for name, one in every.items() if one["level"] == "user"}
    for one in every.values():
        assert bool(one["change_when"]) == (one["level"] == "user"), one
        assert one["level"] == "internal" or (one["help"][-1] == "." and one["change_when"][-1] != "."), one
    assert "Change it when a receiver runs out of memory" in weft("info", "--config").out
    monkeypatch.setenv("WEFT_GPU_RTR_WAIT", "100")  # an internal setting is shown once it is set
    assert set(listed()) - set(user) == {"WEFT_GPU_RTR_WAIT"}
    monkeypatch.delenv("WEFT_GPU_RTR_WAIT")  # and no longer, though the library is the same
    assert listed() == user
    for one in every.values():
        monkeypatch.setenv(one["variable"], one["default"])  # each default is a valid value
    assert {one["origin"] for one in listed("--all").values()} == {"environment"}
    assert weft("info", "--all").status == 2


def test_broken_prefix(monkeypatch, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libmpi_abi.so.1").write_text("no library")
    monkeypatch.setattr(info.prefix, "find", lambda: str(tmp_path))
    with pytest.raises(Refusal, match="does not load"):
        library.load()
    assert info.first_line([str(tmp_path / "mpicc")]).startswith("unusable")
