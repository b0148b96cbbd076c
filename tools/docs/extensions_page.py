#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Writes docs/extensions.md from the comments of include/weft.h. With --check it writes nothing, and fails if the page is
# stale, or if a name of the header has no page.
import argparse
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "bindgen"))
import extensions  # noqa: E402

PAGE = os.path.join("docs", "extensions.md")
HEADER = os.path.join("include", "weft.h")


def main():
    parser = argparse.ArgumentParser(description=f"Writes {PAGE} from {HEADER}.")
    parser.add_argument("--check", action="store_true", help="only compare")
    parser.add_argument("--root", default=ROOT)
    arguments = parser.parse_args()
    with open(os.path.join(arguments.root, HEADER), encoding="utf-8") as file:
        code = re.sub(r"/\*.*?\*/|struct \w+", "", file.read(), flags=re.DOTALL)
    declared = set(re.findall(r"(?<!\w)MPIX_\w+", code))
    header = extensions.read(os.path.join(arguments.root, HEADER))
    missing = declared - set(header.all_names())
    if missing:
        print("%s: no page for %s" % (HEADER, ", ".join(sorted(missing))))
        return 1
    text = extensions.markdown(header)
    path = os.path.join(arguments.root, PAGE)
    if not arguments.check:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return 0
    with open(path, encoding="utf-8") as file:
        stale = file.read() != text
    if stale:
        print(f"{PAGE} is stale: python3 tools/docs/extensions_page.py")
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
