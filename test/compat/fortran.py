#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Fortran programs of another MPI on Weft: the programs of test/fortran, compiled with a mpif.h that has the values of
# spec/compat_NAME.json, run with the library in lib/compat. usage: fortran.py NAME LIBRARY
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PREFIX = os.environ.get("MPI_PREFIX", "")
NAME, LIBRARY = sys.argv[1:3]
PROGRAMS = ["messages", "callbacks", "attributes", "strings", "others"]
STATUS = {  # places of the members of a status
    "openmpi": {"MPI_STATUS_SIZE": 6, "MPI_SOURCE": 1, "MPI_TAG": 2, "MPI_ERROR": 3},
    "mpich": {"MPI_STATUS_SIZE": 5, "MPI_SOURCE": 3, "MPI_TAG": 4, "MPI_ERROR": 5},
}
BLOCKS = """
      COMMON /MPIPRIV1/ MPI_BOTTOM, MPI_IN_PLACE, MPI_STATUS_IGNORE
      COMMON /MPIPRIV2/ MPI_STATUSES_IGNORE, MPI_ERRCODES_IGNORE
      COMMON /MPIFCMB5/ MPI_UNWEIGHTED
      COMMON /MPIFCMB9/ MPI_WEIGHTS_EMPTY
      COMMON /MPIPRIVC/ MPI_ARGVS_NULL, MPI_ARGV_NULL
"""


def values():
    with open(os.path.join(HERE, "..", "..", "spec", f"compat_{NAME}.json"), encoding="utf-8") as file:
        table = json.load(file)
    known = dict(table["constants"], **STATUS[NAME], MPI_DISPLACEMENT_CURRENT=-54278278)
    if NAME == "mpich":  # handles are the same numbers in C, keys are not
        for group in table["handles"].values():
            known.update(group)
        for key in re.findall(r"MPI_(?:TAG_UB|IO|HOST|WTIME_IS_GLOBAL|APPNUM|LASTUSEDCODE|UNIVERSE_SIZE)\b"
                              r"|MPI_WIN_(?:BASE|SIZE|DISP_UNIT|CREATE_FLAVOR|MODEL)\b", " ".join(known)):  # fmt: skip
            known[key] += 1
    return dict(known, **table.get("fortran", {}))


def header():
    """Weft's mpif.h with the values of the other interface. Names that it lacks are left out."""
    with open(os.path.join(PREFIX, "include", "mpif.h"), encoding="utf-8") as file:
        text = file.read()
    known = values()
    same = re.compile(r"MPI_(\w+_KIND|SUBARRAYS\w*|ASYNC\w*)$")

    def constant(match):
        if same.match(match[1]):
            return match[0]
        return f"PARAMETER ({match[1]}={known[match[1]]})" if match[1] in known else ""

    text = re.sub(r"PARAMETER \((\w+)=([^)]*)\)", constant, text)
    if NAME == "mpich":
        text = re.sub(r" *COMMON /\w+/ MPI_(?!BUFFER_AUTOMATIC)\w+\n", "", text) + BLOCKS
    return text


def main():
    if not shutil.which("gfortran"):
        print("skipped: there is no gfortran")
        return 77
    library = os.path.join(PREFIX, "lib", "compat", LIBRARY)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "mpif.h"), "w", encoding="utf-8") as file:
            file.write(header())
        for program in PROGRAMS:
            source = os.path.join(HERE, "..", "fortran", program + ".F90")
            command = [
                "gfortran",
                "-std=legacy",
                "-w",
                "-g",
                "-fbacktrace",
                "-I",
                folder,
                source,
                library,
                "-o",
                program,
            ]
            subprocess.run(command, cwd=folder, check=True)
            loaded = subprocess.run(["ldd", program], cwd=folder, check=True, capture_output=True, text=True).stdout
            assert LIBRARY in loaded and "libmpi_abi_fortran" not in loaded, loaded
            for ranks in ("1", "4"):
                command = [os.path.join(PREFIX, "bin", "mpiexec"), "-n", ranks, "./" + program]
                subprocess.run(command, cwd=folder, check=True, timeout=60)
            command = [os.path.join(PREFIX, "bin", "mpiexec"), "--run-info", "./" + program]
            text = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
            assert f"linked with {LIBRARY} (" in text and "missing: none" in text, text
            print(program, "passed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
