# SPDX-License-Identifier: BSD-3-Clause
# mpiexec --python and python3 -m weft_mpi.run: an exception, or sys.exit() with an error, in one rank ends the job.
import os
import subprocess
import sys

import pytest
from weft_mpi import run

PREFIX = os.environ["MPI_PREFIX"]
PACKAGES = os.path.join(PREFIX, "share", "weft", "python")  # which module files put on PYTHONPATH

# Each rank runs `code`, then calls a barrier and, at exit as mpi4py does, MPI_Finalize.
PROGRAM = """
import atexit, ctypes, sys
from neighbour import NAME
mpi = ctypes.CDLL("libmpi_abi.so.1")
mpi.MPI_Init(None, None)
atexit.register(mpi.MPI_Finalize)
rank = ctypes.c_int()
mpi.MPI_Comm_rank(ctypes.c_void_p(257), ctypes.byref(rank))
if rank.value == 1:
    {code}
mpi.MPI_Barrier(ctypes.c_void_p(257))
print("done", sys.argv[1:], NAME, __name__, flush=True)
"""


@pytest.fixture
def job(tmp_path):
    """Returns job(code, options): (status, output, errors) of two ranks of PROGRAM."""

    def start(code, *options, words=None):
        (tmp_path / "program.py").write_text(PROGRAM.format(code=code), encoding="utf-8")
        (tmp_path / "neighbour.py").write_text("NAME = 'neighbour'\n", encoding="utf-8")
        command = [PREFIX + "/bin/mpiexec", "-n", "2", "--timeout", "30", *options]
        environment = {**os.environ, "PYTHONPATH": PACKAGES}
        done = subprocess.run(command + (words or [str(tmp_path / "program.py"), "a", "b"]), capture_output=True, text=True,
                              check=False, env=environment, cwd=tmp_path)  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return start


WAYS = [["--python"], [sys.executable, "-m", "weft_mpi.run"]]


@pytest.mark.parametrize("way", WAYS)
def test_an_exception_ends_the_job(job, way):
    status, output, errors = job("raise ValueError('forty-two')", *way)
    assert (status, output) == (1, "")
    assert "ValueError: forty-two" in errors and "program.py" in errors
    assert "rank 1" in errors and "MPI_Abort was called with error code 1" in errors


@pytest.mark.parametrize("way", WAYS)
def test_a_good_program(job, way):
    assert job("pass", *way) == (0, "done ['a', 'b'] neighbour __main__\n" * 2, "")


def test_exit_codes(job):
    assert job("sys.exit(7)", "--python")[0] == 7
    status, _, errors = job("sys.exit('a reason')", "--python")
    assert status == 1 and "a reason" in errors
    assert job("pass", words=[sys.executable, "-m", "weft_mpi.run", "-c", "import sys; sys.exit(5)"])[0] == 5


def test_modules_and_usage(job, monkeypatch):
    status, output, _ = job("pass", "--python", words=["-m", "program", "a"])
    assert (status, output) == (0, "done ['a'] neighbour __main__\n" * 2)
    for words in ([], ["-m"], ["--help"]):
        monkeypatch.setattr(sys, "argv", ["run.py", *words])
        with pytest.raises(SystemExit, match="usage"):
            run.main()


def test_without_mpi(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(run, "abort", lambda code: print("abort", code))
    for text, code, expected in [("1 / 0", 1, "abort 1"), ("raise SystemExit('no')", "no", "abort 1"),
                                 ("raise SystemExit", None, "")]:  # fmt: skip
        program = tmp_path / "alone.py"
        program.write_text(text, encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["run.py", str(program)])
        monkeypatch.setattr(sys, "path", ["", *sys.path])
        with pytest.raises(SystemExit) as end:
            run.main()
        assert end.value.code == code and expected in capsys.readouterr().out
