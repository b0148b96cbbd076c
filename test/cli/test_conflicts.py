# SPDX-License-Identifier: BSD-3-Clause
# Other MPIs in the Python environment of a wheel, and on the PATH: weft doctor and weft run-info name them; mpi4py's search
# finds Weft.
import json
import os
import subprocess
import sys

import pytest
from weft_mpi import conflicts, prefix
from weft_mpi.doctor import host
from weft_mpi.doctor.finding import BROKEN, OK

WRAPPER = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "wrappers", "environment.sh")


class Package:
    """A package as importlib.metadata describes it."""

    def __init__(self, name, version, *files):
        self.metadata, self.version, self.files = {"Name": name}, version, files

    def read_text(self, name):
        return "".join(f"{file},sha256=x,1\n" for file in self.files)


OTHER = Package("mpich", "5.0.2", "../../../bin/mpiexec", "../../../bin/mpicc", "../../libmpi.so.12", "x/lib.py")
NUMPY = Package("numpy", "2.0", "numpy/core.py", "../../../bin/f2py")


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A folder with the commands and the prefix of a wheel; returns a function that sets its packages."""
    root = tmp_path / "lib" / "weft"
    (root / "bin").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    for name in conflicts.COMMANDS:
        command(tmp_path / "bin" / name, f"exec {WRAPPER}\n# /lib/weft/bin/\n")
    monkeypatch.setattr(prefix, "find", lambda: str(root))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def packages(*found):
        monkeypatch.setattr(conflicts.importlib.metadata, "distributions", lambda: found)
        return tmp_path

    return packages


def command(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def test_no_other_package(environment):
    environment(NUMPY, Package("weft-mpi", "0.1.0", "../../../bin/mpiexec", "../../weft/lib/libmpi_abi.so.1"))
    assert host.check_other_mpi().status == OK and "none" in host.check_other_mpi().evidence


def test_commands_of_weft(environment):
    environment(NUMPY, OTHER)
    finding = host.check_other_mpi()
    assert finding.status == OK
    assert "mpich 5.0.2 is in this environment, too (libmpi.so.12): mpiexec, mpicc in" in finding.evidence
    assert finding.evidence.endswith("are Weft's now") and "after `pip uninstall` of either" in finding.remedy


def test_commands_of_the_other(environment):
    folder = environment(OTHER)
    command(folder / "bin" / "mpiexec", "echo another\n")
    finding = host.check_other_mpi()
    assert finding.status == BROKEN and "mpiexec in" in finding.evidence and "are not Weft's" in finding.evidence
    assert f"the mpiexec of the PATH is not this Weft's: {folder}/bin/mpiexec" in finding.evidence
    assert "--force-reinstall" in finding.remedy and f"{folder}/lib/weft/bin" in finding.remedy


def test_commands_that_were_removed(environment):
    folder = environment(NUMPY)
    (folder / "bin" / "mpicc").unlink()
    finding = host.check_other_mpi()
    assert finding.status == BROKEN and "mpicc in" in finding.evidence and "was removed" in finding.evidence


def test_run_info_names_another_launcher(weft, tmp_path, monkeypatch):
    command(tmp_path / "mpiexec", "echo another\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    printed = weft("run-info", sys.executable).out
    assert f"another MPI: the mpiexec of the PATH is not this Weft's: {tmp_path}/mpiexec" in printed
    monkeypatch.setenv("PATH", os.path.join(prefix.find(), "bin"))
    assert "another MPI" not in weft("run-info", sys.executable).out


def test_the_wrapper_runs_the_program_of_its_name(tmp_path):
    (tmp_path / "lib" / "weft" / "bin").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "elsewhere").mkdir()
    command(tmp_path / "lib" / "weft" / "bin" / "mpicc", 'echo "mpicc of weft: $@"\n')
    with open(WRAPPER, encoding="utf-8") as file:
        command(tmp_path / "bin" / "mpicc", file.read().partition("\n")[2])
    (tmp_path / "elsewhere" / "cc").symlink_to(tmp_path / "bin" / "mpicc")
    for words, options in (
        ([tmp_path / "bin" / "mpicc"], {}),
        (["mpicc"], {"env": {"PATH": str(tmp_path / "bin")}}),
        (["bin/mpicc"], {"cwd": tmp_path}),
        (["sh", "mpicc"], {"cwd": tmp_path / "bin"}),
        ([tmp_path / "elsewhere" / "cc"], {}),
    ):
        done = subprocess.run([*words, "a b", "c"], stdout=subprocess.PIPE, text=True, check=True, **options)
        assert done.stdout == "mpicc of weft: a b c\n"


SEARCH = "import json, sys; from mpi4py import _mpiabi; print(json.dumps([_mpiabi.LIBMPI, _mpiabi.other]))"


@pytest.mark.parametrize(
    "modules, variables, expected",
    [
        (["MPI.mpich.x.so", "MPI.openmpi.x.so"], {}, "compat/libmpi.so.12"),
        (["MPI.openmpi.x.so"], {}, "compat/libmpi.so.40"),
        (["MPI.mpich.x.so", "MPI.mpiabi.x.so"], {}, prefix.LIBRARY),
        (["MPI.x.so"], {}, None),  # built from source
        (["MPI.mpich.x.so"], {"MPI4PY_LIBMPI": "/some/libmpi.so"}, None),
        (["MPI.mpich.x.so"], {"MPI4PY_MPIABI": "openmpi"}, None),
    ],
)
def test_mpi4py_finds_weft(tmp_path, modules, variables, expected):
    """The module that Python runs at its start sets mpi4py's variable, and leaves the user's choice."""
    (tmp_path / "mpi4py").mkdir()
    (tmp_path / "mpi4py" / "__init__.py").write_text("")
    (tmp_path / "mpi4py" / "_mpiabi.py").write_text("LIBMPI = None\nother = 7\n")
    for name in modules:
        (tmp_path / "mpi4py" / name).write_text("")
    root = os.path.join(os.environ["MPI_PREFIX"], "share", "weft", "python")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{root}:{tmp_path}", **variables}
    done = subprocess.run([sys.executable, "-c", "import weft_mpi.site_hook; " + SEARCH], env=environment,
                          stdout=subprocess.PIPE, text=True, check=True)  # fmt: skip
    library, other = json.loads(done.stdout)
    assert other == 7
    assert library == (expected and os.path.join(os.environ["MPI_PREFIX"], "lib", expected))
