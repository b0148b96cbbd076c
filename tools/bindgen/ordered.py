# SPDX-License-Identifier: BSD-3-Clause
"""Calls in stream order: the statements by which an entry point enqueues its call (src/api/ordered.hpp)."""

import significance

KEPT = ("DATATYPE", "OPERATION", "GROUP", "WINDOW")


def mode(api, function):
    """Returns how the overlay lists the function under stream_order; None: it is not listed."""
    lists = api.overlay["stream_order"]
    file = function.find("FILE")
    if file is not None and file.direction != "out":
        return None if function.mpi_name in lists["file_queries"] else "settle"
    return next((key for key in ("run", "start", "init", "settle") if function.mpi_name in lists[key]), None)


def _resolved(parameter):
    return (
        not parameter.is_array and not parameter.levels() and not parameter.raw_handle and parameter.direction == "in"
    )


def _array(function, parameter, passed, captures):
    """The copy of an array argument in the closure, and the argument made of it."""
    length = significance.array_length(function, parameter)
    if length is None:
        raise SystemExit(f"bindgen: {function.mpi_name}: the length of {parameter.name} is unknown")
    count = length if length.startswith("static_cast") else f"static_cast<size_t>({length})"
    kept = f"{parameter.name}_kept"
    if parameter.kind == "DATATYPE":
        captures.append(f"{kept} = ordered::Types({passed}, {count})")
        return f"{kept}.view()"
    if parameter.poly:
        captures.append(f"{kept} = ordered::Counts({passed}, {count})")
        return f"{kept}.view()"
    captures.append(f"{kept} = ordered::copy({passed}, {count})")
    return f"{kept}.data()"


def _closure(function, plan, request):
    """A lambda that calls the implementation with copies of the arguments."""
    captures, passed = [], []
    parameters = [p for p in function.parameters if p.kind != "VARARGS"]
    for parameter, text in zip(parameters, plan.passed):
        if parameter.kind == "REQUEST":
            passed.append("made")
        elif parameter.is_array and parameter.direction == "in":
            passed.append(_array(function, parameter, text, captures))
        elif parameter.kind in KEPT and _resolved(parameter):
            captures.append(f"{parameter.name}_kept = ordered::keep({text})")
            passed.append(f"*{parameter.name}_kept")
        else:
            passed.append(text)
    argument = "MPI_Request* made" if request else ""
    joined = "".join(f", {capture}" for capture in captures)
    return f"[={joined}]({argument}) mutable -> weft::Status {{ return impl::{function.name}({', '.join(passed)}); }}"


def _site(function, comm):
    buffers = [p.name for p in function.parameters if p.kind == "BUFFER"]
    types = [p.variable for p in function.parameters if p.kind == "DATATYPE" and _resolved(p)]
    answers = [f"{p.name} != MPI_STATUS_IGNORE" for p in function.parameters if p.kind == "STATUS"]
    if any(p.kind == "DATATYPE" and p.is_array for p in function.parameters):
        answers += [f"{name} == MPI_BOTTOM" for name in buffers]
    answer = " || ".join(answers) or "false"
    return f"{{*{comm}, entry.call(), {{{', '.join(buffers)}}}, {{{', '.join(types)}}}, {answer}}}"


def _indented(statements):
    return ["  " + statement for statement in statements]


def _by_kernels(api, function, plan):
    """Statements for a communicator whose ordinary calls kernels execute."""
    lists = api.overlay["stream_order"]
    if function.mpi_name in lists["no_kernels"]:
        return [
            "if (ordered::by_kernels(*comm_object))",
            "  return entry.fail(ordered::refused_by_kernels(entry.call()));",
        ]
    if function.mpi_name not in lists["kernels"]:
        return []
    passed = ", ".join(["entry.call()", *plan.passed])
    return [
        "if (ordered::by_kernels(*comm_object))",
        f"  if (auto done = kernels::{function.name}({passed})) return entry.finish(std::move(*done));",
    ]


def lines(api, function, plan):
    """Statements before the call of the implementation."""
    chosen = mode(api, function)
    if chosen is None:
        return []
    kernels = _by_kernels(api, function, plan)
    has_window = function.find("WINDOW") is not None and function.find("WINDOW").direction != "out"
    window = function.find("WINDOW")
    if has_window:
        comm = "(*win_object)->comm" if window.levels() else "win_object->comm"
        if window.levels():
            comm = f"to_window(*{window.name})->comm"
    elif function.find("COMMUNICATOR") is None:
        comm = f"{function.find('FILE').variable}->comm"
    else:
        first = function.find("COMMUNICATOR")
        comm = f"to_communicator(*{first.name})" if first.levels() else "comm_object"
    if chosen == "settle":
        before = ["if (comm_object->order != nullptr) [[unlikely]] {", *_indented(kernels), "}"] if kernels else []
        return [
            *before,
            f"if (core::Communicator* const in_order = &*{comm}; in_order->order != nullptr) [[unlikely]]",
            "  if (weft::Status settled = ordered::settle(*in_order, entry.call()); !settled.ok())",
            "    return entry.fail(std::move(settled).error());",
        ]
    if chosen == "run":
        action = f"ordered::run({_site(function, comm)}, {_closure(function, plan, False)})"
    elif chosen == "start":
        action = f"ordered::start({_site(function, comm)}, request, {_closure(function, plan, True)})"
    else:
        collective = "source" not in {p.name for p in function.parameters} and "dest" not in {
            p.name for p in function.parameters
        }
        settle = "ordered::settle(*comm_object, entry.call())" if collective else "weft::Status()"
        call = f"impl::{function.name}({', '.join(plan.passed)})"
        return [
            f"if (ordered::in_order(*{comm})) [[unlikely]] {{",
            *_indented(kernels),
            f"  weft::Status made = {settle};",
            f"  if (made.ok()) made = {call};",
            f"  if (made.ok()) made = ordered::wrap_persistent({_site(function, comm)}, request);",
            "  return entry.finish(std::move(made));",
            "}",
        ]
    return [
        f"if (ordered::in_order(*{comm})) [[unlikely]] {{",
        *_indented(kernels),
        f"  return entry.finish({action});",
        "}",
    ]
