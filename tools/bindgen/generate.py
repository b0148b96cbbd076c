#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Generates mpi.h, the entry points, impl.hpp and the coverage page from the Forum's apis.json.

generate.py --src REPOSITORY --out DIRECTORY [--apis apis.json] [--list-outputs | --update-coverage]"""

import argparse
import importlib.util
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import bodies  # noqa: E402
import compat  # noqa: E402
import compat_fortran  # noqa: E402
import compat_values  # noqa: E402
import coverage  # noqa: E402
import extensions  # noqa: E402
import fortran  # noqa: E402
import fortran_descriptors  # noqa: E402
import fortran_entry  # noqa: E402
import fortran_f08  # noqa: E402
import fortran_modules  # noqa: E402
import header  # noqa: E402
import manual  # noqa: E402
import model  # noqa: E402
import scan  # noqa: E402

FILES = 6
COLD_FILES = 4  # without a function that messages wait for, compiled with less optimisation
COMPAT = ("mpich", "openmpi")  # interfaces of spec/compat_NAME.json
COMPAT_FILES = 2
FORTRAN_FILES = 2  # for mpif.h and module mpi; as many for descriptors
EXPECTED = 664  # C functions of the MPI 5.0 ABI


def outputs(out):
    """Paths of all generated files, sources last."""
    sources = [os.path.join(out, "api", f"entry_points_{n:02}.cpp") for n in range(FILES)]
    sources += [os.path.join(out, "api", f"entry_points_cold_{n:02}.cpp") for n in range(COLD_FILES)]
    translations = [os.path.join(out, "compat", "native_functions.hpp")]
    for name in COMPAT:
        translations.append(os.path.join(out, "compat", f"{name}_values.hpp"))
        translations.append(os.path.join(out, "compat", f"fortran_{name}", "mpi.h"))
        translations += [os.path.join(out, "compat", f"{name}_{n:02}.cpp") for n in range(COMPAT_FILES)]
    translations += [os.path.join(out, "fortran", name) for name in ("mpif.h", "mpi.F90", "mpi_f08.F90")]
    translations += [
        os.path.join(out, "fortran", f"{part}_{n:02}.cpp") for part in ("entry", "f08") for n in range(FORTRAN_FILES)
    ]
    return (
        [
            os.path.join(out, "include", "mpi.h"),
            os.path.join(out, "api", "impl.hpp"),
            os.path.join(out, "coverage.md"),
        ]
        + sources
        + translations
    )


def find_apis(source, given):
    """The path of apis.json: as given, in spec/, or in the installed package pympistandard."""
    candidates = [given] if given else [os.path.join(source, "spec", "apis.json")]
    package = importlib.util.find_spec("pympistandard") if not given else None
    if package:
        candidates.append(os.path.join(package.submodule_search_locations[0], "data", "apis.json"))
    for candidate in candidates:
        if os.path.exists(candidate):
            return candidate
    raise SystemExit("bindgen: the Forum's apis.json was not found: pass --apis or install pympistandard")


def write(path, text):
    """Writes a file only if its text changed, to avoid needless recompilation."""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as stream:
            if stream.read() == text:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--src", required=True, help="root of the repository")
    parser.add_argument("--out", required=True, help="output directory for include/mpi.h, api/*.cpp and coverage.md")
    parser.add_argument("--apis", help="the Forum's apis.json (default: spec/apis.json, else pympistandard's)")
    parser.add_argument("--list-outputs", action="store_true", help="print the paths of all outputs and exit")
    parser.add_argument("--update-coverage", action="store_true", help="also write docs/coverage.md")
    options = parser.parse_args()
    api = model.Api(find_apis(options.src, options.apis), os.path.join(options.src, "spec"))
    weft_h = extensions.read(os.path.join(options.src, "include", "weft.h"))
    if options.list_outputs:
        names = [name for name, _ in [*manual.pages(api, set()), *extensions.pages(weft_h, manual.escaped)]]
        print("\n".join(outputs(options.out) + [os.path.join(options.out, "man", name) for name in names]))
        return
    count = len(api.entry_points())
    if count != EXPECTED:
        raise SystemExit(f"bindgen: {count} functions, not {EXPECTED}: check spec/overlay.json")
    done = scan.implemented(options.src, {f.name for f in api.functions})
    always = {f.name for f in api.functions if not f.returns_error}
    page = coverage.write(api, set(done) | always)
    texts = [header.write(api, set(done) | always), bodies.implementation_header(api), page]
    texts += bodies.files(api, done, FILES, cold=False) + bodies.files(api, done, COLD_FILES, cold=True)
    texts.append(compat.native_header(api))
    for name in COMPAT:
        table = compat_values.Table(api, os.path.join(options.src, "spec"), name)
        texts += [
            compat_values.header(table),
            compat_fortran.write(api, table),
            *compat.files(api, table, COMPAT_FILES),
        ]
    routines = fortran.routines(api)
    texts += [fortran_modules.mpif(api), fortran_modules.module_mpi(api, routines, fortran_f08.module_types())]
    texts.append(fortran_f08.module_f08(api, routines))
    texts += fortran_entry.files(routines, FORTRAN_FILES) + fortran_descriptors.files(routines, FORTRAN_FILES)
    for path, text in zip(outputs(options.out), texts):
        write(path, text)
    for name, text in [*manual.pages(api, set(done) | always), *extensions.pages(weft_h, manual.escaped)]:
        write(os.path.join(options.out, "man", name), text)
    if options.update_coverage:
        write(os.path.join(options.src, "docs", "coverage.md"), page)


if __name__ == "__main__":
    main()
