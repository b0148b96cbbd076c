#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Writes the tables of docs/mpi_t.md from the library of a prefix, by calls of its tool interface.
# usage: tool_interface.py PREFIX [--check]; with --check it writes nothing and fails if the page is stale.
import argparse
import ctypes
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join("docs", "mpi_t.md")
TEXT = 2048  # bytes of a string
CLASSES = {2: "level", 5: "high-water mark", 7: "counter", 8: "aggregate", 9: "timer"}
TOTALS = (7, 8, 9)
OBJECTS = {1: "", 2: "communicator", 5: "file", 9: "window"}


def ok(code):
    """Fails unless `code` is MPI_SUCCESS."""
    if code != 0:
        sys.exit("the tool interface returns the error %d" % code)


class Text:
    """A string output and its length."""

    def __init__(self):
        self.buffer, self.length = ctypes.create_string_buffer(TEXT), ctypes.c_int(TEXT)
        self.arguments = (self.buffer, ctypes.byref(self.length))

    def __str__(self):
        return self.buffer.value.decode()


def number(function):
    """Returns the number of a kind of objects."""
    value = ctypes.c_int()
    ok(function(ctypes.byref(value)))
    return value.value


def variables(library):
    """Returns the rows of the performance variables."""
    rows = []
    for index in range(number(library.MPI_T_pvar_get_num)):
        name, text = Text(), Text()
        kind, bind, readonly = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        ok(library.MPI_T_pvar_get_info(index, *name.arguments, None, ctypes.byref(kind), None, None, *text.arguments,
                                       ctypes.byref(bind), ctypes.byref(readonly), None, None))  # fmt: skip
        words = CLASSES[kind.value] + (", readonly" if readonly.value and kind.value in TOTALS else "")
        rows.append((str(name), words, OBJECTS[bind.value], str(text)))
    return rows


def events(library):
    """Returns the rows of the events."""
    rows = []
    for index in range(number(library.MPI_T_event_get_num)):
        name, text = Text(), Text()
        words, bind, elements = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
        ok(library.MPI_T_event_get_info(index, *name.arguments, None, None, None, ctypes.byref(elements),
                                        ctypes.byref(words), None, *text.arguments, ctypes.byref(bind)))  # fmt: skip
        fields = []
        for element in range(elements.value):
            field = Text()
            ok(library.MPI_T_enum_get_item(words, element, ctypes.byref(ctypes.c_int()), *field.arguments))
            fields.append(f"`{field}`")
        rows.append((str(name), OBJECTS[bind.value], ", ".join(fields), str(text)))
    return rows


def table(head, rows):
    """Returns a Markdown table; the first column is code."""
    lines = ["| %s |" % " | ".join(head), "|%s" % ("---|" * len(head))]
    lines += ["| `%s` | %s |" % (row[0], " | ".join(cell.replace("|", "\\|") for cell in row[1:])) for row in rows]
    return "\n".join(lines) + "\n"


def replaced(page, mark, text):
    """Replaces the part of the page between `<!-- mark -->` and `<!-- end -->`."""
    pattern = re.compile(rf"(<!-- {mark} -->\n\n).*?(\n<!-- end -->)", re.DOTALL)
    if not pattern.search(page):
        sys.exit(f"{PAGE} has no part <!-- {mark} -->")
    return pattern.sub(lambda match: match.group(1) + text + match.group(2), page)


def main():
    parser = argparse.ArgumentParser(description="Writes the tables of docs/mpi_t.md from the library of a prefix.")
    parser.add_argument("prefix")
    parser.add_argument("--check", action="store_true", help="only compare")
    arguments = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("WEFT_")]:
        del os.environ[name]
    library = ctypes.CDLL(os.path.join(arguments.prefix, "lib", "libmpi_abi.so.1"))
    ok(library.MPI_T_init_thread(0, ctypes.byref(ctypes.c_int())))
    path = os.path.join(ROOT, PAGE)
    with open(path, encoding="utf-8") as file:
        committed = file.read()
    text = replaced(committed, "variables", table(("variable", "class", "object", "value"), variables(library)))
    text = replaced(text, "events", table(("event", "object", "elements", "raised when"), events(library)))
    if not arguments.check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    if committed == text:
        return 0
    print(f"{PAGE} is stale: python3 tools/docs/tool_interface.py build/prefix")
    return 1


if __name__ == "__main__":
    sys.exit(main())
