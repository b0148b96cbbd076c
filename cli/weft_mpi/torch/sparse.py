# SPDX-License-Identifier: BSD-3-Clause
# Sparse: the sum of sparse tensors (COO), as of the gradients of an embedding: all processes gather the elements of all.
from __future__ import annotations

import torch
from torch.distributed import ReduceOp

from weft_mpi.torch import collectives
from weft_mpi.torch.errors import OperandError
from weft_mpi.torch.work import Work, synchronize


def allreduce(group, tensor: torch.Tensor, opts) -> Work:
    """The call waits for the other processes, also if the caller does not."""
    if opts.reduceOp.op != ReduceOp.SUM:
        raise OperandError(f"weft cannot reduce sparse tensors by {opts.reduceOp.op}, only by SUM")
    mine = tensor.detach().coalesce()
    indices, values = mine.indices(), mine.values()
    counts = torch.zeros(group.processes, dtype=torch.int64, device=tensor.device)
    own = torch.tensor([values.size(0)], dtype=torch.int64, device=tensor.device)
    wait(group, collectives.allgather(counts, own, group.processes), [counts])
    all_indices = [indices.new_empty((indices.size(0), count)) for count in counts.tolist()]
    all_values = [values.new_empty((count, *values.shape[1:])) for count in counts.tolist()]
    wait(group, collectives.allgather_list(all_indices, indices, group.number, group.processes), all_indices)
    wait(group, collectives.allgather_list(all_values, values, group.number, group.processes), all_values)
    total = torch.sparse_coo_tensor(
        torch.cat(all_indices, 1), torch.cat(all_values), tensor.shape, device=tensor.device
    )
    with torch.no_grad():
        tensor.copy_(total.coalesce())
    synchronize([tensor])
    return Work(group, "all_reduce", result=[tensor])


def wait(group, call, outputs) -> None:
    group.run("all_reduce of a sparse tensor", [call], result=outputs).wait()
