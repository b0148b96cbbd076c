#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs the commands of a document that are marked as runnable like a reader: in order, in one shell, with the prefix
# first on PATH, in a folder that resembles the root of the source tree.
# usage: commands.py --list | PAGE [--driver EMULATED_DRIVER] [--mpi4py FOLDER] [--numpy FOLDER]
# Exit status 77 if no command can run on this machine.
import argparse
import ctypes
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tools", "docs"))
import blocks as marks  # noqa: E402

SKIPPED = 77
JOB_VARIABLES = re.compile(r"^(WEFT_|EMUCUDA_|OMPI_|PMI|MPI_|SLURM_)")


def capabilities(arguments):
    """Returns {capability: environment variables} of this machine."""
    found = {}
    if arguments.driver and os.path.exists(arguments.driver):
        found["emulated GPUs"] = {"WEFT_CUDA_DRIVER": arguments.driver}
    if arguments.mpi4py and os.path.isdir(os.path.join(arguments.mpi4py, "mpi4py")):
        found["mpi4py"] = {}
    if arguments.numpy and os.path.isdir(os.path.join(arguments.numpy, "numpy")) or importlib.util.find_spec("numpy"):
        found["numpy"] = {}
    if importlib.util.find_spec("jax"):
        found["JAX"] = {}
    try:
        ctypes.CDLL("libucp.so.0")
        found["UCX"] = {}
    except OSError:
        pass
    folders = [folder for folder in (arguments.mpi4py, arguments.numpy) if folder and os.path.isdir(folder)]
    for name in {"mpi4py", "numpy"} & set(found):
        found[name] = {"PYTHONPATH": os.pathsep.join(folders)}
    return found


def environment(folder, prefix):
    """Returns the reader's environment: prefix first on PATH, this Python as python3, no variables of other jobs."""
    tools = os.path.join(folder, ".bin")
    os.mkdir(tools)
    python = os.path.join(
        tools, "python3"
    )  # not a link: Python finds a virtual environment by the folder of its program
    with open(python, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    os.chmod(python, 0o755)
    kept = {name: value for name, value in os.environ.items() if not JOB_VARIABLES.match(name)}
    path = os.pathsep.join([tools, os.path.join(prefix, "bin"), os.environ["PATH"]])
    return dict(kept, PATH=path, HOME=folder, PYTHONDONTWRITEBYTECODE="1")


def make_tree(folder, prefix):
    """Fills a folder with links, so that it resembles the root of the source tree after `make`."""
    for name in os.listdir(ROOT):
        if name not in ("build", "dist", "shared") and not name.startswith("."):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
    os.mkdir(os.path.join(folder, "build"))
    os.symlink(prefix, os.path.join(folder, "build", "prefix"))


def script(chosen, available, folder):
    """Returns the shell script of the chosen blocks. A block writes its output to .out/<line> in the folder."""
    lines = ["set -e -o pipefail"]
    for block in chosen:
        output = os.path.join(folder, ".out", "%d" % block.line)
        if block.mark == "file":
            lines.append(f"cat >'{block.value}' <<'WEFT_END_OF_FILE'\n{block.text}WEFT_END_OF_FILE")
            continue
        for capability in sorted(block.requirements):
            lines += ["export %s='%s'" % item for item in available[capability].items()]
        lines.append("{\n%s} >'%s' 2>&1" % (block.text, output))
        lines += ["unset %s" % name for capability in sorted(block.requirements) for name in available[capability]]
    return "\n".join(lines) + "\n"


def matches(expected, output):
    """Returns the first expected line that is missing in the output, in order; None if all are found."""
    rest = iter(output.splitlines())
    for line in expected.splitlines():
        if line.strip() in ("", "..."):
            continue
        pattern = re.compile(
            r"\s*" + r"\s+".join(map(re.escape, line.split())).replace(re.escape("..."), ".*") + r"\s*"
        )
        if not any(pattern.fullmatch(real) for real in rest):
            return line
    return None


def run_page(found, prefix, available):
    """Runs the runnable blocks of a page; returns (number of blocks run, reasons of skips, failures)."""
    skips, chosen = [], []
    for block in found:
        missing = block.requirements - set(available)
        if missing:
            skips.append("%s: skipped: needs %s" % (block.where, ", ".join(sorted(missing))))
        elif block.mark in ("run", "file"):
            chosen.append(block)
    if not any(block.mark == "run" for block in chosen):
        return 0, skips, []
    with tempfile.TemporaryDirectory() as folder:
        make_tree(folder, prefix)
        os.mkdir(os.path.join(folder, ".out"))
        text = script(chosen, available, folder)
        done = subprocess.run(
            ["bash", "-c", text], cwd=folder, env=environment(folder, prefix), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return compare_output(found, chosen, done, os.path.join(folder, ".out"), skips)


def compare_output(found, chosen, done, folder, skips):
    """Compares the output with the page."""
    failures, outputs = [], {}
    for block in chosen:
        path = os.path.join(folder, "%d" % block.line)
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                outputs[block.line] = file.read()
    if done.returncode != 0:
        last = max(outputs, default=0)
        printed = outputs.get(last, "") + done.stderr
        failures.append("%s:%d: exit status %d:\n%s" % (found[0].page, last, done.returncode, printed))
    before = None
    for block in found:
        before = block if block.mark == "run" else before
        if block.mark == "output" and before.line in outputs:
            line = matches(block.text, outputs[before.line])
            if line is not None:
                failures.append(f"{block.where}: not printed: {line}\nactual output:\n{outputs[before.line]}")
    return len([block for block in chosen if block.mark == "run"]), skips, failures


def main():
    parser = argparse.ArgumentParser(description="Runs the runnable commands of a document.")
    parser.add_argument("page", nargs="?", help="relative to the root of the tree")
    parser.add_argument("--list", action="store_true", help="print the pages with runnable commands")
    parser.add_argument("--driver", help="the emulated CUDA driver")
    parser.add_argument("--mpi4py", help="folder with an mpi4py built on the prefix")
    parser.add_argument("--numpy", help="folder with NumPy, if Python has none")
    arguments = parser.parse_args()
    if arguments.list:
        for page in marks.pages(ROOT):
            if any(block.mark == "run" for block in marks.read(ROOT, page)):
                print(page)
        return 0
    found = marks.read(ROOT, arguments.page)
    prefix = os.environ["MPI_PREFIX"]
    count, skips, failures = run_page(found, prefix, capabilities(arguments))
    print("\n".join(skips + failures))
    print("%s: %d blocks run, %d skipped" % (arguments.page, count, len(skips)))
    if failures:
        return 1
    return 0 if count else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
