#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Class sizes: counts the functions that each class of src/ declares, overloads and private ones included; inherited,
# nested, defaulted and deleted ones not. A class of more than LIMIT functions fails, unless it is an exception.
import argparse
import os
import re
import sys

from declarations import SOURCES, declarations, without_noise

LIMIT = 60
# Larger classes, and the number of functions that each may have: its present one, so it may only shrink.
EXCEPTIONS = {"Ofi": 62, "Shm": 66, "Ucx": 81, "Window": 126}

HEAD = re.compile(r"\b(?:class|struct)\s+(?:alignas\([^)]*\)\s*)?(\w+(?:::\w+)*)\s*(?:final\s*)?(?::[^;{}()]*)?\{")


def declares_function(declaration):
    """Returns whether a declaration of a class body is that of a function, other than a defaulted or deleted one."""
    text = re.sub(r"\b(?:public|private|protected)\s*:", " ", declaration).strip()
    text = re.sub(r"\b(?:alignas|decltype|noexcept|requires|explicit)\s*\([^()]*\)", " ", text)
    while (shorter := re.sub(r"<[^<>;{}]*>", " ", text)) != text:  # template arguments
        text = shorter
    if re.match(r"(?:template\s*)?(?:friend|using|typedef|static_assert|enum|class|struct|union)\b", text):
        return False
    if re.search(r"=\s*(?:default|delete)\s*$", text):
        return False
    operator = re.search(r"\boperator\b", text)
    before = text.split("=")[0].split("{}")[0] if operator is None else text
    if re.search(r"\(\s*[*&]", before) and operator is None and not re.search(r"\w\s*\(\s*[^*&]", before):
        return False  # a pointer to a function
    return re.search(r"[\w\]]\s*\(" if operator is None else r"operator.*\(", before) is not None


def count(path):
    """Yields (class, number of functions) of each class defined in a file."""
    with open(path, encoding="utf-8") as file:
        text = without_noise(file.read())
    for head in HEAD.finditer(text):
        if not text[: head.start()].rstrip().endswith("enum"):
            yield head.group(1), sum(map(declares_function, declarations(text, head.end(), of_class=True)))


def check(root, limit):
    """Returns (complaints, sizes as (functions, class, path)) of the tree under root."""
    complaints, sizes = [], []
    for where, _, names in os.walk(os.path.join(root, "src")):
        for name in sorted(names):
            path = os.path.join(where, name)
            if name.endswith(SOURCES):
                sizes.extend((functions, found, path) for found, functions in count(path))
    largest = {}
    for functions, found, path in sorted(sizes):
        largest[found] = functions
        allowed = EXCEPTIONS.get(found, limit)
        if functions > allowed:
            complaints.append(f"{path}: {found} declares {functions} functions (limit {allowed}): split it into parts")
    for found, allowed in EXCEPTIONS.items():
        if found in largest and largest[found] < allowed:
            complaints.append(
                f"tools/check_class_sizes.py: {found} declares fewer than {allowed} functions: lower its entry"
            )
    return complaints, sorted(sizes, reverse=True)


def main():
    parser = argparse.ArgumentParser(description="Checks the number of functions of each class of src/.")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser.add_argument("--limit", type=int, default=LIMIT, help="functions")
    parser.add_argument("--list", type=int, default=0, metavar="N", help="print the N largest classes")
    arguments = parser.parse_args()
    complaints, sizes = check(arguments.root, arguments.limit)
    for functions, found, path in sizes[: arguments.list]:
        print(f"{functions:4} {found}  {os.path.relpath(path, arguments.root)}")
    print(
        "\n".join(complaints)
        or "classes: %d, of at most %d functions, %d exceptions" % (len(sizes), arguments.limit, len(EXCEPTIONS))
    )
    return 1 if complaints or not sizes else 0


if __name__ == "__main__":
    sys.exit(main())
