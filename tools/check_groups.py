#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Group check: files of a layer that a first build compiles in groups (COLD, GROUP of weft_layer() in CMakeLists.txt) must not
# define equal names in unnamed namespaces. Which files meet in a group changes with each file that is added.
import argparse
import collections
import os
import re
import sys

from declarations import without_noise

CALL = re.compile(r"^weft_layer\((\w+)([^()]*)\)", re.MULTILINE)
KEYWORDS = r"\b(?:COLD|LIKE|DEPENDS|GENERATED|GROUP|PRECOMPILE)\b"
# Sources are formatted: what an unnamed namespace defines begins at the start of a line.
UNNAMED = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.DOTALL | re.MULTILINE)
ENCLOSING = re.compile(r"^namespace ([\w:]+) \{$", re.MULTILINE)
FUNCTION = re.compile(r"^[A-Za-z_][^\n;={}()]*?(?<!:)\b(\w+)\(([^;]*?)\)(?: const| noexcept)* \{", re.MULTILINE)
# An initialiser in parentheses begins with a literal (here 0); other parentheses are a function's.
VARIABLE = re.compile(
    r"^(?!(?:using|struct|class|enum|namespace|template|static_assert|typedef)\b)[A-Za-z_][\w:<>, *&]*[ *&>](\w+)(?: ?\[[^]]*\])*"
    r"(?: =|\{|;|\(\s*0\b)",
    re.MULTILINE,
)
TYPE = re.compile(r"^(?:struct|class|enum class|enum) (?:alignas\(\w+\) )?(\w+)[^;\n]*\{", re.MULTILINE)
ALIAS = re.compile(r"^using (\w+) = ([^;]*);", re.MULTILINE)


def groups(root):
    """Yields (layer, pattern of its grouped files) of each layer of CMakeLists.txt."""
    with open(os.path.join(root, "CMakeLists.txt"), encoding="utf-8") as file:
        text = file.read()
    for layer, arguments in CALL.findall(text):
        cold = re.search(rf"\bCOLD\b(.*?)(?:{KEYWORDS}|$)", arguments, re.DOTALL)
        names = ["."] if re.search(r"\bGROUP\b", arguments) else cold.group(1).split() if cold else []
        if names:
            yield layer, re.compile("." if names == ["."] else "|".join(rf"^{re.escape(each)}[./]" for each in names))


def names(text):
    """Returns what the unnamed namespaces of a source define, with the namespace around; functions with their types."""
    found = set()
    around = "::".join(ENCLOSING.findall(text))
    for body in map(without_noise, UNNAMED.findall(text)):
        for name, parameters in FUNCTION.findall(body):
            types = [
                re.sub(r"(?<=[\w>&*])([ &*])\w+(?:\[\])?(?: = .*)?$", r"\1", each.strip())
                for each in parameters.split(",")
            ]
            found.add(f"{name}({', '.join(map(str.strip, types))})")
        found.update(VARIABLE.findall(body))
        found.update(TYPE.findall(body))
        found.update(name for name, type in ALIAS.findall(body) if not type.endswith(name))
    return {f"{around}::{name}" for name in found}


def check(root):
    """Returns (complaints, number of files read) of the tree under root."""
    complaints, count = [], 0
    for layer, pattern in groups(root):
        folder = os.path.join(root, "src", layer)
        users = collections.defaultdict(list)
        for where, _, files in os.walk(folder):
            for each in sorted(files):
                path = os.path.join(where, each)
                if not each.endswith(".cpp") or not pattern.search(os.path.relpath(path, folder)):
                    continue
                count += 1
                with open(path, encoding="utf-8") as file:
                    for name in names(file.read()):
                        users[name].append(os.path.relpath(path, root))
        complaints += [
            f"{', '.join(sorted(files))}: each defines {name} in an unnamed namespace: share it, or rename one"
            for name, files in sorted(users.items())
            if len(files) > 1
        ]
    return complaints, count


def main():
    parser = argparse.ArgumentParser(description="Checks that grouped sources define no equal names.")
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    complaints, count = check(parser.parse_args().root)
    print("\n".join(complaints) if complaints else f"{count} files can be compiled in any groups")
    return 1 if complaints or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
