#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Parses the fenced blocks of Markdown pages and the marks before them, which tell how commands are tested.
#
# A mark is an HTML comment on the line before the fence:
#   <!-- run -->                      test/docs runs the block; `run: emulated GPUs, mpi4py` names requirements
#   <!-- needs: 2 GPUs -->            not run in CI because of these requirements
#   <!-- tested: test/setup/wheel.py -->  this test runs the same commands
#   <!-- file: hello.c -->            the block is a file used by later commands of the page
#   <!-- output -->                   expected output lines of the preceding run block; `...` matches any text
import argparse
import os
import re
import sys

SHELL = {"sh", "bash", "shell", "console"}
MARK = re.compile(r"^\s*<!--\s*(run|needs|tested|file|output)(?::\s*(.*?))?\s*-->\s*$")
FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(\S*)\s*$")
CAPABILITIES = {"emulated GPUs", "mpi4py", "numpy", "JAX", "UCX"}
FOLDERS = ("docs", "packaging", "examples")
PAGES = ("README.md", "CONTRIBUTING.md")


class Block:
    """One fenced block: position, language, text and mark."""

    def __init__(self, page, line, language, text, mark, value):
        self.page, self.line, self.language, self.text = page, line, language, text
        self.mark, self.value = mark, value

    @property
    def where(self):
        return "%s:%d" % (self.page, self.line)

    @property
    def requirements(self):
        """Returns the capabilities that a run block requires."""
        return {word.strip() for word in self.value.split(",") if word.strip()} if self.mark == "run" else set()


def parse(text, page):
    """Returns the blocks of a page, in order."""
    blocks, mark, value, opened = [], None, "", None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is not None:
            indent, ticks, start, language, lines = opened
            if fence and fence.group(2).startswith(ticks) and not fence.group(3):
                blocks.append(Block(page, start, language, "".join(lines), mark, value))
                mark, value, opened = None, "", None
            else:
                lines.append((line[len(indent) :] if line.startswith(indent) else line.lstrip()) + "\n")
        elif fence:
            opened = (fence.group(1), fence.group(2), number, fence.group(3), [])
        elif MARK.match(line):
            mark, value = MARK.match(line).group(1), MARK.match(line).group(2) or ""
        elif line.strip():
            mark, value = None, ""
    return blocks


def complaints(blocks, root):
    """Yields complaints about the marks of a page."""
    ran = False
    for block in blocks:
        if not block.language:
            yield f"{block.where}: the block has no language (use text)"
        elif block.language in SHELL and block.mark not in ("run", "needs", "tested", "file"):
            yield (
                "%s: these commands have no mark: add <!-- run -->, <!-- needs: WHAT --> or <!-- tested: TEST -->"
                " on the previous line (tools/docs/blocks.py)" % block.where
            )
        if block.mark in ("needs", "file") and not block.value:
            yield f"{block.where}: <!-- {block.mark}: --> needs a value"
        if block.mark == "tested" and not os.path.isfile(os.path.join(root, block.value)):
            yield "%s: the test %s does not exist" % (block.where, block.value or "nothing")
        unknown = block.requirements - CAPABILITIES
        if unknown:
            yield "%s: unknown capability %s" % (block.where, ", ".join(sorted(unknown)))
        if block.mark == "output" and not ran:
            yield f"{block.where}: no run block precedes this output"
        ran = ran or block.mark == "run"


def pages(root):
    """Returns the checked documents, relative to root."""
    found = [page for page in PAGES if os.path.exists(os.path.join(root, page))]
    for folder in FOLDERS:
        for where, _, names in os.walk(os.path.join(root, folder)):
            found += [os.path.relpath(os.path.join(where, name), root) for name in names if name.endswith(".md")]
    return sorted(found)


def read(root, page):
    """Returns the blocks of one page of the tree."""
    with open(os.path.join(root, page), encoding="utf-8") as file:
        return parse(file.read(), page)


def lines_of(test, root, page, folder=None):
    """Returns the lines of a page that the test runs, and writes the files of the page into a folder; None: nowhere."""
    found = read(root, page)
    for block in found:
        if block.mark == "file" and folder is not None:
            with open(os.path.join(folder, block.value), "w", encoding="utf-8") as file:
                file.write(block.text)
    lines = [
        line for block in found if block.mark == "tested" and block.value == test for line in block.text.splitlines()
    ]
    if not lines:
        raise ValueError(f"{page} has no block that {test} runs")
    return lines


def main():
    parser = argparse.ArgumentParser(description="Checks that every command of the documents is marked.")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    root = parser.parse_args().root
    found, count = [], 0
    for page in pages(root):
        blocks = read(root, page)
        count += len(blocks)
        found.extend(complaints(blocks, root))
    print("\n".join(found) or "documents: %d blocks, each marked" % count)
    return 1 if found or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
