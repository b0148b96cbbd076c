#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Writes docs/settings.md from the settings of the library of a prefix (`weft info --config --all --json`).
# usage: settings.py PREFIX [--check]; with --check it writes nothing and fails if the page is stale.
import argparse
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join("docs", "settings.md")
MAX_USER_SETTINGS = 60

HEAD = """\
# Settings

<!-- Written by tools/docs/settings.py from the library; do not edit. -->

Each setting of the library is an environment variable. `weft info --config` prints the settings of this page with
their current values and origins. An unknown name or a value out of range makes `MPI_Init` fail with a message that
names the setting. Sizes accept the suffixes k, m and g (powers of 1024).

The environment beats the [profile](tools.md#weft-tune) of `weft tune`, the profile the
[files of the site](cluster.md#settings-for-all-users), and these the defaults.
A setting whose values are *a path* names a library or another file. The environment and files of the site set it, not a
profile. A program with elevated privileges (set-user-ID, set-group-ID, file capabilities) reads no setting or profile, loads no
additional library, and does not join a launcher's job.

Settings that select the path of a collective must be equal: `WEFT_COLL_SHARED*`, `WEFT_COLL_GPU*` and
`WEFT_STREAM_COLLECTIVE_REGION_BYTES` on the ranks of a host, the other `WEFT_COLL_*` on all ranks. `MPI_Init` compares
them and ends with the name of the differing setting. Each rank may have its own `WEFT_COLL_GPU_KERNEL_TIMEOUT_NS` and
`WEFT_COLL_GPU_REDUCE_MIN_BYTES`.

The page has two parts: [for users](#for-users), each setting with the reason to change it, and [for experts](#for-experts).

## For users

"""

EXPERTS = """\
## For experts

These internal settings are for the tests, for measurements and for the profile that `weft tune` writes. They can change
with every version.

| variable | default | values | what it sets |
|---|---|---|---|
"""

COLUMNS = "| variable | default | values | what it sets | change it when |\n|---|---|---|---|---|\n"

# (heading, pattern of the variables without WEFT_). The first pattern that matches decides.
GROUPS = (
    ("Logging, checks and profiles", "CHECK|LOG|PROFILE|STATS|TRACE_NVTX|ERRORS_.*|MEMORY_ALLOC_KINDS"),
    ("Start-up and waiting", "LAUNCH_.*|SHM_CONNECT_TIMEOUT_S|PROGRESS_.*"),
    ("Messages in host memory", "P2P_.*|SHM_.*"),
    ("GPUs", "CUDA.*|GPU_KERNELS.*|GPU_RESIDENT_KERNEL|GPU_GDRCOPY.*"),
    ("Messages in GPU memory", "GPU_(PUT|PACK|PERSISTENT)"),
    ("Memory for GPU messages", "GPU_.*_BYTES|GPU_IPC_.*"),
    ("Networks", "NET.*|GPUDIRECT_RDMA"),
    ("Collectives", "COLL_(SHARED|HIERARCHY|GPU|GPU_.*)"),
    ("Algorithms of collectives", "COLL_.*"),
)


def settings(prefix):
    """Returns the settings of the library in an environment without WEFT_ variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    command = [os.path.join(prefix, "bin", "weft"), "info", "--config", "--all", "--json"]
    return json.loads(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def title(variable):
    """Returns the heading of a user setting's section."""
    for heading, pattern in GROUPS:
        if re.fullmatch(f"WEFT_({pattern})", variable):
            return heading
    sys.exit(f"{variable}: no group of tools/docs/settings.py matches this user setting")


def cell(text):
    """Escapes text for a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def size(text, variable):
    """Returns a number as written in a setting: 64k for 65536; times and epochs as they are."""
    number, suffix = int(text), ""
    for unit in "kmg":
        if number == 0 or number % 1024 != 0 or variable.endswith(("_NS", "_MS", "_S", "_EPOCH")):
            break
        number, suffix = number // 1024, unit
    return "%d%s" % (number, suffix)


def values(setting):
    """Returns (default, values) in short form."""
    numbers = re.fullmatch(r"a number from (\d+) to (\d+) \(suffixes k, m, g\)", setting["range"])
    if numbers:
        default, low, high = (size(text, setting["variable"]) for text in (setting["default"], *numbers.groups()))
        return default, f"{low} to {high}"
    words = setting["range"].removeprefix("one of ")
    return setting["default"], ", ".join(words.split()) if words != setting["range"] else words


def page(found):
    """Returns the page."""
    found = sorted(found, key=lambda setting: setting["variable"])
    users = [setting for setting in found if setting["level"] == "user"]
    if len(users) > MAX_USER_SETTINGS:
        sys.exit("%d user settings, at most %d: make some internal" % (len(users), MAX_USER_SETTINGS))
    text = HEAD
    for heading, _ in GROUPS:
        text += f"### {heading}\n\n{COLUMNS}"
        for setting in users:
            if title(setting["variable"]) == heading:
                cells = (*values(setting), setting["help"], setting["change_when"])
                text += "| `%s` | %s |\n" % (setting["variable"], " | ".join(map(cell, cells)))
        text += "\n"
    text += EXPERTS
    for setting in found:
        if setting["level"] == "internal":
            text += "| `%s` | %s |\n" % (
                setting["variable"],
                " | ".join(map(cell, (*values(setting), setting["help"]))),
            )
    return text


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
    print(f"{PAGE} is stale: python3 tools/docs/settings.py build/prefix")
    return 1


if __name__ == "__main__":
    sys.exit(main())
