# SPDX-License-Identifier: BSD-3-Clause
# The completion scripts, executed in bash, and the manual page.
import os
import subprocess
import sys

import pytest


def test_bash(weft, tmp_path):
    pytest.importorskip("shtab")
    script = tmp_path / "weft.bash"
    script.write_text(weft("completion", "bash").out)
    asked = f"source {script}; COMP_WORDS=(weft do); COMP_CWORD=1; _shtab_weft; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert "doctor" in done.stdout, done.stderr
    asked = f"source {script}; COMP_WORDS=(weft bench latency --t); COMP_CWORD=3; _shtab_weft; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["--tail-lat", "--type"], done.stderr
    assert "_weft" in weft("completion", "zsh").out


def test_without_shtab(weft, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    refused = weft("completion", "bash")
    assert refused.status == 2 and "pip install shtab" in refused.err
    assert weft("completion", "fish").status == 2


def test_manual_page(tmp_path):
    pytest.importorskip("argparse_manpage")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = str(tmp_path / "weft.1")
    about = "the Weft MPI library's command line"
    words = ["--module", "weft_mpi.__main__", "--function", "make_parser", "--prog", "weft", "--project-name", "Weft"]
    words += ["--manual-title", "Weft", "--description", about, "--output", path]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([os.path.join(root, "cli"), *sys.path]), COLUMNS="100")
    start = "import sys; from argparse_manpage.cli import main; sys.exit(main())"
    subprocess.run([sys.executable, "-c", start, *words], env=environment, check=True)
    with (
        open(path, encoding="utf-8") as made,
        open(os.path.join(root, "cli", "man", "weft.1"), encoding="utf-8") as kept,
    ):
        assert made.readlines()[1:] == kept.readlines()[1:], "cli/man/weft.1 is stale: see cli/man/README.md"
