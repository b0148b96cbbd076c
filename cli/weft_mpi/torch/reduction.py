# SPDX-License-Identifier: BSD-3-Clause
# Reduction: torch's operations and element types as those of MPI. Types that MPI does not have, and the mean of 8-bit types,
# are reduced in another type, to which the tensor is converted before the call.
from __future__ import annotations

import ctypes
import functools
from typing import NamedTuple

import torch
from torch.distributed import ReduceOp

from weft_mpi.torch.errors import OperandError

SUM, MIN, MAX, PROD, BAND, BOR, BXOR, LAND, LOR, LXOR = 33, 34, 35, 36, 40, 41, 42, 48, 49, 50
AVG = 62  # MPIX_AVG of weft.h
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
    torch.complex32: 0x2D3,  # MPI_COMPLEX4
    torch.complex64: 530,
    torch.complex128: 534,
    torch.bool: C_BOOL,
}
FP8 = {"float8_e4m3fn": 0x242, "float8_e5m2": 0x246}  # MPIX_FLOAT8_E4M3, MPIX_FLOAT8_E5M2
TYPES.update({getattr(torch, name): code for name, code in FP8.items() if hasattr(torch, name)})
WIDER = {  # types that MPI does not have
    getattr(torch, name): torch.float32 for name in ("float8_e4m3fnuz", "float8_e5m2fnuz") if hasattr(torch, name)
}
SCALED_BY_TORCH = {torch.float32, torch.float64, torch.float16, torch.bfloat16}
OPERATIONS = {
    ReduceOp.SUM: SUM,
    ReduceOp.AVG: AVG,
    ReduceOp.PREMUL_SUM: SUM,
    ReduceOp.PRODUCT: PROD,
    ReduceOp.MIN: MIN,
    ReduceOp.MAX: MAX,
    ReduceOp.BAND: BAND,
    ReduceOp.BOR: BOR,
    ReduceOp.BXOR: BXOR,
}
LOGICAL = {SUM: LOR, MAX: LOR, BOR: LOR, PROD: LAND, MIN: LAND, BAND: LAND, BXOR: LXOR}


UNSCALED: dict[tuple, Reduction] = {}  # found before, by operation and type


class PremulSum:
    """An operation of MPIX_Op_create_premul_sum, an argument of calls through ctypes. factor: a tensor of one element."""

    def __init__(self, library, factor: torch.Tensor, datatype: int) -> None:
        self.library, self._as_parameter_ = library, ctypes.c_void_p()
        library.check(library.Op_create_premul_sum(factor.data_ptr(), datatype, ctypes.byref(self._as_parameter_)))

    def __del__(self) -> None:
        if self._as_parameter_.value:
            self.library.Op_free(ctypes.byref(self._as_parameter_))


class Reduction(NamedTuple):
    """How one reduction is computed. operation: a handle of MPI; wider: the type in which the elements are sent, or None for
    their own; keep: tensors that must live until the call is complete. terms: computes a new tensor of what is reduced; divisor:
    what the result is divided by, if not 0."""

    operation: object
    datatype: int
    wider: torch.dtype | None
    keep: tuple = ()
    terms: object = None
    divisor: int = 0

    def before(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the elements to reduce."""
        if self.wider is not None:
            tensor = tensor.to(self.wider)
        if self.terms is not None:
            tensor = self.terms(tensor)
        assert TYPES[tensor.dtype] == self.datatype, tensor.dtype
        return tensor

    def after(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the result, in the same tensor, of the elements that the operation has computed."""
        return tensor.div_(self.divisor) if self.divisor else tensor


@functools.cache
def plain(kind, dtype: torch.dtype) -> Reduction:
    """Returns the reduction by an operation without a factor."""
    code = OPERATIONS.get(kind)
    wider = WIDER.get(dtype)
    if kind == ReduceOp.AVG and dtype.is_floating_point and dtype.itemsize == 1:
        wider = torch.float32  # few bits would be left of terms that are divided
    datatype = TYPES.get(wider or dtype)
    if code is None or datatype is None:
        raise OperandError(f"weft cannot reduce {dtype} by {kind}")
    if dtype is torch.bool:
        if kind in (ReduceOp.AVG, ReduceOp.PREMUL_SUM):
            raise OperandError(f"weft cannot reduce {dtype} by {kind}: convert the tensor to a number")
        code = LOGICAL[code]
    if kind == ReduceOp.PREMUL_SUM and not (dtype.is_floating_point or dtype.is_complex):
        raise OperandError(f"weft cannot reduce {dtype} by {kind}: convert the tensor to a floating-point type")
    return Reduction(code, datatype, wider)


def scaled(how: Reduction, kind, factor, dtype: torch.dtype, processes: int) -> Reduction:
    """Returns the reduction as a sum, for which kernels exist, and a step before or after it by torch. A mean of half precision
    divides before, since the sum may be no number of the type."""
    if kind == ReduceOp.AVG and dtype is not torch.float16:
        return how._replace(operation=SUM, divisor=processes)
    return how._replace(
        operation=SUM, terms=lambda tensor: tensor.div(processes) if factor is None else tensor.mul(factor)
    )


def reduction(operation: ReduceOp, tensor: torch.Tensor, processes: int, library) -> Reduction:
    """Returns the reduction of elements of the type of a tensor. Raises OperandError if there is none."""
    dtype, kind = tensor.dtype, operation.op
    how = UNSCALED.get((kind, dtype))
    if how is not None:
        return how
    how = plain(kind, dtype)
    if kind not in (ReduceOp.AVG, ReduceOp.PREMUL_SUM):
        UNSCALED[kind, dtype] = how
        return how
    if kind != ReduceOp.PREMUL_SUM:
        if kind == ReduceOp.AVG and tensor.is_cuda and dtype in SCALED_BY_TORCH:
            return scaled(how, kind, None, dtype, processes)
        return how
    factor = operation.__getstate__()[1]
    if tensor.is_cuda and dtype in SCALED_BY_TORCH:
        if isinstance(factor, torch.Tensor):
            factor = factor.reshape(()).to(dtype)
        return scaled(how, kind, factor, dtype, processes)
    if not isinstance(factor, torch.Tensor):
        factor = torch.tensor(factor)
    factor = factor.reshape(()).to(how.wider or dtype).contiguous()
    return how._replace(operation=PremulSum(library, factor, how.datatype), keep=(factor,))
