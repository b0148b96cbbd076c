# SPDX-License-Identifier: BSD-3-Clause
"""Handles and constants of another MPI's binary interface: table of spec/, and the header of conversions."""

import json
import os
import re

import compat


class Table:
    """Values of the other interface and of the standard ABI: {name: value}."""

    def __init__(self, api, spec_folder, name):
        with open(os.path.join(spec_folder, f"compat_{name}.json"), encoding="utf-8") as stream:
            raw = json.load(stream)
        self.name, self.handles, self.constants = name, raw["handles"], raw["constants"]
        self.native = {k: v for group in api.abi["constants"] for k, v in group["values"].items()}
        for values in api.abi["enums"].values():
            self.native.update(values)
        self.native_handles = {c_type: dict(values) for c_type, values in api.abi["handles"].items()}
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "..", "..", "include", "weft.h"), encoding="utf-8") as stream:
            text = stream.read()
        extensions = re.findall(r"#define (MPIX_\w+) \(\(MPI_Datatype\)(0x\w+)\)", text)
        self.native.update({name: int(value) for name, value in re.findall(r"#define (MPIX_ERR_\w+) (\d+)", text)})
        self.native_handles["MPI_Datatype"].update({constant: int(value, 16) for constant, value in extensions})
        for c_type, values in self.handles.items():
            for constant in values:
                if constant not in self.native_handles[c_type]:
                    raise SystemExit(f"bindgen: compat_{name}.json: {constant} is no {c_type}")
        self.sizes, self.aliases, self.addresses = (raw.get(key) for key in ("sizes", "aliases", "addresses"))
        self.fortran = raw.get("fortran")
        self.version = raw.get("version", (self.native["MPI_VERSION"], self.native["MPI_SUBVERSION"]))
        self.fallbacks = raw.get("error_fallbacks", {})

    def pairs(self, names):
        """(other value, native value) of the constants that both interfaces have."""
        return [(self.constants[n], self.native[n]) for n in names if n in self.constants and n in self.native]


def _switch(name, pairs, default, only_out=()):
    """Conversion functions in_NAME and out_NAME. only_out: (native value, other value) of constants that the other lacks."""
    lines = []
    for direction, cases in (("in", pairs), ("out", [(b, a) for a, b in pairs] + list(only_out))):
        lines.append(f"inline int {direction}_{name}(int value) {{\n  switch (value) {{")
        seen = set()
        for source, target in cases:
            if source not in seen:
                lines.append(f"    case {source}: return {target};")
            seen.add(source)
        lines.append(f"    default: return {default};\n  }}\n}}")
    return lines


def _bits(name, pairs):
    lines = []
    for direction, cases in (("in", pairs), ("out", [(b, a) for a, b in pairs])):
        lines.append(f"inline int {direction}_{name}(int value) {{\n  int result = 0;")
        for source, target in cases:
            lines.append(f"  if (value & {source}) result |= {target};")
        rest = "".join(f" & ~{source}" for source, _ in cases)
        lines.append(f"  return (value{rest}) != 0 ? result | kUnknownBit : result;\n}}")
    return lines


def _handles(table):
    lines = [
        "/// A predefined handle: value in the other interface, value in the standard ABI. The null handle is the first.",
        "struct Predefined {\n  int foreign, native;\n};",
    ]
    for c_type, values in table.handles.items():
        tag = c_type[len("MPI_") :].replace("Datatype", "Type")
        pairs = ", ".join(f"{{{value}, {table.native_handles[c_type][name]}}}" for name, value in values.items())
        lines.append(f"inline constexpr Predefined k{tag}Handles[] = {{{pairs}}};")
    return lines


def _objects(table):
    """Lists of the data symbols whose addresses are handles: name, bytes, native value (0: none)."""
    types = table.native_handles["MPI_Datatype"]
    objects = [
        (symbol, table.sizes[c_type], table.native_handles[c_type][constant])
        for c_type, values in table.handles.items()
        for constant, symbol in values.items()
    ]
    objects += [
        (symbol, table.sizes["MPI_Datatype"], types.get(constant, 0)) for symbol, constant in table.aliases.items()
    ]
    numbers = [
        "/// A predefined handle: number in Fortran, value in the standard ABI.",
        "struct FortranNumber {\n  int number, native;\n};",
    ]
    for c_type, values in table.native_handles.items():
        pairs = [f"{{{table.fortran[n]}, {value}}}" for n, value in values.items() if n in table.fortran]
        tag = c_type[len("MPI_") :].replace("Datatype", "Type")
        numbers.append(f"inline constexpr FortranNumber k{tag}Numbers[] = {{{', '.join(pairs) or '{-1, 0}'}}};")
    return numbers + [
        "/// Predefined handles: data symbol, bytes, value in the standard ABI. Of two with the same value, "
        "MPI returns the first.",
        "#define WEFT_COMPAT_OBJECTS(X) "
        + " ".join(f"X({symbol}, {size}, {native})" for symbol, size, native in objects),
        "/// Data symbols to which NAME_addr points.",
        "#define WEFT_COMPAT_ADDRESSES(X) " + " ".join(f"X({symbol})" for symbol in table.addresses),
    ]


def header(table):
    """Text of gen/compat/NAME_values.hpp."""
    text = compat.TOP.format(what=f"Values of the interface {table.name} and of the standard ABI.")
    lines = [
        text + "#pragma once\n\nnamespace weft::compat {",
        "/// Results for values that the source interface does not have: invalid in both.",
        "inline constexpr int kUnknownValue = -30000, kUnknownBit = 1 << 30;",
        *(_objects(table) if table.sizes else _handles(table)),
        "namespace foreign {",
        *[f"inline constexpr int {name[len('MPI_') :]} = {table.constants[name]};" for name in compat.NAMED],
        "/// Last version of the standard whose constants the interface's mpi.h has.",
        f"inline constexpr int kVersion = {table.version[0]}, kSubversion = {table.version[1]};",
        "}  // namespace foreign",
    ]
    for name, (prefix, names) in compat.GROUPS.items():
        found = [n for n in table.native if prefix and n.startswith(prefix)] + names
        lines += _switch(name, table.pairs(found), "kUnknownValue")
    for name, words in compat.BITS.items():
        lines += _bits(name, table.pairs(f"MPI_MODE_{word}" for word in words.split()))
    lines += _switch("keyval", table.pairs(compat.KEYVALS), "value")
    errors = [n for n in table.native if n.startswith(("MPI_ERR_", "MPI_T_ERR_", "MPIX_ERR_")) and n not in _NO_CLASS]
    fallbacks = [(table.native[name], table.constants[other]) for name, other in table.fallbacks.items()]
    lines += _switch("error_class", table.pairs(errors), "kUnknownValue", fallbacks)
    return "\n".join(lines) + "\n\n}  // namespace weft::compat\n"


_NO_CLASS = {"MPI_ERR_LASTCODE"}
