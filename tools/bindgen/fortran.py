# SPDX-License-Identifier: BSD-3-Clause
"""Routines of the Fortran interfaces: which routines exist, their arguments in Fortran, their symbols."""

import kinds
import model

# Routines whose entry points src/fortran defines: callbacks, attributes, strings with a length of their own.
BY_HAND = set(
    """
Op_create Comm_create_errhandler File_create_errhandler Win_create_errhandler Session_create_errhandler
Comm_create_keyval Type_create_keyval Win_create_keyval Keyval_create Comm_set_attr Type_set_attr Win_set_attr Comm_get_attr
Type_get_attr Win_get_attr Attr_put Attr_get Grequest_start Register_datarep Comm_spawn Comm_spawn_multiple Info_get
Info_get_string Info_get_valuelen Session_get_nth_pset Status_f082f Status_f2f08 F_sync_reg Sizeof Buffer_detach
Comm_detach_buffer Session_detach_buffer
""".split()
)
# Index arguments that count from 1 in Fortran.
ONE_BASED = {
    f"{name}.{argument}"
    for name in ("Waitany", "Testany", "Waitsome", "Testsome", "Request_get_status_any", "Request_get_status_some")
    for argument in ("index", "indx", "array_of_indices")
}
TYPES = {
    "int": "integer",
    "MPI_Aint": "integer(kind=MPI_ADDRESS_KIND)",
    "MPI_Offset": "integer(kind=MPI_OFFSET_KIND)",
    "MPI_Count": "integer(kind=MPI_COUNT_KIND)",
    "double": "double precision",
}
STRINGS = ("STRING", "STRING_ARRAY", "STRING_2DARRAY")
F08_POINTERS = {
    "C_BUFFER": "type(c_ptr)",
    "C_BUFFER2": "type(c_ptr)",
    "C_BUFFER3": "type(c_ptr), value",
    "C_BUFFER4": "type(c_ptr), value",
}
ADDRESSES = ("EXTRA_STATE", "ATTRIBUTE_VAL")
# Kinds of two routines without a C function.
for _kind in ("F08_STATUS", "F90_STATUS"):
    kinds.C_TYPES.setdefault(_kind, ("MPI_Status", None))


class Argument:
    """One argument of a Fortran routine."""

    def __init__(self, raw):
        self.raw = raw
        self.parameter = model.Parameter(raw)
        self.name = raw["name"]
        self.kind = raw["kind"]

    @property
    def is_choice(self):
        return self.kind == "BUFFER"

    def intent(self):
        """The intent of MPI 5.0 section 19.1; empty where special addresses may be passed."""
        direction = self.raw["param_direction"]
        shown = self.kind == "ERROR_CODE_SHOW_INTENT"
        written = direction != "in" and self.kind in ("STATUS", "BUFFER")
        if not shown and ("f08_intent" in self.raw["suppress"] or written or self.kind in kinds.FUNCTION_KINDS):
            return ""
        return f", intent({direction})"

    def _shape(self, f08):
        length = self.raw["length"]
        if self.kind == "F90_STATUS":
            return "(MPI_STATUS_SIZE)"
        if self.kind == "STATUS" and not f08:
            return "(MPI_STATUS_SIZE)" if length is None else "(MPI_STATUS_SIZE,*)"
        if self.kind == "STRING_2DARRAY":
            return f"({length},*)"
        if self.kind == "STRING_ARRAY":
            return "(*)"
        if self.kind in ("STRING", "C_BUFFER4", "BUFFER") or length is None:
            return ""
        return f"({length[1]},*)" if isinstance(length, list) else "(*)"

    def declaration(self, large, *, f08, bind=False):
        """Fortran statements that declare the argument."""
        name, kind = self.name, self.kind
        if kind in kinds.FUNCTION_KINDS:
            return [f"procedure({self.parameter.base_type(large)}) :: {name}"] if f08 else [f"external {name}"]
        if self.is_choice or (kind in ("C_BUFFER2", "C_BUFFER3", "C_BUFFER4") and not f08):
            if f08:
                # target: gfortran assumes that other buffers are not used after the call, unless the program declares them
                # asynchronous, too.
                waits = ", asynchronous, target" if self.raw["asynchronous"] else ""
                return [f"type(*), dimension(..){self.intent()}{waits} :: {name}"]
            marks = [
                f"!GCC$ ATTRIBUTES NO_ARG_CHECK :: {name}",
                f"!DEC$ ATTRIBUTES NO_ARG_CHECK :: {name}",
                f"!DIR$ IGNORE_TKR {name}",
            ]
            return [*marks, f"type(*), dimension(*) :: {name}"]
        optional = ", optional" if f08 and self.raw["optional"] else ""
        waits = ", asynchronous" if f08 and self.raw["asynchronous"] else ""
        return [f"{self.fortran_type(large, f08)}{optional}{self.intent()}{waits} :: {name}{self._shape(f08)}"]

    def fortran_type(self, large, f08=True):
        """The type in a declaration."""
        kind = self.kind
        if kind in kinds.HANDLE_KINDS:
            return f"type({kinds.HANDLE_KINDS[kind]})" if f08 else "integer"
        if kind in STRINGS:
            length = self.raw["length"] if kind == "STRING" and f08 else None
            return f"character(len={length or '*'})"
        if kind == "F08_STATUS":
            return "type(MPI_Status)"
        if kind in ("STATUS", "F90_STATUS"):
            return "type(MPI_Status)" if f08 and kind == "STATUS" else "integer"
        if kind in ("LOGICAL", "LOGICAL_VOID"):
            return "logical"
        if kind in ADDRESSES:
            return TYPES["MPI_Aint"]
        if kind in ("EXTRA_STATE2", "ATTRIBUTE_VAL_10"):
            return "integer"
        if kind in F08_POINTERS:
            return F08_POINTERS[kind] if f08 else TYPES["MPI_Aint"]
        return TYPES[self.parameter.base_type(large)]


class Routine:
    """One Fortran routine: `large` is its large-count variant, which only mpi_f08 has."""

    def __init__(self, function, raw, large):
        self.function, self.raw, self.large = function, raw, large
        self.mpi_name = raw["name"]
        self.name = self.mpi_name[len("MPI_") :]
        attributes = raw["attributes"]
        self.in_f90 = attributes["f90_expressible"] and not large
        self.in_f08 = attributes["f08_expressible"]
        self.without_mpif = attributes["not_with_mpif"]
        hidden = {"f90_parameter", "f08_parameter"}
        self.arguments = [
            Argument(p)
            for p in raw["parameters"]
            if not hidden & set(p["suppress"].split()) and p["kind"] != "VARARGS" and (large or not p["large_only"])
        ]

    @property
    def has_choice(self):
        return any(a.is_choice for a in self.arguments)

    @property
    def result(self):
        """C type of the value of a function; None for a subroutine."""
        kind = self.raw["return_kind"]
        return None if kind in ("ERROR_CODE", "NOTHING") else kinds.C_TYPES[kind][0]

    @property
    def f08_name(self):
        """Name of the specific procedure (MPI 5.0 section 19.1.5)."""
        return f"{self.mpi_name}{'_c' if self.large else ''}_f08{'ts' if self.has_choice else ''}"

    @property
    def title(self):
        return self.name + ("_c" if self.large else "")


def _corrected(api, raw):
    """A routine of apis.json with the corrections of spec/overlay.json."""
    kind_of, pending = api.overlay["parameter_kinds"], api.overlay["pending_buffers"]
    parameters = []
    for parameter in raw["parameters"]:
        name = f"{raw['name']}.{parameter['name']}"
        corrected = dict(parameter, kind=kind_of.get(name, parameter["kind"]))
        if name in pending:
            corrected.update(asynchronous=True, param_direction=pending[name])
        parameters.append(corrected)
    return dict(raw, parameters=parameters)


def routines(api):
    """All Fortran routines in alphabetical order, the large-count variant after its routine."""
    functions = {f.mpi_name: f for f in api.functions}
    found = []
    for raw in api.raw.values():
        attributes = raw["attributes"]
        if attributes["callback"] or attributes["predefined_function"] or not attributes["f90_expressible"]:
            continue
        raw, function = _corrected(api, raw), functions.get(raw["name"])
        found.append(Routine(function, raw, False))
        if function is not None and function.has_large and attributes["f08_expressible"]:
            found.append(Routine(function, raw, True))
    return sorted(found, key=lambda r: (r.mpi_name.lower(), r.large))


def callbacks(api):
    """[(routine, large)] of the callbacks of mpi_f08."""
    found = []
    for raw in api.raw.values():
        if raw["attributes"]["callback"] and raw["attributes"]["f08_expressible"]:
            poly = any(p["kind"].startswith("POLY") for p in raw["parameters"])
            found += [Routine(None, raw, large) for large in ((False, True) if poly else (False,))]
    return sorted(found, key=lambda r: (r.mpi_name.lower(), r.large))
