#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Compares the exported symbols of a library of lib/compat with those of the MPI library that it stands in for: names of
# functions, names and sizes of data. usage: symbols.py OURS REFERENCE [PACKAGE]; with a package of Debian it is unpacked
# to the folder of REFERENCE. Status 77 if the reference is not there.
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "applications"))
import debian  # noqa: E402

# Internal functions of the Fortran libraries and of debuggers, and extensions without an equivalent in Weft.
LEFT_OUT = re.compile(
    r"MPIR_(?!Dup_fn)|P?MPIX_(?!Query_|GPU_query|Comm_(?:revoke|is_revoked|shrink|i?agree|failure_|get_failed|ack_failed))|"
    r"MPI_T_.*_(?:x|unused)$|P?MPI_[A-Z0-9_]+_(?:FN|F90|FN_NULL)$|OMPI_(?!C_)|P?MPI_Session_set_info$"
)
# Names of MPI functions; functions that MPICH's C++ and Fortran libraries call; Open MPI's predefined objects, and
# pointers to them.
NAME = re.compile(r"P?MPI[XR]?_|MPII_(?!Version)|OMPI_C_|ompi_(?:mpi|message|request)_")
# Imported by Open MPI 4's C++ bindings; Open MPI 5 does not have them.
OF_CXX_BINDINGS = {
    "ompi_attr_create_keyval", "ompi_errcode_intern_lastused", "ompi_errcodes_intern", "ompi_errhandler_create",
    "ompi_errhandler_invoke", "ompi_op_set_cxx_callback", "ompi_registered_datareps",
}  # fmt: skip
LIBRARY = {"libmpich12": "libmpich.so.12", "libopenmpi3": "libmpi.so.40"}
OBJECT_SIZES = {256, 512, 1024, 1536, 2048}


def exported(library):
    """Returns {name: size of data, or 0 for a function}."""
    text = subprocess.run(
        ["readelf", "-W", "--dyn-syms", library], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    symbols = {}
    for line in text.splitlines():
        columns = line.split()
        if len(columns) >= 8 and columns[3] in ("OBJECT", "FUNC") and columns[6] != "UND":
            symbols[columns[7].split("@")[0]] = int(columns[2], 0) if columns[3] == "OBJECT" else 0
    return symbols


def is_interface(name, size):
    """False for the variables of Open MPI that no program uses."""
    return not name.startswith("ompi_") or size in OBJECT_SIZES or name.endswith("_addr")


def main():
    ours, reference, *packages = sys.argv[1:]
    if packages:
        folder, reference = reference, os.path.join(reference, debian.LIBRARIES, LIBRARY[packages[0]])
        try:
            debian.fetch(folder, packages)
        except debian.Missing as error:
            debian.skip(str(error))
    if not os.path.exists(reference):
        print(f"skipped: {reference} is not there")
        return 77
    own, other = exported(ours), exported(reference)
    bad = [
        f"exports {name}, which is no name of MPI"
        for name in own
        if not NAME.match(name) and name not in OF_CXX_BINDINGS
    ]
    wanted = {
        name: size
        for name, size in other.items()
        if NAME.match(name) and not LEFT_OUT.match(name) and is_interface(name, size)
    }
    for name, size in sorted(wanted.items()):
        if name not in own:
            bad.append(f"does not export {name}")
        elif own[name] != size:
            bad.append("%s has %d bytes, not %d" % (name, own[name], size))
    print("%s: %d symbols of %s compared" % (ours, len(wanted), reference))
    print("\n".join(bad))
    return 1 if bad or len(wanted) < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
