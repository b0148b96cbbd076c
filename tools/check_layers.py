#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Layer check: a folder of src/ includes only itself and the layers it depends on, by weft_layer(name DEPENDS ...) in
# CMakeLists.txt. Includes name headers by their path from src/. A folder inside a layer includes only itself and
# earlier folders of weft_sublayers(layer folders...); `.` is the layer's own folder. A folder inside a layer may have
# such a call of its own, by its path. Python imports form no cycle.
import argparse
import ast
import graphlib
import itertools
import os
import re
import sys

SOURCES = (".cpp", ".hpp", ".cu", ".cuh", ".h", ".inc")
# Programs and libraries of their own, which are no layers: folder -> folders that it may include.
OWN = {
    "mpiexec": {"base", "launch"},
    "debugger": set(),
    "jax": set(),
    "python": set(),
    "torch": {"python"},
    "fortran": {"api"},
    "compat": {"api", "datatype"},
}


def read_table(cmake_lists):
    """Returns {folder: folders it may include}, the transitive closure of the weft_layer() calls."""
    with open(cmake_lists, encoding="utf-8") as file:
        text = file.read()
    direct = {}
    for call in re.findall(r"^weft_layer\(([^)]*)\)", text, re.MULTILINE):
        words = call.split()
        depends = words[words.index("DEPENDS") + 1 :] if "DEPENDS" in words else []
        direct[words[0]] = set(itertools.takewhile(lambda word: not word.isupper(), depends))  # up to the next keyword
    table = dict(OWN)
    for name in direct:
        reached, todo = set(), [name]
        while todo:
            for dependency in direct[todo.pop()]:
                if dependency not in direct:
                    raise SystemExit(f"{cmake_lists}: layer {name} depends on unknown layer {dependency}")
                if dependency not in reached:
                    reached.add(dependency)
                    todo.append(dependency)
        table[name] = reached
    return table


def read_sublayers(cmake_lists):
    """Returns {layer: its folders, lowest first}, from the weft_sublayers() calls."""
    with open(cmake_lists, encoding="utf-8") as file:
        calls = re.findall(r"^weft_sublayers\(([^)]*)\)", file.read(), re.MULTILINE)
    return {words[0]: words[1:] for words in (call.split() for call in calls)}


def check_sublayer(path, layer, order, source_root):
    """Yields complaints about the includes of a file in a layer, or folder of one, with ordered folders."""

    def sublayer(parts):
        """Returns the folder inside the layer; the layer's own files have `.`."""
        return parts[0] if len(parts) > 1 else "."

    depth = layer.count("/") + 1
    own = sublayer(os.path.relpath(path, os.path.join(source_root, layer)).split(os.sep))
    if own not in order:
        yield f"{path}: {own} is not in weft_sublayers({layer} ...) of CMakeLists.txt"
        return
    for number, header, _ in includes(path):
        parts = header.split("/")
        below = sublayer(parts[depth:])
        if "/".join(parts[:depth]) == layer and (below not in order or order.index(below) > order.index(own)):
            yield "%s:%d: src/%s/%s may not include %s, which is above it" % (path, number, layer, own, header)


def includes(path):
    """Yields (line number, header, quoted) of each #include."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            match = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
            if match:
                yield number, match.group(1), '"' in line


def check_file(path, folder, allowed, table, root):
    """Yields complaints about one file."""
    for number, header, quoted in includes(path):
        target = header.split("/")[0] if "/" in header else None
        if target in table:
            if target != folder and target not in allowed:
                yield "%s:%d: src/%s may not include %s (may: %s)" % (
                    path, number, folder, header, ", ".join(sorted(allowed)) or "nothing but itself",
                )  # fmt: skip
        elif quoted and os.path.exists(os.path.join(os.path.dirname(path), header)):
            if not os.path.exists(os.path.join(root, "include", header)):
                yield "%s:%d: name %s by its path from src/" % (path, number, header)


def python_modules(root):
    """Returns {module: path} of the packages in cli/."""
    folder, found = os.path.join(root, "cli"), {}
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(where, name)
                words = os.path.relpath(path, folder)[: -len(".py")].split(os.sep)
                found[".".join(words[:-1] if words[-1] == "__init__" else words)] = path
    return found


def imports(path, modules):
    """Yields the modules of cli/ that a file imports, inside functions too."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module


def check_python(root):
    """Yields complaints about cycles: between the modules and packages of a package, each package as a whole."""
    modules = python_modules(root)
    graphs = {}
    for module, path in modules.items():
        for target in filter(modules.get, imports(path, modules)):
            own, other = ([*name.split("."), "__init__"] for name in (module, target))
            common = len(os.path.commonprefix([own, other]))
            graphs.setdefault(tuple(own[:common]), {}).setdefault(own[common], set()).add(other[common])
    for package, graph in sorted(graphs.items()):
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            yield "cli/%s: imports form a cycle: %s" % ("/".join(package), " -> ".join(error.args[1][::-1]))


def check(root):
    """Returns (complaints, number of files read) of the tree under root."""
    table = read_table(os.path.join(root, "CMakeLists.txt"))
    sublayers = read_sublayers(os.path.join(root, "CMakeLists.txt"))
    complaints, count = list(check_python(root)), 0
    source_root = os.path.join(root, "src")
    for folder in sorted(os.listdir(source_root)):
        if not os.path.isdir(os.path.join(source_root, folder)):
            continue
        if folder not in table:
            complaints.append(f"src/{folder} is not in the layer table of CMakeLists.txt")
            continue
        for where, _, names in os.walk(os.path.join(source_root, folder)):
            for name in sorted(names):
                if name.endswith(SOURCES):
                    count += 1
                    path = os.path.join(where, name)
                    complaints.extend(check_file(path, folder, table[folder], table, root))
                    for layer, order in sublayers.items():
                        if path.startswith(os.path.join(source_root, *layer.split("/"), "")):
                            complaints.extend(check_sublayer(path, layer, order, source_root))
    return complaints, count


def main():
    parser = argparse.ArgumentParser(description="Checks the includes of src/ against the layer table.")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    complaints, count = check(parser.parse_args().root)
    print("\n".join(complaints) or "layers: %d files, all includes point downwards" % count)
    return 1 if complaints or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
