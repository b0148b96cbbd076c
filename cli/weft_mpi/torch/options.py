# SPDX-License-Identifier: BSD-3-Clause
# Options: the arguments of a process group's methods. torch passes the options of an operation as an object. Programs that call a
# process group directly may leave it out, or pass its fields one by one, as to the process groups of torch: root, operation and
# time limit, in any order. torch.compile leaves the methods alone, and tensors without memory are found here.
from __future__ import annotations

import functools
from datetime import timedelta
from sys import modules

import torch
from torch import Tensor
from torch.distributed import ReduceOp

from weft_mpi.torch.errors import OperandError

WORDS = {"op": "reduceOp", "root": "rootRank", "timeout": "timeout"}
OPERATIONS = (ReduceOp, type(ReduceOp.SUM))

# Returns None unless this thread runs a compiled function.
compiler_of_frames = getattr(torch._C._dynamo.eval_frame, "get_eval_frame_callback", lambda: True)


def outside_graphs(function):
    """Decorates a function that torch.compile must neither compile nor look into. Its compiler, which takes seconds to import, is
    not loaded for this."""
    disabled = torch._disable_dynamo(function)

    @functools.wraps(function)
    def call(*arguments, **words):
        if "torch._dynamo" in modules and compiler_of_frames() is not None:
            return disabled(*arguments, **words)
        return function(*arguments, **words)

    call._torchdynamo_disable = True
    return call


def in_memory(argument):
    """Returns a tensor, or the tensors of a list of any depth, with their memory. Results of functional collectives are awaited.
    Raises TypeError for another tensor that consists of others, or describes one, such as a DTensor."""
    kind = type(argument)
    if kind is list and not [each for each in argument if type(each) is not Tensor or each.is_meta]:
        return argument
    if not isinstance(argument, Tensor):
        return [in_memory(each) for each in argument] if isinstance(argument, (list, tuple)) else argument
    if kind.__torch_dispatch__ is Tensor.__torch_dispatch__ and not argument.is_meta:
        return argument
    if hasattr(argument, "trigger_wait"):  # AsyncCollectiveTensor of torch.distributed._functional_collectives
        return in_memory(argument.trigger_wait())
    if argument.numel() and argument.data_ptr() == 0:
        raise TypeError(
            f"weft: a {kind.__name__} on {argument.device} has no memory of its own: pass tensors that have, such as those "
            "that it consists of"
        )
    return argument


def with_tensors(tensors: int):
    """Decorates a method of a process group whose first `tensors` arguments are tensors, or lists of them."""

    def decorate(method):
        @outside_graphs
        @functools.wraps(method)
        def call(self, *arguments, **words):
            operands = [in_memory(each) for each in arguments[:tensors]]
            return method(self, *operands, *arguments[tensors:], **words)

        return call

    return decorate


def with_options(kind: type, tensors: int):
    """Decorates a method of a process group whose last argument is an object of options `kind`, behind `tensors` arguments."""

    def decorate(method):
        @outside_graphs
        @functools.wraps(method)
        def call(self, *arguments, opts=None, **words):
            operands, given = [in_memory(each) for each in arguments[:tensors]], arguments[tensors:]
            if len(given) == 1 and isinstance(given[0], kind):
                return method(self, *operands, given[0])
            return method(self, *operands, opts if opts is not None else assemble(kind, given, words))

        return call

    return decorate


def assemble(kind: type, given, words):
    """Returns options with the given fields, by their types or names; a time limit of None is that of the group."""
    options = kind()
    for value in given:
        name = "op" if isinstance(value, OPERATIONS) else "timeout" if isinstance(value, timedelta) else "root"
        words = {**words, name: value} if value is not None else words
    for word, value in words.items():
        if word not in WORDS:
            raise TypeError(f"{kind.__name__} has no field for the argument {word}")
        if value is not None:
            setattr(options, WORDS[word], value)
    return options


def one(tensors) -> torch.Tensor:
    """Returns the only tensor, or list of tensors, of a list that had one for each GPU of a process."""
    if isinstance(tensors, torch.Tensor):
        return tensors
    if len(tensors) != 1:
        raise OperandError(f"weft takes one tensor for each process, not {len(tensors)}")
    return tensors[0]


def row(lists) -> list[torch.Tensor]:
    """Returns the only list of a list of lists, which may be left out or empty."""
    return lists if not lists or isinstance(lists[0], torch.Tensor) else one(lists)
