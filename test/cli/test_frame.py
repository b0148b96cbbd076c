# SPDX-License-Identifier: BSD-3-Clause
# The common code: entry point, output on terminals and other streams, files, child processes.
import io
import os
import re
import signal
import subprocess
import sys

import pytest
from weft_mpi import children, output, prefix

PREFIX = os.environ["MPI_PREFIX"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_page_has_each_command(weft):
    """docs/tools.md has a section for each command, and its first sentence names the commands without --json."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "tools.md")
    with open(page, encoding="utf-8") as file:
        text = file.read()
    commands = re.findall(r"^    ([a-z-]+)", weft("--help").out, re.M)
    assert len(commands) > 10
    without = {name for name in commands if "--json" not in weft(name, "--help").out}
    first = text.partition("has `--json` (but ")[2].partition(")")[0]
    assert set(re.findall(r"`([a-z-]+)`", first)) == without
    sections = re.findall(r"^## (.*)", text, re.M)
    for name in commands:
        assert any(re.search(rf"weft {name}\b", section) for section in sections), name


def test_version_and_refusals(weft):
    assert weft("--version").out.startswith("weft ")
    assert weft().status == 2
    for words in (("nonsense",), ("info", "--nonsense"), ("doctor", "--only", "nonsense")):
        refused = weft(*words)
        assert refused.status == 2
        assert len(refused.err.splitlines()) == 1 and "--help" in refused.err
    assert "doctor" in weft("--help").out


def test_suggestions(weft):
    for words, wanted in (
        (("docter",), "weft: docter is unknown: did you mean doctor?"),
        (("info", "--jsn"), "weft info: --jsn: unknown option or argument: did you mean --json"),
        (("tune", "--sec", "5", "--dry"), "at least 10"),
        (("hang", "--xyz"), "weft hang: --xyz: unknown option or argument; see"),
    ):
        refused = weft(*words)
        assert refused.status == 2 and wanted in refused.err and len(refused.err.splitlines()) == 1


@pytest.mark.parametrize("words", ["info", "info --config --json", "bench --list"])
def test_output_that_cannot_be_written(words):
    command = f"'{PREFIX}/bin/weft' {words}"
    for redirect, reason in ((">/dev/full", "cannot be written (No space left on device)"), (">&-", "is closed")):
        done = subprocess.run(command + redirect, shell=True, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1 and reason in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_table_fits_a_terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "40")
    output.table(["check", "evidence", "remedy"], [["a", "some long words that need two lines", "see 1"]])
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3 and all(len(line) <= 40 for line in lines)


def test_the_installed_command():
    for words in ([os.path.join(PREFIX, "bin", "weft")], [sys.executable, "-m", "weft_mpi"]):
        environment = dict(os.environ, PYTHONPATH=os.path.join(PREFIX, "share", "weft", "python"))
        done = subprocess.run([*words, "--version"], capture_output=True, text=True, check=True, env=environment)
        assert done.stdout.split()[1][0].isdigit()
    piped = f"'{PREFIX}/bin/weft' info --config | head -n 1"
    assert subprocess.run(piped, shell=True, capture_output=True, text=True, check=True).stderr == ""


def test_plain_table(capsys):
    output.table(["name", "us"], [["a", "1.5"], ["longer", 22]], numbers=("us",))
    assert capsys.readouterr().out == "name     us\na       1.5\nlonger   22\n"


def test_rich_table(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    pytest.importorskip("rich")
    output.table(["name", "us"], [["a", "1.5"]], numbers=("us",), style=lambda row: "green")
    assert "\x1b[" in stream.getvalue() and "1.5" in stream.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    assert output.rich_for(stream) is None


def test_without_rich(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert output.rich_for(Terminal()) is None
    monkeypatch.setattr(sys, "stderr", Terminal())
    with output.progress(2, "work") as step:
        step("first")
    assert sys.stderr.getvalue() == "work: first (1 of 2)\n"
    monkeypatch.setattr(sys, "stdout", Terminal())
    output.table(["name", "us"], [["a", "1.5"]], numbers=("us",))
    assert sys.stdout.getvalue() == "name   us\na     1.5\n"


@pytest.mark.parametrize("words", ["info --config", "bench --list", "explain send --kind host", "doctor --only host"])
def test_commands_on_a_terminal_without_packages(words, on_terminal):
    """A prefix without the packages that `make` downloads prints plain tables."""
    hide = "import runpy, sys; sys.modules.update(rich=None, shtab=None); "
    start = hide + "runpy.run_module('weft_mpi', run_name='__main__')"
    package = os.path.join(PREFIX, "share", "weft", "python")
    done = on_terminal(sys.executable, "-c", start, *words.split(), PYTHONPATH=package)
    assert done.status in (0, 1) and b"Traceback" not in done.err, done.err  # 1: doctor found faults
    assert len(done.out.splitlines()) > 2 and b"\x1b" not in done.out, done.out


def test_progress_on_a_terminal(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with output.progress(2, "work") as step:
        step("first")
    assert "first" in sys.stderr.getvalue()


def test_files_are_written_atomically(tmp_path):
    path = tmp_path / "a.json"
    output.write_file(str(path), output.json_text({"a": 1}))
    assert output.read_json(str(path), "a result") == {"a": 1}
    assert os.listdir(tmp_path) == ["a.json"]
    with pytest.raises(output.Refusal, match="cannot be written"):
        output.write_file(str(tmp_path / "no" / "a"), "x")
    with pytest.raises(output.Refusal, match="cannot be written"):
        output.check_writable(str(tmp_path))
    (tmp_path / "folder").mkdir()
    with pytest.raises(output.Refusal):
        output.write_file(str(tmp_path / "folder"), b"x")
    assert sorted(os.listdir(tmp_path)) == ["a.json", "folder"]
    for text, reason in (("{", "no JSON"), ("[]", "JSON object")):
        path.write_text(text)
        with pytest.raises(output.Refusal, match=reason):
            output.read_json(str(path), "a result")
    with pytest.raises(output.Refusal, match="cannot be read"):
        output.read_json(str(tmp_path / "none"), "a result")


def test_children():
    assert children.run(["sh", "-c", "echo a; exit 3"], 10).status == 3
    assert children.run(["sh", "-c", "echo Error: no >&2; exit 3"], 10).reason() == "exit status 3: Error: no"
    assert children.run(["sh", "-c", "kill -SEGV $$"], 10).reason() == "it crashed (SIGSEGV)"
    assert children.run(["sh", "-c", "exit 134"], 10).signal == "SIGABRT"
    assert children.run(["/not/there"], 10).status == 127
    hung = children.run(["sh", "-c", "sleep 77 & sleep 78"], 0.3)
    assert hung.timed_out and hung.reason() == "it hung and was killed"
    assert children.signal_of(15, "BAD TERMINATION: Segmentation fault (signal 11)") == "SIGSEGV"
    assert children.signal_of(-signal.SIGKILL, "") == "SIGKILL"


def test_clean_environment(monkeypatch):
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("KEPT", "x")
    environment = children.clean_environment(ADDED="y", KEPT=None)
    assert "PMI_RANK" not in environment and "KEPT" not in environment and environment["ADDED"] == "y"


def test_prefix(monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setattr(prefix, "LIBRARY", "libnot-there.so")
    with pytest.raises(prefix.NotInstalled, match="run `make`"):
        prefix.find()
    monkeypatch.setattr(prefix, "find", lambda: str(tmp_path))
    for call in (lambda: prefix.program("x"), prefix.sources):
        with pytest.raises(prefix.NotInstalled, match="missing"):
            call()


def test_run_info_of_a_folder(weft, tmp_path):
    refused = weft("run-info", str(tmp_path))
    assert refused.status == 2 and refused.out == ""
    assert refused.err == f"weft run-info: '{tmp_path}' is a folder: name a program in it\n"
