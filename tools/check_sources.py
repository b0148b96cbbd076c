#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Source check: every source file has the licence line and at most 450 lines, no kernel depends on the GPU's generation, and
# every file named in backquotes in a document exists.
import argparse
import os
import re
import sys

LICENCE = "SPDX-License-Identifier: BSD-3-Clause"
MAX_LINES = 450
SOURCES = (".cpp", ".hpp", ".c", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake", ".in", "CMakeLists.txt", "Makefile")
FOLDERS = ("src", "include", "tools", "cli", "bench", "examples", "test", "cmake", "spec", "packaging")
GENERATED = {"include/mpi.h"}
SKIPPED = {"build", "dist", ".git", "__pycache__", "shared"}
GENERATION = re.compile(r"__CUDA_ARCH__\s*[-+*/%<>=!&|]")
CITED = re.compile(r"`((?:%s|docs)/[A-Za-z0-9_./-]+)`" % "|".join(FOLDERS))


def walk(root):
    """Yields the paths of the files of the tree, relative to root."""
    for where, folders, names in os.walk(root):
        folders[:] = sorted(folder for folder in folders if folder not in SKIPPED)
        for name in sorted(names):
            yield os.path.relpath(os.path.join(where, name), root)


def check_source(root, path):
    """Yields complaints about one source file."""
    if path.endswith(".py") and os.path.exists(os.path.join(root, path[: -len(".py")], "__init__.py")):
        yield "%s: a package has the same name, so that nothing can import the module: rename one" % path
    with open(os.path.join(root, path), encoding="utf-8") as file:
        lines = file.read().splitlines()
    if not any(LICENCE in line for line in lines[:3]):
        yield f"{path}: the first lines lack '{LICENCE}'"
    if len(lines) > MAX_LINES:
        yield "%s: %d lines, more than %d: split the file" % (path, len(lines), MAX_LINES)
    for number, line in enumerate(lines, 1):
        if GENERATION.search(line) and not path.endswith(".py"):
            yield "%s:%d: a value of __CUDA_ARCH__: one PTX serves all GPU generations (tools/setup/kernels.py)" % (
                path,
                number,
            )


def check_document(root, path):
    """Yields complaints about one document."""
    with open(os.path.join(root, path), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            for cited in CITED.findall(line):
                if cited not in GENERATED and not os.path.exists(os.path.join(root, cited)):
                    yield "%s:%d: `%s` does not exist" % (path, number, cited)


def check(root):
    """Returns (complaints, number of files read)."""
    complaints, count = [], 0
    for path in walk(root):
        if path.endswith(".md"):
            count += 1
            complaints.extend(check_document(root, path))
        elif path.endswith(SOURCES) and (path.split(os.sep)[0] in FOLDERS or os.sep not in path):
            count += 1
            complaints.extend(check_source(root, path))
    return complaints, count


def main():
    parser = argparse.ArgumentParser(description="Checks licence lines, file lengths and files cited in documents.")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    complaints, count = check(parser.parse_args().root)
    print("\n".join(complaints) or "sources: %d files in order" % count)
    return 1 if complaints or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
