#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# State check: an Instance owns the state of the library. So the layers above device have no mutable variables at
# namespace level and no mutable static ones in functions and classes, but those below. Exits with 1 on others.
import argparse
import os
import re
import sys

from declarations import SOURCES, declarations, without_noise

# Folders of src/ that are not checked: base, device and launch serve the process, whose log, settings, driver and
# environment they hold; compat and fortran define variables of other ABIs; the others are programs of their own.
UNCHECKED = ("compat", "fortran", "base", "debugger", "device", "jax", "launch", "mpiexec", "python", "torch")
# Types of objects that register themselves with base/, and of the pools whose objects are handles.
SELF_REGISTERED = (
    r"(?:config::\w+|counters::Counter|log::SlowPath|events::Event|Received|PathCounters|OperationCounters)\b"
)
POOL = r"Slab<"
# Files with other such variables, and the number that each may have: its present one, so it may only shrink.
EXCEPTIONS = {
    "src/api/attribute.cpp": 1,
    "src/api/backtrace.cpp": 2,
    "src/api/check.cpp": 1,
    "src/api/collective_arguments.cpp": 1,
    "src/api/crash.cpp": 1,
    "src/api/debugger.cpp": 2,
    "src/api/entry_point.cpp": 2,
    "src/api/environment.cpp": 3,
    "src/api/errhandler.cpp": 1,
    "src/api/error_codes.cpp": 3,
    "src/api/errors.cpp": 4,
    "src/api/handles.cpp": 2,
    "src/api/instance.cpp": 9,
    "src/api/job.cpp": 1,
    "src/api/process.cpp": 1,
    "src/api/request_lists.cpp": 1,
    "src/tool/event.cpp": 1,
    "src/tool/tool.cpp": 2,
    "src/api/trampolines.hpp": 2,
    "src/core/attribute.cpp": 1,
    "src/core/group.cpp": 1,
    "src/core/request.hpp": 1,
    "src/core/waits.cpp": 1,
    "src/core/waits.hpp": 1,
    "src/datatype/f90.cpp": 1,
    "src/datatype/reduce.cpp": 1,
    "src/io/backend/cufile.cpp": 1,
    "src/io/backend/cufile_library.cpp": 1,
    "src/io/backend/pool.cpp": 2,
    "src/io/independent/resident.cpp": 1,
    "src/io/view/datarep.cpp": 1,
    "src/p2p/engine/connections.cpp": 2,
    "src/p2p/p2p.cpp": 1,
    "src/transport/ofi/library.cpp": 1,
    "src/transport/ucx/library.cpp": 2,
}

NO_VARIABLE = re.compile(
    r"^(?:using|typedef|template|static_assert|friend|extern|enum|class|struct|union|concept|namespace|__extension__)\b"
)
SPECIFIERS = re.compile(r"^(?:(?:static|inline|constinit|thread_local|[A-Z]+_[A-Z_]+)\s+)+")


def static_declarations(text):
    """Returns the declarations that begin with `static`, at any level, up to the first brace or semicolon."""
    return re.findall(r"(?<=[{};:\s])static\s[^;{]*(?=[;{])", text)


def is_mutable_variable(declaration):
    """Returns whether a declaration is that of a variable that may change, or that refers to a new object."""
    text = SPECIFIERS.sub("", declaration.strip())
    if not text or NO_VARIABLE.match(text) or re.match(SELF_REGISTERED, text):
        return False
    head, _, initialiser = text.partition("=")
    if re.match(POOL, head) or re.search(r"\bnew Slab<", initialiser) or head.startswith("constexpr"):
        return False
    if re.search(r"\bnew\b", initialiser):
        return not head.startswith("const ")
    while (shorter := re.sub(r"<[^<>]*>", "", head)) != head:  # template arguments
        head = shorter
    # An initialiser in parentheses begins with a literal (here 0) or a number; other parentheses are a function's.
    head = re.sub(r"\(\s*\d[^()]*\)", "", head)
    if "(" in head or "operator" in head:
        return False
    constant = re.search(r"[*&]\s*const\b", head) or ("*" not in head and head.startswith("const "))
    return not constant and re.search(r"\w[\s*&]+\w", head) is not None


def mutable_variables(path):
    """Returns the declarations of mutable variables outside of objects in a file."""
    with open(path, encoding="utf-8") as file:
        text = without_noise(file.read())
    found = [each for each in declarations(text) if not each.strip().startswith("static")]
    found += static_declarations(text)
    return [" ".join(each.split()) for each in found if is_mutable_variable(each)]


def check(root, exceptions):
    """Returns (complaints, number of files read) of the tree under root."""
    complaints, count, source = [], 0, os.path.join(root, "src")
    for where, _, names in os.walk(source):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(where, name), root)
            if not name.endswith(SOURCES) or path.startswith(tuple(f"src/{folder}/" for folder in UNCHECKED)):
                continue
            count += 1
            found, allowed = mutable_variables(os.path.join(where, name)), exceptions.get(path, 0)
            if len(found) > allowed:
                complaints += [f"{path}: state outside of objects: {each}: let the Instance own it" for each in found]
            elif len(found) < allowed:
                complaints.append(f"tools/check_state.py: {path} has {len(found)} variables: lower its entry")
    return complaints, count


def main():
    parser = argparse.ArgumentParser(description="Checks that no layer of src/ has state outside of objects.")
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--root", default=root)
    arguments = parser.parse_args()
    complaints, count = check(arguments.root, EXCEPTIONS if arguments.root == root else {})
    print("\n".join(complaints) or "state: %d files, %d exceptions" % (count, len(EXCEPTIONS)))
    return 1 if complaints or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
