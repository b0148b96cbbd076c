# SPDX-License-Identifier: BSD-3-Clause
# Fixtures: the command line, run in this process from the source tree on the prefix under test; simulated machines.
import os
import pty
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "cli"))
sys.path.append(os.path.join(ROOT, "tools", "docs"))
sys.dont_write_bytecode = True

from weft_mpi import prefix  # noqa: E402
from weft_mpi.__main__ import main  # noqa: E402
from weft_mpi.machine import cuda, files, nvml  # noqa: E402

PREFIX = os.environ["MPI_PREFIX"]


def pytest_configure(config):
    config.addinivalue_line("markers", "nightly: takes long and is a variant of another test")


class Result:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


@pytest.fixture(autouse=True)
def on_prefix(monkeypatch):
    monkeypatch.setattr(prefix, "find", lambda: PREFIX)
    for name in list(os.environ):
        if name.startswith(("PMI_", "PMIX_", "SLURM_", "OMPI_", "UCX_", "FI_")) or name in ("CUDA_VISIBLE_DEVICES",):
            monkeypatch.delenv(name)


@pytest.fixture
def weft(capfd):
    """Returns weft(words...), which runs a command and returns its Result."""

    def call(*words):
        capfd.readouterr()
        try:
            status = main(list(words))
        except SystemExit as end:
            status = end.code
        sys.stdout.flush()
        captured = capfd.readouterr()
        return Result(status, captured.out, captured.err)

    return call


@pytest.fixture
def on_terminal():
    """Returns a function that runs a command with a terminal as its stdout and returns its Result, in bytes."""

    def call(*command, **variables):
        ours, theirs = pty.openpty()
        environment = dict(os.environ, TERM="xterm", **variables)
        with subprocess.Popen(command, stdout=theirs, stderr=subprocess.PIPE, env=environment) as process:
            os.close(theirs)
            shown = b""
            try:
                while True:
                    shown += os.read(ours, 1 << 16)
            except OSError:  # the command has ended
                os.close(ours)
            errors = process.communicate(timeout=60)[1]
        return Result(process.returncode, shown, errors)

    return call


@pytest.fixture
def emulated(monkeypatch):
    """Provides two emulated GPUs."""
    monkeypatch.setenv("WEFT_CUDA_DRIVER", os.environ["EMUCUDA"])


@pytest.fixture
def no_driver(monkeypatch):
    """Hides the GPUs of this machine."""
    monkeypatch.delenv("WEFT_CUDA_DRIVER", raising=False)
    monkeypatch.setattr(cuda, "library_name", lambda: "libnot-there.so")
    monkeypatch.setattr(nvml, "LIBRARY", "libnot-there.so")


class Machine:
    """A folder that replaces the kernel's file systems."""

    def __init__(self, root):
        self.root = str(root)

    def write(self, name, text=""):
        path = os.path.join(self.root, name.lstrip("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        mode = "wb" if isinstance(text, bytes) else "w"
        with open(path, mode) as file:
            file.write(text)

    def link(self, name, target):
        path = os.path.join(self.root, name.lstrip("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.makedirs(os.path.join(self.root, target.lstrip("/")), exist_ok=True)
        os.symlink(os.path.relpath(os.path.join(self.root, target.lstrip("/")), os.path.dirname(path)), path)

    def pci(self, device_path, vendor, kind, numa=0, config=b""):
        """Creates a device at a path such as pci0000:00/0000:00:01.0/0000:10:00.0."""
        folder, address = "/sys/devices/" + device_path, device_path.rsplit("/", 1)[-1]
        self.write(folder + "/vendor", f"0x{vendor:04x}\n")
        self.write(folder + "/class", f"0x{kind:06x}\n")
        self.write(folder + "/numa_node", "%d\n" % numa)
        self.write(folder + "/config", config)
        self.link("/sys/bus/pci/devices/" + address, folder)
        return folder

    def gpu(self, device_path, numa=0):
        return self.pci(device_path, 0x10DE, 0x030200, numa)

    def nic(self, name, device_path, state="4: ACTIVE", numa=0, driver="mlx5_core"):
        folder = self.pci(device_path, 0x15B3, 0x020700, numa)
        self.link(f"/sys/class/infiniband/{name}/device", folder)
        self.link(folder.rstrip("/") + "/driver", "/sys/bus/pci/drivers/" + driver)
        port = f"/sys/class/infiniband/{name}/ports/1/"
        self.write(port + "state", state + "\n")
        self.write(port + "rate", "400 Gb/sec (4X NDR)\n")
        self.write(port + "link_layer", "InfiniBand\n")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.setattr(files, "ROOT", str(root))
    return Machine(root)


@pytest.fixture
def fake_nvml(monkeypatch):
    """Provides NVML of two GPUs with 18 NVLinks each; the variables FAKE_NVML_* inject faults."""
    monkeypatch.setattr(nvml, "LIBRARY", os.path.join(os.environ["FAKES"], "libcli_fake_nvml.so"))
