# SPDX-License-Identifier: BSD-3-Clause
"""Finds the MPI functions that src/api and src/tool implement: definitions in column 1 in namespace weft::api::impl."""

import itertools
import os
import re

DEFINITION = re.compile(r"^(?:weft::)?(?:Status|int|double|MPI_\w+)\s+([A-Z]\w*)\s*\(", re.M)
NAMESPACE = re.compile(r"^namespace (?:weft::api::)?impl \{", re.M)


def _is_definition(text, start):
    """True if the parameter list that opens before `start` is followed by a body."""
    depth = 1
    position = start
    while depth and position < len(text):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        position += 1
    return text[position : position + 200].lstrip().startswith("{")


def implemented(source_folder, known):
    """Returns {function name: file}. Duplicate definitions are an error."""
    found = {}
    layers = [os.path.join(source_folder, "src", layer) for layer in ("api", "tool")]
    for path, folders, names in itertools.chain.from_iterable(map(os.walk, layers)):
        folders.sort()
        for name in sorted(names):
            if not name.endswith(".cpp"):
                continue
            full = os.path.join(path, name)
            with open(full, encoding="utf-8") as stream:
                text = stream.read()
            start = NAMESPACE.search(text)
            if not start:
                continue
            for match in DEFINITION.finditer(text, start.end()):
                function = match.group(1)
                if not _is_definition(text, match.end()):
                    continue
                relative_path = os.path.relpath(full, source_folder)
                if function not in known:
                    raise SystemExit(
                        f"bindgen: {relative_path} defines {function}, which is not an MPI function: "
                        "helpers have snake_case names"
                    )
                if function in found:
                    raise SystemExit(f"bindgen: {function} is defined in {found[function]} and in {relative_path}")
                found[function] = relative_path
    return found
