#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Checks that documents tell what holds, not how it came about: no commit in prose, no run "on a later machine". That
# belongs to docs/adr, test/results and the history. The first section of CHANGELOG.md is a list of single lines.
import argparse
import os
import re
import sys

import blocks

EXEMPT = ("docs/adr/",)
MORE = ("bench/results/README.md", "test/results/README.md")
MAX_ENTRIES = 80  # of the first section of the changelog
CODE = re.compile(r"`[^`]*`|\[[^\]]*\.\w+\]\([^)]*\)|\]\([^)]*\)|https?://\S+")
HASH = re.compile(r"\b(?:(?=\w*[0-9])(?=\w*[a-f])|(?<=commit ))[0-9a-f]{7,40}\b")
DIARY = re.compile(
    r"\b(later|earlier) machines?\b|\bthe (day|night) before\b|\ban hour (before|later)\b"
    r"|\bthat (day|night)\b|\b(fixed|mended) (since|in)\b|\bnot (run|measured) (again|since)\b",
    re.IGNORECASE,
)


def complaints(page, text):
    """Yields complaints about the prose of a page: its text outside of fenced blocks, code and link targets."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if blocks.FENCE.match(line):
            fenced = not fenced
        if fenced:
            continue
        prose = CODE.sub("", line)
        for match in HASH.finditer(prose):
            yield f"{page}:{number}: the commit {match[0]} tells a reader nothing: name the file of the result"
        for match in DIARY.finditer(prose):
            yield f"{page}:{number}: '{match[0]}' is a diary: say what holds, or move it to docs/adr"


def changelog(text):
    """Yields complaints about the first section of the changelog."""
    sections = re.split(r"(?m)^## ", text)
    if len(sections) < 2:
        yield "CHANGELOG.md: no section"
        return
    entries = 0
    for line in sections[1].splitlines()[1:]:
        if line.startswith("- "):
            entries += 1
        elif line.strip() and not line.startswith("### "):
            yield f"CHANGELOG.md: an entry is one line, this continues one: {line.strip()[:60]}"
    if not 0 < entries <= MAX_ENTRIES:
        yield "CHANGELOG.md: the first section has %d entries, not 1 to %d" % (entries, MAX_ENTRIES)


def read(root, page):
    with open(os.path.join(root, page), encoding="utf-8") as file:
        return file.read()


def main():
    parser = argparse.ArgumentParser(description="Checks that documents are no diary.")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    root = parser.parse_args().root
    pages = [page for page in [*blocks.pages(root), *MORE] if not page.startswith(EXEMPT)]
    found = [complaint for page in pages for complaint in complaints(page, read(root, page))]
    found += changelog(read(root, "CHANGELOG.md"))
    print("\n".join(found) or "prose: %d documents in order" % len(pages))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
