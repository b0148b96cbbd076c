#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The binary interface of weft.h and the SONAME stay as released (docs/support.md): each line of weft_header.txt is still in
# the header. usage: weft_header.py LIBRARY [--record]; --record adds new declarations, at a release.
import os
import re
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
RECORD = os.path.join(HERE, "weft_header.txt")
HEADER = os.path.join(HERE, "..", "..", "include", "weft.h")
LIBRARY = sys.argv[1]


def joined(text):
    return " ".join(text.split())


def interface(text):
    """Returns the constants, types and prototypes of a C header, one a line."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL).replace("\\\n", " ")
    constants = [
        joined(line)
        for line in re.findall(r"^[ \t]*#define[ \t]+\w+(?:\([^)\n]*\))?[ \t]+\S[^\n]*", text, re.MULTILINE)
    ]
    code = re.sub(r"^[ \t]*#[^\n]*", " ", text, flags=re.MULTILINE)
    code = re.sub(r'extern\s+"C"\s*{', " ", code)
    found, depth, current = [], 0, ""
    for char in code:
        depth += {"{": 1, "}": -1}.get(char, 0)
        current += char
        if char == ";" and depth == 0:
            found.append(joined(current))
            current = ""
    return sorted(constants) + sorted(found)


def recorded():
    with open(RECORD, encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if not line.startswith("# ")]


def declared():
    with open(HEADER, encoding="utf-8") as file:
        return interface(file.read())


class WeftHeader(unittest.TestCase):
    def test_what_was_released_is_unchanged(self):
        self.assertGreater(len(recorded()), 80)
        self.assertEqual([line for line in recorded() if line not in set(declared())], [])

    def test_a_change_is_found(self):
        header = "/* text */ #define A 1\nint f(int x,\n  int y);\ntypedef struct S { int a; int b; } S;\n"
        self.assertEqual(
            interface(header), ["#define A 1", "int f(int x, int y);", "typedef struct S { int a; int b; } S;"]
        )
        self.assertNotIn("int f(int x, int y);", interface(header.replace("int y", "long y")))

    def test_soname(self):
        done = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True)
        self.assertIn("Library soname: [libmpi_abi.so.1]", done.stdout)


if __name__ == "__main__":
    if sys.argv[2:] == ["--record"]:
        lines = sorted(set(recorded()) | set(declared()) if os.path.exists(RECORD) else declared())
        with open(RECORD, "w", encoding="utf-8") as file:
            file.write(
                "# Released declarations of weft.h, by test/abi/weft_header.py --record. Lines are added, never changed.\n"
            )
            file.writelines(line + "\n" for line in lines)
        sys.exit(0)
    unittest.main(argv=sys.argv[:1])
