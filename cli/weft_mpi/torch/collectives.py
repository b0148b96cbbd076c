# SPDX-License-Identifier: BSD-3-Clause
# Collectives: the calls of MPI that do the work of torch's collective operations and of its sends and receives. Data that only
# move are passed as bytes, whatever their type. Tensors that are not contiguous, and lists of tensors, are copied.
from __future__ import annotations

import ctypes
from typing import Callable, NamedTuple

import torch

from weft_mpi import mpi
from weft_mpi.torch.errors import OperandError
from weft_mpi.torch.reduction import BYTE, reduction


class Call(NamedTuple):
    """One call of the nonblocking form of MPI_<function>, with all arguments up to the communicator. `keep`: objects that must
    live until it is complete; `finish` is called then."""

    function: str
    arguments: tuple
    keep: tuple
    finish: Callable | None = None


def size_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def flat(tensors) -> torch.Tensor:
    """Returns the elements of all tensors in a new tensor with one dimension."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def split(buffer: torch.Tensor, tensors) -> None:
    """Copies the elements of a tensor with one dimension to all tensors."""
    for tensor, part in zip(tensors, buffer.split([tensor.numel() for tensor in tensors])):
        tensor.detach().copy_(part.view(tensor.shape))


def check_same(tensors) -> None:
    first = tensors[0]
    for tensor in tensors:
        if tensor.dtype != first.dtype or tensor.device != first.device:
            raise OperandError(
                f"tensors of one operation have different types or devices: {first.dtype} on {first.device} and "
                f"{tensor.dtype} on {tensor.device}"
            )


def check_elements(name: str, whole: torch.Tensor, part: torch.Tensor, processes: int) -> None:
    check_same((whole, part))
    if whole.numel() != part.numel() * processes:
        raise OperandError(
            f"{name}: a tensor of {whole.numel()} elements is not {processes} times one of {part.numel()} elements"
        )


def is_direct(tensor: torch.Tensor) -> bool:
    """Returns whether the memory holds the elements one after the other, and not their conjugates or negatives."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def input_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if is_direct(tensor) else tensor.detach().resolve_conj().resolve_neg().contiguous()


def output_of(tensor: torch.Tensor) -> tuple[torch.Tensor, Callable | None]:
    """Returns a contiguous tensor for the result, and what copies it to `tensor` if that is another one."""
    if is_direct(tensor):
        return tensor, None
    buffer = input_of(tensor)
    return buffer, lambda: tensor.detach().copy_(buffer)


def apart(source: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    """Returns the source, or a copy if it shares memory with the buffer, which MPI does not allow."""
    begin, other = source.data_ptr(), buffer.data_ptr()
    return source.clone() if begin < other + size_of(buffer) and other < begin + size_of(source) else source


def broadcast(tensor: torch.Tensor, root: int) -> Call:
    buffer, finish = output_of(tensor)
    return Call("Bcast_c", (buffer.data_ptr(), size_of(buffer), BYTE, root), (buffer,), finish)


def allreduce(tensor: torch.Tensor, operation, processes: int, library) -> Call:
    how = reduction(operation, tensor, processes, library)
    buffer, finish = tensor, None
    if how.wider is not None or how.terms is not None or not is_direct(tensor):
        buffer = input_of(how.before(tensor.detach()))
        finish = lambda: tensor.detach().copy_(how.after(buffer))  # noqa: E731
    elif how.divisor:
        finish = lambda: how.after(tensor.detach())  # noqa: E731
    arguments = (mpi.IN_PLACE, buffer.data_ptr(), buffer.numel(), how.datatype, how.operation)
    return Call("Allreduce_c", arguments, (buffer, *how.keep), finish)


def reduce(tensor: torch.Tensor, operation, root: int, rank: int, processes: int, library) -> Call:
    """The tensors of processes other than the root do not change."""
    how = reduction(operation, tensor, processes, library)
    source = input_of(how.before(tensor.detach()))
    keep = (source, *how.keep)
    if rank != root:
        return Call("Reduce_c", (source.data_ptr(), None, source.numel(), how.datatype, how.operation, root), keep)
    buffer = torch.empty_like(source)
    arguments = (source.data_ptr(), buffer.data_ptr(), source.numel(), how.datatype, how.operation, root)
    return Call("Reduce_c", arguments, (*keep, buffer), lambda: tensor.detach().copy_(how.after(buffer)))


def allgather(output: torch.Tensor, source: torch.Tensor, processes: int) -> Call:
    check_elements("all_gather", output, source, processes)
    buffer, finish = output_of(output)
    source = apart(input_of(source), buffer)
    bytes_ = size_of(source)
    return Call(
        "Allgather_c", (source.data_ptr(), bytes_, BYTE, buffer.data_ptr(), bytes_, BYTE), (source, buffer), finish
    )


def check_own(name: str, own: torch.Tensor, mine: torch.Tensor) -> None:
    """Checks the tensor of a list that belongs to this process against its own tensor."""
    if own.numel() != mine.numel():
        raise OperandError(
            f"{name}: the tensor of the list for this process has {own.numel()} elements, its own has {mine.numel()}"
        )


def allgather_list(outputs, source: torch.Tensor, rank: int, processes: int) -> Call:
    """The tensors of the processes may have different sizes."""
    check_same((source, *outputs))
    if len(outputs) != processes:
        raise OperandError(f"all_gather: {len(outputs)} output tensors for {processes} processes")
    check_own("all_gather", outputs[rank], source)
    buffer = torch.empty(sum(tensor.numel() for tensor in outputs), dtype=source.dtype, device=source.device)
    finish = lambda: split(buffer, outputs)  # noqa: E731
    source = input_of(source)
    if all(tensor.numel() == source.numel() for tensor in outputs):
        call = allgather(buffer, source.reshape(-1), processes)
        return Call(call.function, call.arguments, call.keep, finish)
    counts, offsets = layout([size_of(tensor) for tensor in outputs])
    arguments = (source.data_ptr(), size_of(source), BYTE, buffer.data_ptr(), counts, offsets, BYTE)
    return Call("Allgatherv_c", arguments, (source, buffer), finish)


def layout(sizes) -> tuple:
    """Returns arrays for MPI of the sizes and of the offsets of blocks one after the other."""
    array = ctypes.c_longlong * len(sizes)
    return array(*sizes), array(*(sum(sizes[:i]) for i in range(len(sizes))))


def gather(outputs, source: torch.Tensor, root: int, rank: int, processes: int) -> Call:
    """outputs: a tensor for each process at the root, else empty."""
    source = input_of(source)
    bytes_ = size_of(source)
    if rank != root:
        return Call("Gather_c", (source.data_ptr(), bytes_, BYTE, None, 0, BYTE, root), (source,))
    check_same((source, *outputs))
    if len(outputs) != processes or any(tensor.numel() != source.numel() for tensor in outputs):
        raise OperandError(f"gather: the root needs {processes} output tensors of {source.numel()} elements")
    buffer = torch.empty(processes * source.numel(), dtype=source.dtype, device=source.device)
    arguments = (source.data_ptr(), bytes_, BYTE, buffer.data_ptr(), bytes_, BYTE, root)
    return Call("Gather_c", arguments, (source, buffer), lambda: split(buffer, outputs))


def scatter(output: torch.Tensor, sources, root: int, rank: int, processes: int) -> Call:
    """sources: a tensor for each process at the root, else empty."""
    buffer, finish = output_of(output)
    bytes_ = size_of(buffer)
    if rank != root:
        return Call("Scatter_c", (None, 0, BYTE, buffer.data_ptr(), bytes_, BYTE, root), (buffer,), finish)
    check_same((output, *sources))
    if len(sources) != processes or any(tensor.numel() != output.numel() for tensor in sources):
        raise OperandError(f"scatter: the root needs {processes} input tensors of {output.numel()} elements")
    source = flat(sources)
    arguments = (source.data_ptr(), bytes_, BYTE, buffer.data_ptr(), bytes_, BYTE, root)
    return Call("Scatter_c", arguments, (source, buffer), finish)


def reduce_scatter(output: torch.Tensor, source: torch.Tensor, operation, processes: int, library) -> Call:
    check_elements("reduce_scatter", source, output, processes)
    how = reduction(operation, source, processes, library)
    source = input_of(how.before(source.detach()))
    direct = is_direct(output) and how.wider is None
    buffer = output if direct else torch.empty(output.shape, dtype=source.dtype, device=source.device)
    source = apart(source, buffer)
    arguments = (source.data_ptr(), buffer.data_ptr(), buffer.numel(), how.datatype, how.operation)
    finish = None if direct and not how.divisor else lambda: output.detach().copy_(how.after(buffer))
    return Call("Reduce_scatter_block_c", arguments, (source, buffer, *how.keep), finish)


def reduce_scatter_list(output: torch.Tensor, sources, operation, rank: int, processes: int, library) -> Call:
    """The results of the processes may have different sizes."""
    check_same((output, *sources))
    if len(sources) != processes:
        raise OperandError(f"reduce_scatter: {len(sources)} input tensors for {processes} processes")
    check_own("reduce_scatter", sources[rank], output)
    if all(tensor.numel() == output.numel() for tensor in sources):
        return reduce_scatter(output, flat(sources), operation, processes, library)
    how = reduction(operation, output, processes, library)
    source = how.before(flat(sources))
    buffer = torch.empty(output.numel(), dtype=source.dtype, device=source.device)
    counts, _ = layout([tensor.numel() for tensor in sources])
    arguments = (source.data_ptr(), buffer.data_ptr(), counts, how.datatype, how.operation)
    finish = lambda: output.detach().copy_(how.after(buffer).view(output.shape))  # noqa: E731
    return Call("Reduce_scatter_c", arguments, (source, buffer, *how.keep), finish)


def alltoall(output: torch.Tensor, source: torch.Tensor, output_sizes, input_sizes, processes: int) -> Call:
    """The sizes are numbers of rows for each process; none: all have equally many. On the host always the same call of MPI, since
    some processes may leave their sizes out; on GPUs all do so or none."""
    check_same((output, source))
    buffer, finish = output_of(output)
    source = apart(input_of(source), buffer)
    if not output_sizes and not input_sizes:
        check_rows(output, source, processes)
        if source.is_cuda:  # kernels execute it, but not the other one
            bytes_ = size_of(source) // processes
            arguments = (source.data_ptr(), bytes_, BYTE, buffer.data_ptr(), bytes_, BYTE)
            return Call("Alltoall_c", arguments, (source, buffer), finish)
        counts = layout([size_of(source) // processes] * processes) * 2
    else:
        counts = (*row_layout(source, input_sizes, processes), *row_layout(buffer, output_sizes, processes))
    arguments = (source.data_ptr(), *counts[:2], BYTE, buffer.data_ptr(), *counts[2:], BYTE)
    return Call("Alltoallv_c", arguments, (source, buffer), finish)


def check_rows(output: torch.Tensor, source: torch.Tensor, processes: int) -> None:
    for tensor in (output, source):
        if tensor.numel() and tensor.size(0) % processes:
            raise OperandError(
                f"all_to_all: Tensor's dim 0 ({tensor.size(0)}) does not divide equally across group size"
            )
    if output.numel() != source.numel():
        raise OperandError(f"all_to_all: {source.numel()} elements are sent, and {output.numel()} received")


def row_layout(tensor: torch.Tensor, sizes, processes: int) -> tuple:
    rows = tensor.size(0) if tensor.dim() else 0
    sizes = list(sizes) or [rows // processes] * processes
    if len(sizes) != processes or sum(sizes) != rows:
        raise OperandError(f"all_to_all: Split sizes {sizes} doesn't match total dim 0 size {rows}")
    row = size_of(tensor) // rows if rows else 0
    return layout([size * row for size in sizes])


def alltoall_list(outputs, sources, processes: int) -> Call:
    check_same((*outputs, *sources))
    if len(outputs) != processes or len(sources) != processes:
        raise OperandError(
            f"all_to_all: {len(outputs)} output and {len(sources)} input tensors for {processes} processes"
        )
    source = flat(sources)
    buffer = torch.empty(sum(tensor.numel() for tensor in outputs), dtype=source.dtype, device=source.device)
    output_sizes, input_sizes = ([tensor.numel() for tensor in tensors] for tensors in (outputs, sources))
    call = alltoall(buffer, source, output_sizes, input_sizes, processes)
    return Call(call.function, call.arguments, call.keep, lambda: split(buffer, outputs))


def send(tensor: torch.Tensor, destination: int, tag: int) -> Call:
    source = input_of(tensor)
    return Call("Send_c", (source.data_ptr(), size_of(source), BYTE, destination, tag), (source,))


def receive(tensor: torch.Tensor, source: int, tag: int) -> Call:
    buffer, finish = output_of(tensor)
    return Call("Recv_c", (buffer.data_ptr(), size_of(buffer), BYTE, source, tag), (buffer,), finish)
