# SPDX-License-Identifier: BSD-3-Clause
"""The function table of the generator and a header parser, for the scripts of this folder."""

import os
import re
import sys

SOURCE = os.environ["WEFT_SOURCE"]
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(SOURCE, "tools/bindgen"))

import model  # noqa: E402  pylint: disable=wrong-import-position,import-error


def names():
    """The 664 names, MPI_X."""
    api = model.Api(os.environ["WEFT_APIS_JSON"], os.path.join(SOURCE, "spec"))
    return [function.c_name(large) for function, large in api.entry_points()]


def without_comments(path):
    with open(path, encoding="utf-8") as stream:
        return re.sub(r"/\*.*?\*/", "", stream.read(), flags=re.S)


def constants(text):
    """Name -> value of every integer in a header: macros (without casts) and enumerators."""
    found = dict(re.findall(r"^#define[ \t]+(MPI_\w+)[ \t]+(.+?)[ \t]*$", text, re.M))
    found.update(re.findall(r"^\s+(MPI_\w+)\s*=\s*(-?\w+),?\s*$", text, re.M))
    values = {}
    for name, value in found.items():
        number = re.search(r"(-?(?:0x[0-9a-fA-F]+|\d+))\)*$", value)
        if number:
            values[name] = int(number.group(1), 0)
        elif value in found:
            values[name] = int(re.search(r"(0x\w+)", found[value]).group(1), 0)
    return values


def _parameter(text):
    """Type of one parameter; arrays as pointers."""
    arrays = text.count("[]")
    text = text.replace("[]", "")
    match = re.match(r"(.*?[* ])(\w+)(\[\d\])?$", text)
    if not match:
        return text
    return match.group(1).strip() + "*" * arrays + (match.group(3) or "")


def prototypes(text):
    """Name -> (result type, parameter types)."""
    found = {}
    for result, name, parameters in re.findall(
        r"^([\w ]+\*?) ?\b(P?MPI_\w+)\(([^;{}]*?)\)(?: WEFT_MISSING)?;", text, re.M
    ):
        if "typedef" in result:
            continue
        tight = re.sub(r"\s*([*,\[\]])\s*", r"\1", re.sub(r"\s+", " ", parameters)).strip()
        found[name] = (result.strip(), [_parameter(p) for p in tight.split(",")])
    return found
