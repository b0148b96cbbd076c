# SPDX-License-Identifier: BSD-3-Clause
# Which benchmarks there are, from programs.csv of the installed sources; its first line tells the columns.
import functools
import os
from collections import namedtuple

from weft import prefix

# `source`: the program that measures it, `coll` for all collectives; `ranks`: "2", "even" or "any".
Benchmark = namedtuple("Benchmark", "name source ranks text")
FORMS = {"i": ("i%s", "nonblocking: alone, then with computation, and how much of it was hidden"),
         "p": ("%s_persistent", "by persistent requests")}  # fmt: skip


@functools.cache
def read(path):
    """The benchmarks of one file, in its order: {name: Benchmark}."""
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
    """All benchmarks: {name: Benchmark}. NotInstalled: this prefix has none."""
    return read(os.path.join(prefix.sources(), "programs.csv"))


def command(name):
    """The words that start one, without options: its program, and its name where several share that."""
    entry = programs()[name]
    path = prefix.program("bench/" + entry.source)
    return [path, name] if entry.source != name else [path]
