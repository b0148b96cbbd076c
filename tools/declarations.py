# SPDX-License-Identifier: BSD-3-Clause
# C++ text as the checks of src/ read it: without comments and literals, and cut into declarations.
import re

SOURCES = (".hpp", ".cpp", ".cuh", ".h")
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*',
    re.DOTALL | re.MULTILINE,
)
# The beginning of a block whose declarations are those of the namespace around it.
NAMESPACE = re.compile(r"(?:\bnamespace\b[\s\w:]*|\bextern\s+0\s*)$")


def without_noise(text):
    """Returns C++ text without comments, literals, preprocessor lines and attributes."""
    return re.sub(r"\[\[.*?\]\]", " ", NOISE.sub(lambda found: "0" if found.group(0)[0] in "\"'R" else " ", text))


def declarations(text, start=0, of_class=False):
    """Yields the declarations of the class body that begins at `start`, or else of all namespaces of the text, with bodies in
    braces as `{}`."""
    depth, parentheses, current = 0, 0, []
    for position in range(start, len(text)):
        char = text[position]
        if depth == 0 and char == "}":
            if of_class:
                return
            current = []  # the end of a namespace
        elif char == "{" and depth == 0 and not of_class and NAMESPACE.search("".join(current)):
            current = []
        elif char in "{}":
            depth += 1 if char == "{" else -1
            if depth == 0:
                current.append("{}")
                # A body ends the declaration, unless it initialises a variable or a member.
                following = text[position + 1 : position + 200].lstrip()[:1]
                if parentheses == 0 and following not in (";", ",", "{", ")"):
                    yield "".join(current)
                    current = []
        elif depth == 0:
            parentheses += {"(": 1, ")": -1}.get(char, 0)
            if char == ";" and parentheses == 0:
                yield "".join(current)
                current = []
            else:
                current.append(char)
