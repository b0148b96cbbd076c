# SPDX-License-Identifier: BSD-3-Clause
# List of benchmarks, from programs.csv of the installed sources. The first line of the file names the columns.
from __future__ import annotations

import functools
import os
from typing import NamedTuple

from weft_mpi import prefix


class Benchmark(NamedTuple):
    name: str
    source: str  # program that implements the benchmark: `coll` for all collectives
    ranks: str  # "2", "even" or "any"
    text: str


FORMS = {"i": ("i%s", "nonblocking: pure latency, latency with computation, and overlap"),
         "p": ("%s_persistent", "with persistent requests")}  # fmt: skip


@functools.cache
def read(path: str) -> dict[str, Benchmark]:
    """Returns {name: Benchmark} of a file, in file order."""
    found = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                continue
            name, source, ranks, forms, text = line.strip().split(";")
            found[name] = Benchmark(name, source, ranks, text)
            for form in forms:
                pattern, words = FORMS[form]
                found[pattern % name] = Benchmark(pattern % name, source, ranks, words)
    return found


def programs() -> dict[str, Benchmark]:
    """Returns {name: Benchmark}. Raises NotInstalled if the prefix has no benchmarks."""
    return read(os.path.join(prefix.sources(), "programs.csv"))


def command(name: str) -> list[str]:
    """Returns the command without options: the program, and the benchmark's name if several share the program."""
    entry = programs()[name]
    path = prefix.program(f"bench/{entry.source}")
    return [path, name] if entry.source != name else [path]
