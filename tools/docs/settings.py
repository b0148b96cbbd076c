#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Writes docs/settings.md from the settings of the library of a prefix (`weft info --config --json`).
# usage: settings.py PREFIX [--check]; with --check it writes nothing and fails if the page is stale.
import argparse
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join("docs", "settings.md")

HEAD = """\
# Settings

<!-- Written by tools/docs/settings.py from the library; do not edit. -->

Every setting of the library is an environment variable. `weft info --config` prints this list with the current values
and their origins. An unknown name or a value out of range makes `MPI_Init` fail with a message that names the setting.
Sizes accept the suffixes K, M and G.

A setting whose range is *a path* names a library or another file. Only the environment sets it, not a profile. A
program with elevated privileges (set-user-ID, set-group-ID, file capabilities) reads no setting or profile, loads no
additional library, and does not join a launcher's job.

Settings that select the path of a collective must be equal: `WEFT_COLL_SHARED*`, `WEFT_COLL_GPU*`, `WEFT_COLL_NCCL*` and
`WEFT_STREAM_COLLECTIVE_REGION_BYTES` on the ranks of a host, the other `WEFT_COLL_*` on all ranks. `MPI_Init` compares them and ends with the
name of the differing setting. Each rank may have its own `WEFT_COLL_GPU_KERNEL_TIMEOUT_NS`, `WEFT_COLL_GPU_REGION_TOTAL_BYTES`, `WEFT_COLL_GPU_REDUCE_MIN_BYTES` and
`WEFT_COLL_NCCL_LIBRARY`.

"""

GROUPS = {
    "COLL": "Collectives",
    "CUDA": "CUDA",
    "GPU": "GPU memory",
    "LAUNCH": "Start-up",
    "LOG": "Messages",
    "NET": "Networks",
    "OFI": "libfabric",
    "P2P": "Point to point",
    "PROFILE": "Profiles",
    "SHM": "Shared memory",
    "STREAM": "Enqueued operations",
    "TRACE": "Profilers",
    "UCX": "UCX",
}


def settings(prefix):
    """Returns the settings of the library in an environment without WEFT_ variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    command = [os.path.join(prefix, "bin", "weft"), "info", "--config", "--json"]
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def title(variable):
    """Returns the heading of a variable's section."""
    return GROUPS.get(variable.split("_")[1], "Others")


def cell(text):
    """Escapes text for a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def page(found):
    """Returns the page."""
    groups = {}
    for setting in sorted(found, key=lambda setting: setting["variable"]):
        groups.setdefault(title(setting["variable"]), []).append(setting)
    text = HEAD
    for name in sorted(groups, key=lambda name: (name == "Others", name)):
        text += "## %s\n\n| variable | default | range | |\n|---|---|---|---|\n" % name
        for setting in groups[name]:
            row = "| `%(variable)s` | " % setting
            text += row + " | ".join(cell(setting[key]) for key in ("default", "range", "help")) + " |\n"
        text += "\n"
    return text.rstrip("\n") + "\n"


def main():
    parser = argparse.ArgumentParser(description="Writes docs/settings.md from the library of a prefix.")
    parser.add_argument("prefix")
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--root", default=ROOT, help="root of the tree with the page")
    arguments = parser.parse_args()
    path = os.path.join(arguments.root, PAGE)
    text = page(settings(arguments.prefix))
    if not arguments.check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(path, encoding="utf-8") as file:
        committed = file.read()
    if committed == text:
        return 0
    for line in sorted(set(committed.splitlines()) ^ set(text.splitlines())):
        print(("+ " if line in text.splitlines() else "- ") + line)
    print("%s is stale: python3 tools/docs/settings.py build/prefix" % PAGE)
    return 1


if __name__ == "__main__":
    sys.exit(main())
