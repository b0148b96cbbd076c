# SPDX-License-Identifier: BSD-3-Clause
# Reduction: torch's operations and element types as those of MPI. Sums that torch scales (AVG, PREMUL_SUM), and types that MPI
# does not have, are computed by a step before and a step after the call.
from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch.distributed import ReduceOp

SUM, MIN, MAX, PROD, BAND, BOR, BXOR, LAND, LOR, LXOR = 33, 34, 35, 36, 40, 41, 42, 48, 49, 50
BYTE, C_BOOL = 583, 568
TYPES = {
    torch.uint8: 577,  # MPI_UINT8_T
    torch.int8: 576,
    torch.int16: 584,
    torch.int32: 592,
    torch.int64: 600,
    torch.uint16: 585,
    torch.uint32: 593,
    torch.uint64: 601,
    torch.float32: 528,
    torch.float64: 532,
    torch.float16: 0x24A,  # MPIX_C_FLOAT16 of weft.h
    torch.bfloat16: 0x24B,  # MPIX_BFLOAT16
    torch.complex64: 530,
    torch.complex128: 534,
    torch.bool: C_BOOL,
}
WIDER = {  # types that are reduced in another one
    getattr(torch, name): torch.float32
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
    if hasattr(torch, name)
}
WIDER[torch.complex32] = torch.complex64
OPERATIONS = {
    ReduceOp.SUM: SUM,
    ReduceOp.AVG: SUM,
    ReduceOp.PREMUL_SUM: SUM,
    ReduceOp.PRODUCT: PROD,
    ReduceOp.MIN: MIN,
    ReduceOp.MAX: MAX,
    ReduceOp.BAND: BAND,
    ReduceOp.BOR: BOR,
    ReduceOp.BXOR: BXOR,
}
LOGICAL = {SUM: LOR, MAX: LOR, BOR: LOR, PROD: LAND, MIN: LAND, BAND: LAND, BXOR: LXOR}


class Reduction(NamedTuple):
    """How one reduction is computed. wider: the type in which the elements are sent, or None for their own."""

    operation: int
    datatype: int
    wider: torch.dtype | None
    factor: float | torch.Tensor | None
    divisor: int

    @property
    def copies(self) -> bool:
        """Whether before() returns a new tensor."""
        return self.wider is not None or self.factor is not None

    def before(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the elements to reduce."""
        if self.wider is not None:
            tensor = tensor.to(self.wider)
        if self.factor is not None:
            factor = self.factor
            tensor = tensor * (factor.reshape(()).to(tensor) if isinstance(factor, torch.Tensor) else factor)
        assert TYPES[tensor.dtype] == self.datatype, tensor.dtype
        return tensor

    def after(self, tensor: torch.Tensor) -> None:
        """Finishes the reduced elements in place."""
        if self.divisor == 1:
            return
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.div_(self.divisor)
        else:
            tensor.div_(self.divisor, rounding_mode="trunc")


@functools.cache
def plain(kind, dtype: torch.dtype, size: int) -> Reduction:
    """Returns the reduction by an operation without a factor."""
    code = OPERATIONS.get(kind)
    wider = WIDER.get(dtype)
    if kind == ReduceOp.AVG and dtype is torch.float16:
        wider = torch.float32  # their sum may exceed the largest number
    datatype = TYPES.get(wider or dtype)
    if code is None or datatype is None:
        raise ValueError(f"weft cannot reduce {dtype} by {kind}")
    if dtype is torch.bool:
        if kind in (ReduceOp.AVG, ReduceOp.PREMUL_SUM):
            raise ValueError(f"weft cannot reduce {dtype} by {kind}: convert the tensor to a number")
        code = LOGICAL[code]
    if kind == ReduceOp.PREMUL_SUM and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"weft cannot reduce {dtype} by {kind}: convert the tensor to a floating-point type")
    return Reduction(code, datatype, wider, None, size if kind == ReduceOp.AVG else 1)


def reduction(operation: ReduceOp, dtype: torch.dtype, size: int) -> Reduction:
    """Returns the reduction of elements of this type over `size` processes. Raises ValueError if there is none."""
    kind = operation.op
    how = plain(kind, dtype, size)
    return how._replace(factor=operation.__getstate__()[1]) if kind == ReduceOp.PREMUL_SUM else how
