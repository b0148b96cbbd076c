# SPDX-License-Identifier: BSD-3-Clause
# List of benchmarks, from programs.csv of the installed sources. The first line of the file names the columns.
import functools
import os
from collections import namedtuple

from weft_mpi import prefix

# `source`: program that implements the benchmark (`coll` for all collectives); `ranks`: "2", "even" or "any".
Benchmark = namedtuple("Benchmark", "name source ranks text")
FORMS = {"i": ("i%s", "nonblocking: pure latency, latency with computation, and overlap"),
         "p": ("%s_persistent", "with persistent requests")}  # fmt: skip


@functools.cache
def read(path):
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


def programs():
    """Returns {name: Benchmark}. Raises NotInstalled if the prefix has no benchmarks."""
    return read(os.path.join(prefix.sources(), "programs.csv"))


def command(name):
    """Returns the command without options: the program, and the benchmark's name if several share the program."""
    entry = programs()[name]
    path = prefix.program(f"bench/{entry.source}")
    return [path, name] if entry.source != name else [path]
