#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Generates one function per MPI function that calls it with drawn arguments: the calls of test/fuzz/api.

fuzz_calls.py --src REPOSITORY --apis apis.json --out FILE"""

import argparse
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import generate  # noqa: E402
import kinds  # noqa: E402
import model  # noqa: E402

# Calls that start, end or abort the process or free arbitrary memory as documented.
LEFT_OUT = {
    "Abort",
    "Init",
    "Init_thread",
    "Finalize",
    "Free_mem",
    "Comm_spawn",
    "Comm_spawn_multiple",
    "Session_finalize",
}
# Calls that wait for other processes or requests even in a job of one rank.
BLOCKING = set(
    """
Send Ssend Rsend Bsend Recv Mrecv Probe Mprobe Sendrecv Sendrecv_replace Isendrecv_replace Wait Waitall Waitany Waitsome
Buffer_detach Buffer_flush Comm_detach_buffer Comm_flush_buffer Session_detach_buffer Session_flush_buffer
Comm_disconnect Comm_accept Comm_connect Comm_join Win_start Win_complete Win_wait
""".split()
)
BOUNDED = ("DISP", "LOCATION", "OFFSET", "STRIDE")  # of bytes: larger values are addresses of nothing


# Handles of the tool interface; the others are kinds.HANDLE_KINDS.
TOOL_HANDLES = {"CVAR", "PVAR", "PVAR_SESSION", "TOOLS_ENUM", "EVENT_REGISTRATION", "EVENT_INSTANCE"}
TOOL_INDICES = {"CAT_INDEX", "CVAR_INDEX", "CVAR_INDEX_SPECIAL", "EVENT_INDEX", "PVAR_INDEX", "TOOLENUM_INDEX"}


def is_handle(parameter):
    return parameter.kind in kinds.HANDLE_KINDS or parameter.kind in TOOL_HANDLES


def may_block(function):
    """ "alone": in a job of one rank, too; "together": only if other ranks take part."""
    # A process that is its own neighbor may send another number of messages than it receives.
    if function.name in BLOCKING or (function.name.startswith("Neighbor_") and not function.name.endswith("_init")):
        return "alone"
    if function.tool:
        return "never"
    if any(p.kind in ("FILE", "WINDOW", "SESSION") for p in function.parameters):
        return "together"
    name = function.name
    if name.startswith("Intercomm_"):
        return "together"
    # The initialisation of a persistent collective may wait for the other ranks (MPI 5.0 section 6.13).
    local = name.startswith(("I", "Test", "Info", "Type", "Group", "Attr", "Pready", "Parrived")) or name.endswith(
        ("send_init", "recv_init")
    )
    return "together" if function.find("COMMUNICATOR") and not local else "never"


def keeps(function):
    """Whether buffers and numbers of the call are used after it returns."""
    name = function.name
    if name.startswith(("Type_", "Win_create", "Win_attach")) or name.endswith(("_begin", "attach", "attach_buffer")):
        return True
    return any(p.kind == "REQUEST" and p.is_out for p in function.parameters)


def integer_class(parameter):
    if parameter.kind in TOOL_INDICES:
        return "index"
    if any(word in parameter.kind for word in BOUNDED):
        return "displacement"
    return {"RANK": "rank", "RANK_NNI": "rank", "TAG": "tag", "KEYVAL": "number", "ERROR_CODE": "number",
            "ERROR_CLASS": "number"}.get(parameter.kind, "count")  # fmt: skip


def is_integer(parameter, large):
    return parameter.base_type(large) in ("int", "MPI_Count", "MPI_Aint", "MPI_Offset")


def value(parameter, large):
    """C++ expression that draws the argument."""
    kind, base = parameter.kind, parameter.base_type(large)
    target = parameter.pointer_type(large)
    if kind in kinds.FUNCTION_KINDS or kind.endswith("_CB_FUNCTION"):
        return f"v.function<{base}>()"
    if kind == "STRING" and parameter.direction == "in":
        return "v.string()"
    if kind in ("C_BUFFER", "C_BUFFER2", "ATTRIBUTE_VAL", "ATTRIBUTE_VAL_10") and parameter.direction == "out":
        return "v.slot()"  # the address of a pointer
    if kind in ("BUFFER", "C_BUFFER", "C_BUFFER2", "EXTRA_STATE", "EXTRA_STATE2", "ATTRIBUTE_VAL", "ATTRIBUTE_VAL_10"):
        return "v.buffer()"
    if kind in ("STRING_ARRAY", "ARGUMENT_LIST"):
        return "v.strings()"
    pointer = target.endswith("*") or target.endswith("]") or ")" in target
    if kind == "TOOL_MPI_OBJ":
        return "v.handles<MPI_Comm>()"
    if kind == "CALLBACK_SAFETY":
        return "v.safety()"
    if is_handle(parameter):
        return f"v.handles<{base}>()" if pointer else f"v.handle<{base}>()"
    if is_integer(parameter, large):
        group = f"Values::Integer::{integer_class(parameter)}"
        if isinstance(parameter.length, list):
            return f"reinterpret_cast<{target}>(v.integers<{base}>({group}))"
        return f"v.integers<{base}>({group})" if pointer else f"v.integer<{base}>({group})"
    return f"static_cast<{target}>(v.slot())" if pointer else f"{base}{{}}"


def body(function, large):
    lines, names = [], []
    for parameter in function.visible(large):
        if parameter.kind == "VARARGS":
            continue
        name = f"a{len(names)}"
        names.append(name)
        lines.append(f"  const auto {name} = {value(parameter, large)};")
    call = f"{function.c_name(large)}({', '.join(names)})"
    if not function.returns_error:
        return lines + [f"  static_cast<void>({call});", "  return 0;"]
    lines.append(f"  const int code = {call};")
    for name, parameter in zip(names, [p for p in function.visible(large) if p.kind != "VARARGS"]):
        if parameter.is_out and is_handle(parameter) and not parameter.is_array:
            lines.append(f"  v.remember({name}, code);")
        elif parameter.is_out and parameter.kind in ("KEYVAL", "ERROR_CODE", "ERROR_CLASS") and not parameter.is_array:
            lines.append(f"  v.remember_number({name}, code);")
    return lines + ["  return code;"]


def generated(api):
    text = [
        "// Generated by tools/bindgen/fuzz_calls.py.",
        '#include "fuzz/values.hpp"',
        "namespace weft::fuzz {",
        "namespace {",
    ]
    table = []
    for function, large in api.entry_points():
        if function.name in LEFT_OUT:
            continue
        name = function.c_name(large)
        text += [f"int fuzz_{name}([[maybe_unused]] Values& v) {{", *body(function, large), "}"]
        keeping = "true" if keeps(function) else "false"
        table.append(f'  {{"{name}", fuzz_{name}, Call::Blocks::{may_block(function)}, {keeping}}},')
    text += [
        "}  // namespace",
        "const std::vector<Call>& calls() {",
        "  static const std::vector<Call> all{",
        *table,
        "  };",
    ]
    return "\n".join(text + ["  return all;", "}", "}  // namespace weft::fuzz", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for option in ("--src", "--apis", "--out"):
        parser.add_argument(option, required=True)
    options = parser.parse_args()
    api = model.Api(options.apis, os.path.join(options.src, "spec"))
    generate.write(options.out, generated(api))


if __name__ == "__main__":
    main()
