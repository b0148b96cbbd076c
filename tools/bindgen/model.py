# SPDX-License-Identifier: BSD-3-Clause
"""Object model of the API: functions and parameters from the Forum's apis.json and Weft's overlay.json."""

import json
import os
import re

import kinds

# Parameter names that would shadow a function of <strings.h>.
RENAMED = {"index": "indx"}

# Functions that no message waits for: they set up, name, query or end something. File accesses are such functions, too.
COLD = re.compile(
    r"(Abi|Abort|Add|Alloc|Attr|Buffer|Cart|Close|Comm(?!_(rank|size)$)|Dims|Dist|Errhandler|Error|File|Finalized?|Free|Graph"
    r"|Get_(address|hw|library|processor|version)|Group|Info|Init|Initialized|Intercomm|Is|Keyval|Lookup|Op|Open|Pcontrol"
    r"|Publish|Query|Register|Remove|Session|T|Topo|Type|Unpublish"
    r"|Win_(allocate|attach|call|create|delete|detach|free|get|set|shared))(_|$)|.*_init$"
)


class Parameter:
    """One parameter of a C function."""

    def __init__(self, raw):
        self.raw = raw
        self.name = RENAMED.get(raw["name"], raw["name"])
        self.kind = raw["kind"]
        self.direction = raw["param_direction"]
        self.length = raw["length"]
        self.constant = bool(raw["constant"])
        self.large_only = raw["large_only"]
        self.raw_handle = False
        if self.kind not in kinds.C_TYPES and self.kind not in kinds.FUNCTION_KINDS:
            raise SystemExit(f"bindgen: unknown parameter kind {self.kind} of {self.name}: add it to kinds.py")

    @property
    def poly(self):
        return self.kind.startswith("POLY")

    @property
    def is_array(self):
        """True for an array of the kind's type; strings and buffers are not arrays."""
        pointers = kinds.POINTER_KINDS - {"STATUS"}
        return self.length is not None and not self.raw["pointer"] and self.kind not in pointers

    @property
    def is_out(self):
        return self.direction in ("out", "inout")

    def base_type(self, large):
        if self.kind in kinds.FUNCTION_KINDS:
            return self.raw["func_type"] + ("_c" if large and self.kind == "POLYFUNCTION" else "")
        small, wide = kinds.C_TYPES[self.kind]
        return wide if large and wide else small

    def levels(self):
        """Number of pointer levels in the C declaration."""
        raw = self.raw
        if self.kind == "ARGUMENT_LIST":
            return 1 if self.is_array else 3
        if raw["pointer"] is False and self.kind != "STRING":
            return 0
        if self.kind == "STRING_2DARRAY":
            return 2
        if self.kind == "STATUS":
            return 0 if self.is_array else 1
        if self.kind in kinds.POINTER_KINDS:
            return 1
        if (self.is_out or raw["pointer"]) and self.length is None:
            return 1
        return 0

    def suffix(self):
        if isinstance(self.length, list):
            return f"[][{self.length[1]}]"
        if self.is_array or self.kind in ("STRING_ARRAY", "STRING_2DARRAY"):
            return "[]"
        return ""

    def declaration(self, large):
        """The parameter as C text."""
        if self.kind == "VARARGS":
            return "..."
        constant = "const " if self.constant else ""
        if self.kind == "WEIGHT" and self.is_array:  # MPI_UNWEIGHTED is not an array: avoids compiler warnings
            return f"{constant}{self.base_type(large)} *{self.name}"
        stars = "*" * self.levels()
        return f"{constant}{self.base_type(large)} {stars}{self.name}{self.suffix()}"

    def pointer_type(self, large):
        """C++ type without the name; arrays as pointers."""
        constant = "const " if self.constant else ""
        if isinstance(self.length, list):
            return f"{constant}{self.base_type(large)} (*)[{self.length[1]}]"
        stars = "*" * (self.levels() + (1 if self.suffix() else 0))
        return f"{constant}{self.base_type(large)}{stars}"


class Function:
    """One function of the standard, including its large-count variant."""

    def __init__(self, raw, overlay):
        self.raw = raw
        self.mpi_name = raw["name"]
        self.name = raw["name"][len("MPI_") :]
        self.parameters = [Parameter(p) for p in raw["parameters"] if "c_parameter" not in p["suppress"]]
        for parameter in self.parameters:
            rename = overlay["parameter_kinds"].get(f"{self.mpi_name}.{parameter.name}")
            if rename:
                parameter.kind = rename
            parameter.raw_handle = f"{self.mpi_name}.{parameter.name}" in overlay["raw_handle"]
        self.has_large = any(p.poly for p in self.parameters)
        self.tool = self.mpi_name.startswith("MPI_T_")
        self.returns_error = raw["return_kind"] == "ERROR_CODE"
        self.any_time = self.mpi_name in overlay["any_time"]
        self.unlocked = self.mpi_name in overlay["unlocked"]
        self.now = self.mpi_name in overlay["now"]
        self.passes_large = self.mpi_name in overlay["passes_large"]
        self.cold = COLD.match(self.name) is not None

    @property
    def return_type(self):
        return kinds.C_TYPES[self.raw["return_kind"]][0]

    def c_name(self, large):
        return self.mpi_name + ("_c" if large else "")

    def visible(self, large):
        return [p for p in self.parameters if large or not p.large_only]

    def prototype(self, large, prefix=""):
        parameters = ", ".join(p.declaration(large) for p in self.visible(large)) or "void"
        return f"{self.return_type} {prefix}{self.c_name(large)}({parameters})"

    def widths(self):
        return (False, True) if self.has_large else (False,)

    def find(self, kind):
        return next((p for p in self.parameters if p.kind == kind), None)


class Api:
    """All functions and callbacks in alphabetical order."""

    def __init__(self, apis_path, spec_folder):
        with open(apis_path, encoding="utf-8") as stream:
            raw = json.load(stream)
        with open(os.path.join(spec_folder, "overlay.json"), encoding="utf-8") as stream:
            self.overlay = json.load(stream)
        with open(os.path.join(spec_folder, "abi.json"), encoding="utf-8") as stream:
            self.abi = json.load(stream)
        self.raw = raw
        self._check_overlay(raw)
        left_out = set(self.overlay["left_out"])
        self.functions, self.callbacks = [], []
        for entry in raw.values():
            attributes = entry["attributes"]
            if not attributes["c_expressible"] or attributes["predefined_function"] or entry["name"] in left_out:
                continue
            target = self.callbacks if attributes["callback"] else self.functions
            target.append(Function(entry, self.overlay))
        self.functions.sort(key=lambda f: f.mpi_name.lower())
        self.callbacks.sort(key=lambda f: f.mpi_name.lower())

    def _check_overlay(self, raw):
        """Rejects names in the overlay that apis.json does not have."""
        known = {entry["name"] for entry in raw.values()}
        keys = (
            "left_out",
            "any_time",
            "unlocked",
            "now",
            "passes_large",
            "any_communicator",
            "info_needed",
            "request_needed",
        )
        for key in keys:
            for name in self.overlay[key]:
                if name not in known:
                    raise SystemExit(f"bindgen: overlay.json: {key} names {name}, which apis.json does not have")

    def entry_points(self):
        """(function, large) for every exported MPI_ name."""
        return [(f, large) for f in self.functions for large in f.widths()]
