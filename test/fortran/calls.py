# SPDX-License-Identifier: BSD-3-Clause
# Calls every routine through one interface (mpif.h, mpi or mpi_f08) with distinctive arguments. A generated library
# stands for the C library, checks what arrives and answers with distinctive results, which the program checks.
# Routines whose arguments have meanings of their own are called by the programs in this folder instead.
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tools", "bindgen"))
sys.dont_write_bytecode = True

import fortran  # noqa: E402
import kinds  # noqa: E402
import model  # noqa: E402
from call_library import library  # noqa: E402
from call_program import program  # noqa: E402

# Programs that call the routines with callbacks, attributes, lists of strings, own lengths of strings, or no C function.
PROGRAMS = {
    "mpif.h": "callbacks attributes strings others",
    "mpi": "callbacks attributes strings others",
    "mpi_f08": "handles others",
}


def own_meaning(routine):
    """True if no generated call fits the arguments."""
    own = {
        "EXTRA_STATE",
        "EXTRA_STATE2",
        "ATTRIBUTE_VAL",
        "ATTRIBUTE_VAL_10",
        "C_BUFFER2",
        "STRING_ARRAY",
        "STRING_2DARRAY",
    }
    special = ("Info_get", "Info_get_string", "Info_get_valuelen", "Session_get_nth_pset")
    kinds_of = {a.kind for a in routine.arguments}
    return routine.function is None or bool(kinds_of & (own | kinds.FUNCTION_KINDS)) or routine.name in special


def selected(routines, interface):
    """The routines of an interface. MPI_SIZEOF needs an explicit one (MPI 5.0 section 19.1.9)."""
    if interface == "mpif.h":
        return [r for r in routines if r.in_f90 and not r.without_mpif and r.name != "Sizeof"]
    return [r for r in routines if (r.in_f08 if interface == "mpi_f08" else r.in_f90)]


def covered_elsewhere(routines, interface):
    """Fails if a routine that is not generated is called by no program of the interface."""
    text = ""
    for name in PROGRAMS[interface].split():
        with open(os.path.join(HERE, name + ".F90"), encoding="utf-8") as file:
            text += file.read().lower()
    called = set(re.findall(r"call\s+(mpi_\w+)", text))
    missing = [
        r.title for r in routines if r.mpi_name.lower() not in called and r.mpi_name.lower() + "_c" not in called
    ]
    assert not missing, "called by no program: " + " ".join(missing)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("interface", choices=sorted(PROGRAMS))
    parser.add_argument("--apis", required=True)
    parser.add_argument("--keep", help="folder for the generated files")
    options = parser.parse_args()
    if not shutil.which("gfortran"):
        print("skipped: there is no gfortran")
        return 77
    api = model.Api(options.apis, os.path.join(ROOT, "spec"))
    routines = selected(fortran.routines(api), options.interface)
    spawn = [r for r in routines if r.name in ("Comm_spawn", "Comm_spawn_multiple")]
    by_hand = [r for r in routines if own_meaning(r) and r not in spawn]
    covered_elsewhere(by_hand, options.interface)
    generated = [r for r in routines if not own_meaning(r)]
    with tempfile.TemporaryDirectory() as folder:
        folder = options.keep or folder
        library_path = os.path.join(folder, "library.so")
        with open(os.path.join(folder, "library.c"), "w", encoding="utf-8") as file:
            file.write(library(generated))
        with open(os.path.join(folder, "calls.F90"), "w", encoding="utf-8") as file:
            file.write(program(generated, options.interface))
        subprocess.run(
            ["mpicc", "-O0", "-g", "-w", "-shared", "-fPIC", "library.c", "-o", "library.so"], cwd=folder, check=True
        )
        flags = ["-std=legacy"] if options.interface == "mpif.h" else []
        subprocess.run(
            ["mpifort", "-O0", "-g", "-w", "-ffree-line-length-none", *flags, "calls.F90", library_path, "-o", "calls"],
            cwd=folder,
            check=True,
        )
        environment = dict(os.environ, LD_PRELOAD=library_path)
        ran = subprocess.run(
            [os.path.join(folder, "calls")], env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
    print(ran.stdout)
    assert ran.returncode == 0, ran.returncode
    count = re.search(r"(\d+) calls, all as expected", ran.stdout)
    assert count and int(count.group(1)) == 2 * (len(generated) + len(spawn)), ran.stdout[-200:]
    print(
        f"{options.interface}: {len(generated) + len(spawn)} routines and their PMPI_ names here, {len(by_hand)} in programs"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
