#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Format: runs clang-format on C, C++ and CUDA files and ruff on Python files known to git; --check changes no file.
import argparse
import shutil
import subprocess
import sys

CXX = (".cpp", ".hpp", ".c", ".h", ".cu", ".cuh")


def tracked():
    """Returns the files that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def tool(name):
    """Returns the path of a tool, or prints a message and returns None."""
    found = shutil.which(name)
    if not found:
        print(f"format: no {name} (python3 -m pip install {name})")
    return found


def main():
    parser = argparse.ArgumentParser(description="Formats the tree.")
    parser.add_argument("--check", action="store_true", help="only report unformatted files")
    check = parser.parse_args().check
    files = tracked()
    status = 0
    if tool("clang-format"):
        options = ["--dry-run", "--Werror"] if check else ["-i"]
        sources = [name for name in files if name.endswith(CXX)]
        status |= subprocess.run(["clang-format", *options, *sources], check=False).returncode
    if tool("ruff"):
        scripts = [name for name in files if name.endswith(".py")]
        options = ["--check"] if check else []
        status |= subprocess.run(["ruff", "check", *([] if check else ["--fix"]), *scripts], check=False).returncode
        status |= subprocess.run(["ruff", "format", *options, *scripts], check=False).returncode
    return status


if __name__ == "__main__":
    sys.exit(main())
