# SPDX-License-Identifier: BSD-3-Clause
"""Writes the source of module mpi_f08: types and operators of handles, constants, callbacks, explicit interfaces."""

import fortran
import fortran_modules
import kinds

KINDS = {
    "integer": 4,
    "integer(kind=MPI_ADDRESS_KIND)": 8,
    "integer(kind=MPI_COUNT_KIND)": 8,
    "integer(kind=MPI_OFFSET_KIND)": 8,
}
OPERATORS = {"==": "eq", "/=": "ne"}


def module_types():
    """Module mpi_types: what modules mpi and mpi_f08 share (MPI 5.0 section 19.1.3)."""
    lines = [
        "module mpi_types",
        "use, intrinsic :: iso_c_binding, only: c_char",
        "implicit none",
        "public",
        "private :: c_char",
    ]
    for name in kinds.HANDLE_KINDS.values():
        lines += [f"type, bind(C) :: {name}", "  integer :: MPI_VAL", f"end type {name}"]
    lines += ["type, bind(C) :: MPI_Status", "  integer :: MPI_SOURCE, MPI_TAG, MPI_ERROR"]
    lines += ["  integer, private :: MPI_internal(5)", "end type MPI_Status"]
    # One module declares the special addresses that both have: a binding label may occur once.
    for name, kind, shape in fortran_modules.ADDRESSES:
        if "STATUS" not in name:
            lines.append(
                fortran_modules.address(name, "character(kind=c_char)" if kind == "character" else kind, shape)
            )
    for symbol, operator in OPERATORS.items():
        lines.append(f"interface operator({symbol})")
        for name in kinds.HANDLE_KINDS.values():
            lines += [
                f"  elemental function {name}_{operator}(first, second)",
                f"    import :: {name}",
                f"    logical :: {name}_{operator}",
            ]
            lines += [f"    type({name}), intent(in) :: first, second", f"  end function {name}_{operator}"]
        lines.append("end interface")
    return [*lines, "end module mpi_types"]


def _constants(api):
    """Statements that define the constants; handles are of their types."""
    types = {name: kind for kind, handles in api.abi["handles"].items() for name in handles}
    types.update({alias: types[name] for alias, name in api.abi["aliases"].items() if name in types})
    lines = []
    for name, value in fortran_modules.constants(api).items():
        if name in ("MPI_SOURCE", "MPI_TAG", "MPI_ERROR"):
            lines.append(f"integer, parameter :: {name} = {value}")
        elif name in types:
            lines.append(f"type({types[name]}), parameter :: {name} = {types[name]}({value})")
        else:
            lines.append(f"integer, parameter :: {name} = {value}")
    lines.append("integer(kind=MPI_OFFSET_KIND), parameter :: MPI_DISPLACEMENT_CURRENT = -1")
    lines += [
        f"logical, parameter :: {name} = .true."
        for name in ("MPI_SUBARRAYS_SUPPORTED", "MPI_ASYNC_PROTECTS_NONBLOCKING")
    ]
    return lines


def _callback(routine, name):
    """An interface body; arguments of callbacks have no intent (MPI 5.0 section 19.1)."""
    arguments = ", ".join(a.name for a in routine.arguments)
    lines = [*fortran_modules.wrapped(f"subroutine {name}({arguments})", 2), "    import"]
    for argument in routine.arguments:
        declared = argument.declaration(routine.large, f08=True)
        lines += [
            "    " + line.replace(", intent(in)", "").replace(", intent(out)", "").replace(", intent(inout)", "")
            for line in declared
        ]
    return [*lines, f"  end subroutine {name}"]


def _callbacks(api):
    """Abstract interfaces, and the interfaces of the predefined callbacks."""
    types = {(routine.mpi_name, routine.large): routine for routine in fortran.callbacks(api)}
    lines = ["abstract interface"]
    for routine in types.values():
        lines += _callback(routine, routine.mpi_name + ("_c" if routine.large else ""))
    lines += ["end interface", "interface"]
    for entry in api.raw.values():
        callback = entry["attributes"]["predefined_function"]
        if callback and entry["attributes"]["f08_expressible"] and (callback, False) in types:
            lines += _callback(types[callback, False], entry["name"].upper())
            if (callback, True) in types:
                lines += _callback(types[callback, True], entry["name"].upper() + "_C")
    return [*lines, "end interface"]


def distinct(routine):
    """True if a generic name can tell the large-count variant from its routine: a kind differs."""
    pairs = (
        (a.fortran_type(False), a.fortran_type(True))
        for a in routine.arguments
        if a.parameter.poly and a.kind not in kinds.FUNCTION_KINDS
    )
    return any(KINDS.get(small) != KINDS.get(large) for small, large in pairs if small != large)


def _procedure(routine, prefix):
    """The interface body of one specific procedure. Those with descriptors are bind(C): only there is a descriptor the
    standard's, for all compilers."""
    name = prefix + routine.f08_name
    if not routine.has_choice:
        return fortran_modules.interface(routine, name, True)
    arguments = ", ".join(a.name for a in routine.arguments)
    lines = fortran_modules.wrapped(f'subroutine {name}({arguments}) bind(C, name="{name.lower()}_")', 2) + [
        "    import"
    ]
    for argument in routine.arguments:
        declared = ["    " + line for line in argument.declaration(routine.large, f08=True)]
        if argument.kind == "STRING":  # gfortran 11 has no descriptors of strings
            any_type = f"    type(*), dimension(..), intent(in) :: {argument.name}"
            declared = ["#if defined(__GFORTRAN__) && __GNUC__ < 12", any_type, "#else", *declared, "#endif"]
        lines += declared
    return [*lines, f"  end subroutine {name}"]


def module_f08(api, routines):
    """The source of module mpi_f08."""
    lines = [
        "! SPDX-License-Identifier: BSD-3-Clause",
        "! Module mpi_f08 of Weft. Generated by tools/bindgen; do not edit.",
    ]
    lines += [
        "module mpi_f08",
        "use, intrinsic :: iso_c_binding, only: c_ptr",
        "use mpi_types",
        "implicit none",
        "public",
    ]
    lines += ["private :: c_ptr", *_constants(api)]
    lines += [
        fortran_modules.address(name, "type(MPI_Status)", shape, "f08_")
        for name, shape in (("MPI_STATUS_IGNORE", ""), ("MPI_STATUSES_IGNORE", "(1)"))
    ]
    lines += _callbacks(api)
    bodies = {}
    for routine in (r for r in routines if r.in_f08):
        for prefix in ("", "P"):
            generic = prefix + routine.mpi_name
            if routine.large and not distinct(routine):
                generic += "_c"  # MPI_Op_create_c and variants with the kinds of their routine
            bodies.setdefault(generic, []).extend(_procedure(routine, prefix))
    for generic, body in bodies.items():
        lines += [f"interface {generic}", *body, "end interface"]
    return "\n".join([*lines, "end module mpi_f08", ""])
