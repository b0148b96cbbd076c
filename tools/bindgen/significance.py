# SPDX-License-Identifier: BSD-3-Clause
"""Which arguments of a collective are significant in this process (MPI 5.0 chapter 6), and of MPI_Get_accumulate
with MPI_NO_OP (section 12.3.4).

Other arguments are neither checked nor passed on: counts become 0, arrays empty, datatypes MPI_BYTE."""

import re

SEND = {"sendcount", "sendcounts", "sdispls", "sendtype", "sendtypes"}
RECV = {"recvcount", "recvcounts", "rdispls", "recvtype", "recvtypes"}


def family(function):
    """Base name of a function: Gather for MPI_Gather, MPI_Igather and MPI_Gather_init."""
    name = re.sub(r"_init$", "", function.name)
    nonblocking = re.match(r"I([a-z]\w*)$", name)
    if nonblocking:
        name = nonblocking.group(1).capitalize()
    return name


def _sides(name):
    send, recv = set(SEND), set(RECV)
    (send if name == "Scatterv" else recv).add("displs")
    return send, recv


def conditions(function):
    """Returns {parameter: bool variable that tells if it is significant}, [(variable, C++ expression)]."""
    name = family(function)
    send, recv = _sides(name)
    given = {p.name for p in function.parameters}
    table, defined = {}, []

    def rule(variable, expression, names):
        defined.append((variable, expression))
        table.update({n: variable for n in names & given})

    if name in ("Gather", "Gatherv"):
        rule("send_significant", "has_nonroot_arguments(*comm_object, root) && sendbuf != MPI_IN_PLACE", send)
        rule("recv_significant", "has_root_arguments(*comm_object, root)", recv)
    elif name in ("Scatter", "Scatterv"):
        rule("send_significant", "has_root_arguments(*comm_object, root)", send)
        rule("recv_significant", "has_nonroot_arguments(*comm_object, root) && recvbuf != MPI_IN_PLACE", recv)
    elif name in ("Allgather", "Allgatherv", "Alltoall", "Alltoallv", "Alltoallw"):
        rule("send_significant", "sendbuf != MPI_IN_PLACE", send)
    elif name in ("Bcast", "Reduce"):
        rule("participating", "participates(*comm_object, root)", {"count", "datatype", "op"})
    elif name in ("Get_accumulate", "Rget_accumulate"):
        rule("origin_significant", "op != MPI_NO_OP", {"origin_count", "origin_datatype"})
    elif function.name == "Intercomm_create":
        rule("is_local_leader", "comm_object->rank() == local_leader", {"peer_comm"})
    elif function.name in ("Comm_spawn", "Comm_spawn_multiple", "Comm_accept", "Comm_connect"):
        rule(
            "is_root",
            "comm_object->rank() == root",
            given - {"root", "comm", "newcomm", "intercomm", "array_of_errcodes"},
        )
    return table, defined


def array_length(function, parameter):
    """C++ expression for the length of an array argument; None if unknown."""
    length = parameter.length
    if isinstance(length, list):
        return length[0]
    if length != "*":
        return length
    if parameter.name == "array_of_indices":
        return "incount"
    name = family(function)
    if name.startswith("Reduce_scatter"):
        return "static_cast<size_t>(comm_object->size())"
    if name in ("Gatherv", "Scatterv", "Allgatherv", "Alltoallv", "Alltoallw"):
        return "static_cast<size_t>(comm_object->remote_size())"
    if name.startswith("Neighbor_"):
        side = "outdegree" if parameter.name in SEND else "indegree"
        return f"{side}(*comm_object)"
    return None
