# SPDX-License-Identifier: BSD-3-Clause
# weft hosts and weft doctor --hosts with an ssh that runs the commands on this machine; test/cluster/ssh_hosts.py has real
# ones.
import json
import os
import socket
import subprocess
import sys
import zipfile

import pytest
from conftest import PREFIX
from weft_mpi import children, prefix
from weft_mpi.doctor import hosts as checks
from weft_mpi.doctor import remote
from weft_mpi.doctor.finding import BROKEN, OK, SLOW, UNCHECKED
from weft_mpi.hosts import package, record, ssh
from weft_mpi.machine import pci

# far: a host with a data folder of its own; near: a host with the same folder; the others do not answer.
SSH = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do case $1 in -o) shift 2;; *) shift;; esac; done
host=$1; shift
case $host in
near) exec sh -c "$*" ;;
far) exec sh -c "$(printf '%s' "$*" | sed "s|$XDG_DATA_HOME|$FAR|g")" ;;
full) case "$*" in *tar*) echo 'mkdir: No space left on device' >&2; exit 1 ;; *) echo absent; exit 0 ;; esac ;;
denied) echo 'me@denied: Permission denied (publickey,password).' >&2 ;;
stranger) echo 'Host key verification failed.' >&2 ;;
nowhere) echo 'ssh: Could not resolve hostname nowhere: Name or service not known' >&2 ;;
off) echo 'ssh: connect to host off port 22: Connection refused' >&2 ;;
*) echo 'something else' >&2 ;;
esac
exit 255
"""
HYDRA = """#!/bin/sh
[ "$1" = -info ] && exit 0
case "$*" in *"-hosts deaf:"*) echo 'cannot connect' >&2; exit 1 ;; esac
exit 0
"""


class Network:
    def __init__(self, folder, wheel):
        self.folder, self.wheel = folder, wheel

    def __truediv__(self, name):
        return self.folder / name

    def __str__(self):
        return str(self.folder)


@pytest.fixture
def network(tmp_path, monkeypatch):
    """Provides ssh, a data folder and a wheel."""
    for name in ("bin", "data", "far"):
        (tmp_path / name).mkdir()
    program = tmp_path / "bin" / "ssh"
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("FAR", str(tmp_path / "far"))
    wheel = tmp_path / f"mpich-{package.VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        data = f"mpich-{package.VERSION}.data/data"
        for name in ("bin/mpiexec.hydra", "bin/hydra_pmi_proxy", "bin/mpiexec", "bin/mpicc", "lib/libmpi_abi.so.1"):
            archive.writestr(f"{data}/{name}", HYDRA)
        for name in ("libucp.so.0", "ucx/libuct_ib.so.0", "libfabric.so.1"):
            archive.writestr(f"{data}/lib/mpich/{name}", "library")
        archive.writestr(f"mpich-{package.VERSION}.dist-info/licenses/LICENSE", "free")
    return Network(tmp_path, str(wheel))


def files_below(folder):
    return {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names}


FILES = {
    "bin/mpiexec.hydra",
    "bin/hydra_pmi_proxy",
    "lib/libucp.so.0",
    "lib/ucx/libuct_ib.so.0",
    "licenses/LICENSE",
    "version",
}


def test_set_up_list_and_remove(weft, network):
    assert "no launcher is set up" in weft("hosts").out
    done = weft("hosts", "--setup", "far:4,near,far", "--wheel", network.wheel)
    assert done.status == 0, done.out + done.err
    assert done.out.splitlines()[0] == f"launcher Hydra 5.0.2 of mpich in {network}/data/weft/launcher"
    assert [line.split() for line in done.out.splitlines()[2:]] == [["far", "ready"], ["near", "ready"]]
    assert files_below(network / "data" / "weft" / "launcher") == FILES | {"hosts"}
    assert files_below(network / "far" / "weft" / "launcher") == FILES  # none of Weft's own names
    assert os.access(network / "far" / "weft" / "launcher" / "bin" / "hydra_pmi_proxy", os.X_OK)
    assert weft("hosts").status == 0 and record.hosts() == ["far", "near"]
    # A second time, with another host: nothing is downloaded, the first hosts stay.
    assert weft("hosts", "--setup", socket.gethostname()).status == 0
    listed = json.loads(weft("hosts", "--json").out)
    assert [host["state"] for host in listed["hosts"]] == ["ready"] * 3
    assert listed["launcher"] == "Hydra 5.0.2 of mpich"
    os.unlink(network / "far" / "weft" / "launcher" / "bin" / "hydra_pmi_proxy")
    missing = weft("hosts")
    assert missing.status == 1 and "far   no launcher" in missing.out and "weft hosts --setup far" in missing.out
    assert weft("hosts", "--setup", "far").status == 0  # repaired
    assert weft("hosts", "--remove", "far").status == 0
    assert not files_below(network / "far") and record.hosts() == ["near", socket.gethostname()]
    assert weft("hosts", "--remove", f"near,{socket.gethostname()}").status == 0
    assert not files_below(network / "data")


@pytest.mark.parametrize(
    ("host", "state", "remedy"),
    [
        ("denied", "Permission denied", "ssh-copy-id denied"),
        ("stranger", "key is unknown", "ssh stranger"),
        ("nowhere", "Could not resolve", "/etc/hosts"),
        ("off", "Connection refused", "sshd"),
        ("odd", "something else", "ssh odd true"),
        ("full", "No space left", "XDG_DATA_HOME"),
    ],
)
def test_hosts_that_cannot_be_set_up(weft, network, host, state, remedy):
    done = weft("hosts", "--setup", f"near,{host}", "--wheel", network.wheel)
    assert done.status == 1 and state in done.out and remedy in done.out, done.out
    assert record.hosts() == ["near"]
    if host != "full":
        assert state in weft("hosts", "--remove", host).out


def test_a_host_without_weft_and_one_that_the_launcher_cannot_reach(weft, network, monkeypatch):
    monkeypatch.setattr(ssh, "is_here", lambda host: host == "deaf")
    done = weft("hosts", "--setup", "deaf", "--wheel", network.wheel)
    assert done.status == 1 and "cannot start a process (exit status 1: cannot connect)" in done.out
    monkeypatch.setattr(prefix, "mpiexec", lambda: "/not/there/mpiexec")
    done = weft("hosts", "--setup", "near")
    assert done.status == 1 and "no Weft at /not/there/mpiexec" in done.out and "same path" in done.out


def test_bad_input(weft, network, monkeypatch):
    assert "'-x' is not the name of a host" in weft("hosts", "--setup=-x").err
    assert weft("hosts", "--setup", "a,,b").status == 2
    assert "--wheel without --setup" in weft("hosts", "--wheel", network.wheel).err
    bad = network / "bad-1-any.whl"
    bad.write_text("no archive")
    assert "cannot be read" in weft("hosts", "--setup", "near", "--wheel", str(bad)).err
    with zipfile.ZipFile(bad, "w") as archive:
        archive.writestr("x/bin/mpicc", "")
    assert "has no mpiexec.hydra and hydra_pmi_proxy" in weft("hosts", "--setup", "near", "--wheel", str(bad)).err
    monkeypatch.setenv("XDG_DATA_HOME", "/proc/nothing")
    assert "set XDG_DATA_HOME to another" in weft("hosts", "--setup", "near", "--wheel", network.wheel).err
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.delenv("HOME")
    assert "HOME is not set" in weft("hosts").err
    monkeypatch.setenv("HOME", "/home/me")
    assert record.folder() == "/home/me/.local/share/weft/launcher"
    monkeypatch.setenv("PATH", "/nowhere")
    assert "ssh is not installed" in weft("hosts", "--setup", "near").err


def test_download(weft, network, monkeypatch):
    """pip is replaced by programs that copy the wheel, or fail."""
    pip = network / "bin" / "pip3"
    pip.write_text(f'#!/bin/sh\nwhile [ "$1" != -d ]; do shift; done\ncp {network.wheel} "$2"\n')
    pip.chmod(0o755)
    monkeypatch.setattr(package.importlib.util, "find_spec", lambda name: None)
    assert weft("hosts", "--setup", "near").status == 0
    assert weft("hosts", "--remove", "near").status == 0
    pip.write_text("#!/bin/sh\necho 'ERROR: No matching distribution' >&2\nexit 1\n")
    failed = weft("hosts", "--setup", "near")
    assert failed.status == 1 and "No matching distribution" in failed.err and "--wheel" in failed.err
    monkeypatch.setenv("PATH", f"{network}/bin")
    pip.unlink()
    assert "pip is not installed" in weft("hosts", "--setup", "near").err
    monkeypatch.undo()
    assert package.pip()[0] == sys.executable or package.pip()[0].endswith("pip3")


def facts(host="a", **changes):
    return {"host": host, "library": "/w/lib", "version": "Weft 1", "digest": "d1", "lag": (0.0, 0.1), "gpus": [],
            "addresses": {"eth0": "10.0.0.1"}, "networks": ["ucx: UCX 1.20 (/u, x), memory: host"], "present": 0,
            "hidden": [], "modes": [], "mps": [], **changes}  # fmt: skip


def statuses(findings):
    return [findings[host].status for host in sorted(findings)]


def test_what_the_hosts_must_share():
    same = {"a": facts(), "b": facts()}
    for check in (checks.equal_weft, checks.clocks, checks.networks, checks.ucx):
        assert statuses(check(same)) == [OK, OK], check
    assert statuses(checks.gpus(same)) == [UNCHECKED] * 2
    other = checks.equal_weft({"a": facts(), "b": facts(version="Weft 2")})
    assert statuses(other) == [BROKEN] * 2 and "a: Weft 1; b: Weft 2" in other["a"].evidence
    other = checks.equal_weft({"a": facts(), "b": facts(digest="d2")})
    assert other["b"].status == BROKEN and "a: d1; b: d2" in other["b"].evidence
    assert statuses(checks.clocks({"a": facts(), "b": facts(lag=(100.0, 1.0))})) == [OK, SLOW]
    two = {"eth0": "10.0.1.1", "ib0": "10.0.2.1"}
    assert statuses(checks.networks({"a": facts(), "b": facts(addresses=two)})) == [SLOW] * 2
    assert statuses(checks.networks({"a": facts(), "b": facts(addresses={"eth0": "10.0.9.1"})})) == [OK] * 2
    assert checks.networks({}) == {}


def test_network_libraries_of_the_hosts():
    none = ["ucx: not usable: absent", "ofi: not usable: absent"]
    found = checks.ucx({"a": facts(), "b": facts(networks=none)})
    assert found["b"].status == BROKEN and "libucx-cu13" in found["b"].remedy
    newer = ["ucx: UCX 1.22 (/v, x), memory: host, cuda"]
    found = checks.ucx({"a": facts(), "b": facts(networks=newer)})
    assert statuses(found) == [BROKEN] * 2 and "a: ucx: UCX 1.20; b: ucx: UCX 1.22" in found["a"].evidence
    gpu = {"gpus": ["H200"], "present": 1}
    assert statuses(checks.ucx({"a": facts(**gpu), "b": facts(**gpu)})) == [SLOW] * 2
    assert statuses(checks.ucx({"a": facts(networks=newer, **gpu)})) == [OK]


def test_adapters_of_the_hosts():
    one = "ofi: libfabric 2.5 (/l, x), provider tcp over eth0 (the fastest), device memory staged"
    two = "ofi: libfabric 2.5 (/l, x), provider cxi over cxi0 + cxi1 (same switch; 2 adapters), device memory direct"
    assert checks.adapters({"a": facts(), "b": facts(networks=["ofi: not usable: absent"])}) == {}
    found = checks.adapters({"a": facts(networks=[two]), "b": facts(networks=["ucx: x", two])})
    assert statuses(found) == [OK, OK] and "2 over libfabric: cxi0, cxi1" in found["a"].evidence
    found = checks.adapters({"a": facts(networks=[one]), "b": facts(networks=[two])})
    assert statuses(found) == [SLOW] * 2 and "WEFT_NET_OFI_NIC" in found["a"].remedy


def test_gpus_of_the_hosts():
    all_visible = facts(gpus=["H200"] * 2, present=2, modes=["default"], mps=["off"])
    hidden = facts(gpus=["H200"], present=2, hidden=["CUDA_VISIBLE_DEVICES=0"], modes=["default"], mps=["on"])
    found = checks.gpus({"a": all_visible, "b": hidden})
    assert statuses(found) == [SLOW] * 2 and "1 of 2: H200" in found["b"].evidence
    assert "MPS: on; 1 hidden: CUDA_VISIBLE_DEVICES=0" in found["b"].evidence
    assert statuses(checks.gpus({"a": all_visible, "b": all_visible})) == [OK] * 2
    denied = facts(present=2, hidden=["a cgroup or the container denies /dev/nvidia0, /dev/nvidia1"])
    found = checks.gpus({"a": denied, "b": {**all_visible, "modes": ["prohibited"]}})
    assert statuses(found) == [BROKEN] * 2 and "cgroup" in found["a"].evidence


def test_hidden_gpus_of_a_host(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setattr(pci, "cut_off_gpus", lambda: ["/dev/nvidia3"])
    monkeypatch.setattr(remote.cuda, "open_driver", lambda: (None, "cuInit: no device"))
    found = remote.gpus()
    assert found["hidden"] == [
        "CUDA_VISIBLE_DEVICES=1",
        "a cgroup or the container denies /dev/nvidia3",
        "cuInit: no device",
    ]
    assert found["gpus"] == []


def test_connections(network):
    server = subprocess.Popen(children.python("weft_mpi.doctor.remote", "listen"), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    port = json.loads(server.stdout.readline())["port"]
    targets = [f"localhost:{port}", "localhost:1", "no-such-host.invalid:1"]
    found = remote.connect(targets)
    assert found[targets[0]] == "" and "refused" in found[targets[1]] and found[targets[2]]
    server.stdin.close()
    assert server.wait(10) == 0
    server.stdout.close()


def test_doctor_over_ssh(weft, network, monkeypatch):
    """Two hosts, of which one is this machine once more; the job is one on this host."""
    own = socket.gethostname()
    monkeypatch.setattr(
        checks, "exchange", lambda name, kind, one, other: checks.ok(name, f"{kind}: {one} and {other}")
    )
    monkeypatch.setattr(children, "RUN", os.path.join(PREFIX, "share/weft/python/weft_mpi/isolated/run.py"))
    done = weft("doctor", "--hosts", f"{own},near,denied", "--only", "network", "--json")
    assert done.status == 1, done.err
    nodes = json.loads(done.out)["nodes"]
    by_check = {host: {finding["check"]: finding for finding in found} for host, found in nodes.items()}
    assert by_check["near"]["same Weft"]["status"] == OK and by_check[own]["ssh and path"]["evidence"] == "on this host"
    assert by_check["near"]["clocks of the hosts"]["status"] == OK
    assert "environment" in by_check["near"] and list(by_check["denied"]) == ["ssh and path"]
    assert by_check["denied"]["ssh and path"]["remedy"].endswith("ssh-copy-id denied")
    assert by_check["near"]["messages between hosts"]["evidence"] == f"H: {own} and near"
    assert by_check["near"]["GPU messages between hosts"]["status"] == UNCHECKED
    assert "--hosts with --mpi" in weft("doctor", "--hosts", "near", "--mpi", "mpicc").err
    monkeypatch.setattr(children, "RUN", "/not/there.py")
    done = weft("doctor", "--hosts", "near", "--only", "network")
    assert done.status == 1 and "Weft cannot run there" in done.out and "same path" in done.out


def test_messages_between_hosts(monkeypatch, tmp_path):
    program = tmp_path / "mpiexec"
    monkeypatch.setattr(prefix, "mpiexec", lambda: str(program))

    def outcome(text):
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        return checks.exchange("messages", "D", "a", "b")

    good = "echo '# Weft'; echo '8 5.00'; echo '4194304 1000.00'"
    assert outcome(good).status == OK and "5.0 us for 8 bytes, 4.19 GB/s" in outcome(good).evidence
    slowed = outcome(good + "; echo 'weft[0]: slow path net.staged (no GPUDirect)' >&2")
    assert slowed.status == SLOW and "net.staged" in slowed.evidence
    failed = outcome("echo 'an error' >&2; exit 3")
    assert failed.status == BROKEN and "a and b: exit status 3: an error" in failed.evidence
    gpu = facts(gpus=["x"], present=1)
    found = checks.messages({"a": gpu, "b": gpu, "c": facts()}, "messages", "D")
    assert found["b"].status == BROKEN and found["c"].status == UNCHECKED
    assert checks.messages({"a": gpu}, "messages", "D") == {}
