# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the data that a call describes by a buffer, a count and a datatype: size, range, null address."""

from dataclasses import dataclass

import significance

# Collectives that move data without a reduction, and the sides that have one block per rank or neighbor.
BLOCKS = {"Gather": ("recv",), "Allgather": ("recv",), "Scatter": ("send",), "Alltoall": ("send", "recv")}


@dataclass
class Operand:
    """One buffer of a call. `counts` is a count, or an array with one count a block."""

    buffer: str
    counts: str
    datatype: str
    displacements: str = ""  # array; empty: the blocks are adjacent
    blocks: str = ""  # C++ expression: number of adjacent blocks, or length of the arrays; empty: one block
    condition: str = ""  # C++ expression: the arguments are significant in this process
    moves: str = ""  # C++ expression: false if the address is not used (MPI_PROC_NULL)
    total: str = ""  # C++ expression that replaces the count: the sum of an array


def _point_to_point(function):
    names = {p.name for p in function.parameters}
    peers = [n for n in ("dest", "source", "target_rank") if n in names]
    moves = " || ".join(f"{n} != MPI_PROC_NULL" for n in peers)
    if "sendbuf" in names:
        return [
            Operand("sendbuf", "sendcount", "sendtype", moves="dest != MPI_PROC_NULL"),
            Operand("recvbuf", "recvcount", "recvtype", moves="source != MPI_PROC_NULL"),
        ]
    if "message" in names:
        moves = "*message != MPI_MESSAGE_NO_PROC"
    blocks = "partitions" if "partitions" in names else ""
    return [Operand("buf", "count", "datatype", blocks=blocks, moves=moves)]


def _one_sided(function):
    names = {p.name for p in function.parameters}
    moves = "target_rank != MPI_PROC_NULL"
    found = []
    for side in ("origin", "result"):
        if f"{side}_count" in names:
            unused = " && op != MPI_NO_OP" if side == "origin" and "accumulate" in function.name.lower() else ""
            found.append(Operand(f"{side}_addr", f"{side}_count", f"{side}_datatype", moves=f"({moves}{unused})"))
    return found


def _packing(function):
    if function.name.startswith("Unpack"):
        return [Operand("outbuf", "outcount", "datatype")]
    return [Operand("inbuf", "incount", "datatype")]


def _reduction(name):
    """Operands of a reduction. With MPI_IN_PLACE as sendbuf, recvbuf holds all of the input."""
    ranks = "comm_object->size()"
    send = Operand("sendbuf", "count", "datatype")
    recv = Operand("recvbuf", "count", "datatype")
    if name == "Reduce":
        send.condition = "has_nonroot_arguments(*comm_object, root)"
        recv.condition = "has_root_arguments(*comm_object, root)"
    elif name == "Exscan":
        recv.condition = "(comm_object->rank() > 0 || sendbuf == MPI_IN_PLACE)"
    elif name == "Reduce_scatter_block":
        send.counts = recv.counts = "recvcount"
        send.blocks = ranks
        recv.blocks = f"sendbuf == MPI_IN_PLACE ? {ranks} : 1"
    elif name == "Reduce_scatter":
        send.counts = recv.counts = "recvcounts"
        send.total = f"sum_of(CountArray(recvcounts), {ranks})"
        own = "CountArray(recvcounts)[static_cast<size_t>(comm_object->rank())]"
        recv.total = f"sendbuf == MPI_IN_PLACE ? {send.total} : {own}"
    return [send, recv]


def _base(name):
    """Alltoall for Neighbor_alltoallw."""
    return name.replace("Neighbor_", "").capitalize().rstrip("vw")


def _collective(name):
    base = _base(name)
    found = []
    for side, degree in (("send", "outdegree"), ("recv", "indegree")):
        operand = Operand(f"{side}buf", f"{side}count", f"{side}type")
        if side in BLOCKS[base]:
            operand.blocks = f"{degree}(*comm_object)" if "Neighbor_" in name else "comm_object->remote_size()"
            if name.endswith(("v", "w")):
                operand.counts += "s"
                operand.displacements = side[0] + "displs" if base == "Alltoall" else "displs"
            if name.endswith("w"):
                operand.datatype += "s"
        found.append(operand)
    return found


def operands(function):
    """The operands of a function that have a buffer."""
    if function.find("BUFFER") is None or function.find("DATATYPE") is None or function.tool:
        return []
    name = significance.family(function)
    if name in ("Pack", "Unpack", "Pack_external", "Unpack_external"):
        return _packing(function)
    if name == "Reduce_local":
        return [Operand("inbuf", "count", "datatype"), Operand("inoutbuf", "count", "datatype")]
    if name == "Bcast":
        return [Operand("buffer", "count", "datatype")]
    if name in ("Reduce", "Allreduce", "Scan", "Exscan", "Reduce_scatter", "Reduce_scatter_block"):
        return _reduction(name)
    if _base(name) in BLOCKS:
        return _collective(name)
    given = {p.name for p in function.parameters}
    if "target_rank" in given:
        return _one_sided(function)
    if {"buf", "count", "datatype"} <= given or {"sendbuf", "sendcount"} <= given:
        return _point_to_point(function)
    raise SystemExit(f"bindgen: operands.py has no rule for the buffers of {function.mpi_name}: add one")


def checks(function, table):
    """Statements that reject operands which cannot exist. `table`: significant arguments (keys: names)."""
    lines = []
    for operand in operands(function):
        condition = operand.condition or table.get(operand.counts) or table.get(operand.datatype) or ""
        guard = f"{condition} && " if condition else ""
        if operand.displacements:
            lines.append(_array_check(operand, condition))
            continue
        value = f"({operand.total})" if operand.total else operand.counts
        count = f"times({value}, {operand.blocks})" if operand.blocks else value
        name = f"the sum of {operand.counts}" if operand.total else operand.counts
        blocks = f", {operand.blocks}" if operand.blocks else ""
        data = f"{operand.buffer}, {count}, *{operand.datatype}_object"
        test = f"!valid_data({data})"
        if operand.moves:
            test += f" && ({operand.moves} || !valid_size({count}, *{operand.datatype}_object))"
        error = f'bad_data("{operand.buffer}", "{name}", {value}, *{operand.datatype}_object{blocks})'
        lines.append(f"if ({guard}{test}) [[unlikely]] return entry.fail({error});")
    for buffer, count in _packed_streams(function):
        test = f"{buffer} == nullptr && {count} > 0 && datatype_object->size() > 0"
        lines.append(f'if ({test}) [[unlikely]] return entry.fail(null_buffer("{buffer}"));')
    return lines


def _packed_streams(function):
    """The packed side of MPI_Pack and MPI_Unpack, and the count of the other side."""
    if function.name in ("Pack", "Pack_external"):
        return [("outbuf", "incount")]
    if function.name in ("Unpack", "Unpack_external"):
        return [("inbuf", "outcount")]
    return []


def _array_check(operand, condition):
    count = f"static_cast<size_t>({operand.blocks})"
    counts = f"CountArray({operand.counts}), CountArray({operand.displacements})"
    if operand.datatype.endswith("s"):
        types = f"DatatypeArray({operand.datatype})"
    else:
        types = f"*{operand.datatype}_object"
    search = f"find_bad_block({operand.buffer}, {counts}, {types}, {count})"
    error = f'bad_block("{operand.buffer}", {operand.buffer}, "{operand.counts}", {counts}, {types}, bad)'
    line = f"if (const size_t bad = {search}; bad < {count}) [[unlikely]] return entry.fail({error});"
    return f"if ({condition}) {{\n      {line}\n    }}" if condition else line
