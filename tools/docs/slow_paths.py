#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares the slow paths documented in docs/slow-paths.md with the slow paths declared in the sources.
import argparse
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join("docs", "slow-paths.md")
DECLARED = re.compile(r'\bSlowPath\s+\w+\s*[({]\s*"([a-z0-9_.]+)"')
EXPLAINED = re.compile(r"`([a-z0-9]+\.[a-z0-9_]+)`")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def declared(root):
    """Returns the names of the slow paths in the sources."""
    sources = glob.glob(os.path.join(root, "src", "**", "*.[ch]pp"), recursive=True)
    return {name for path in sources for name in DECLARED.findall(read(path))}


def explained(root):
    """Returns the names in the first column of the page's tables."""
    rows = [line for line in read(os.path.join(root, PAGE)).splitlines() if line.startswith("| `")]
    return {name for row in rows for name in EXPLAINED.findall(row.split("|")[1])}


def main():
    parser = argparse.ArgumentParser(description="Compares docs/slow-paths.md with the sources.")
    parser.add_argument("--root", default=ROOT)
    root = parser.parse_args().root
    source, page = declared(root), explained(root)
    for name in sorted(source - page):
        print(f"{PAGE} does not explain {name}")
    for name in sorted(page - source):
        print(f"{PAGE} explains {name}, which no source declares")
    return int(source != page or not source)


if __name__ == "__main__":
    sys.exit(main())
