# SPDX-License-Identifier: BSD-3-Clause
"""Writes the mpi.h with which src/fortran is compiled for another MPI's binary interface."""

import compat
import header

TOP = """\
#pragma once
#include <stdint.h>

extern "C" {

typedef intptr_t MPI_Aint;
typedef int64_t MPI_Offset;
typedef int64_t MPI_Count;
typedef struct MPI_Status {
  int words[%d];
} MPI_Status;
"""
POINTERS = """\
#define MPI_BOTTOM ((void*)0)
#define MPI_STATUS_IGNORE ((MPI_Status*)weft_status_ignore)
#define MPI_STATUSES_IGNORE ((MPI_Status*)weft_status_ignore)
#define MPI_ERRCODES_IGNORE ((int*)0)
#define MPI_ARGV_NULL ((char**)0)
#define MPI_ARGVS_NULL ((char***)0)
"""
OPENMPI = """\
#define weft_status_ignore 0
#define MPI_IN_PLACE ((void*)1)
#define MPI_UNWEIGHTED ((int*)2)
#define MPI_WEIGHTS_EMPTY ((int*)3)
/* Added to keys of predefined attributes in Fortran. */
#define WEFT_FORTRAN_KEYVAL_OFFSET 0
"""
MPICH = """\
#define weft_status_ignore 1
#define MPI_IN_PLACE ((void*)-1)
extern int* const weft_mpich_unweighted __asm__("MPI_UNWEIGHTED");
extern int* const weft_mpich_weights_empty __asm__("MPI_WEIGHTS_EMPTY");
#define MPI_UNWEIGHTED weft_mpich_unweighted
#define MPI_WEIGHTS_EMPTY weft_mpich_weights_empty
#define WEFT_FORTRAN_KEYVAL_OFFSET 1
"""
# Handles that src/fortran uses.
HANDLES = "MPI_COMM_NULL MPI_COMM_SELF MPI_OP_NULL MPI_ERRHANDLER_NULL MPI_REQUEST_NULL".split()


def write(api, table):
    """Text of gen/compat/fortran_NAME/mpi.h."""
    by_address = table.sizes is not None
    text = compat.TOP.format(what=f"Types, values and functions of the interface {table.name}, for src/fortran.")
    text += TOP % table.constants["MPI_F_STATUS_SIZE"]
    lines = []
    for c_type in api.abi["handles"]:
        integer = not by_address and c_type != "MPI_File"
        lines.append(f"typedef int {c_type};" if integer else f"typedef struct WEFT_{c_type}* {c_type};")
    for c_type, values in table.handles.items():
        for name in values:
            if name in HANDLES and by_address:
                lines += [f"extern char {values[name]}[];", f"#define {name} (({c_type})(void*){values[name]})"]
            elif name in HANDLES:
                lines.append(f"#define {name} (({c_type}){values[name]})")
    lines += [f"#define {name} ({value})" for name, value in table.constants.items() if not name.startswith("MPI_T_")]
    text += "\n".join(lines) + "\n" + (OPENMPI if by_address else MPICH) + POINTERS
    text += "\n".join(line for line in header.callbacks(api) if "MPI_T_" not in line) + "\n"
    for function, large in api.entry_points():
        if not function.name.startswith("T_"):
            text += function.prototype(large, "P") + ";\n"
    return text + "}\n"
