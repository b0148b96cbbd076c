# SPDX-License-Identifier: BSD-3-Clause
# Options: torch passes the options of an operation as an object. Programs that call a process group directly may leave it out, or
# pass its fields one by one, as to the process groups of torch: root, operation and time limit, in any order.
from __future__ import annotations

import functools
from datetime import timedelta

import torch
from torch.distributed import ReduceOp

WORDS = {"op": "reduceOp", "root": "rootRank", "timeout": "timeout"}
OPERATIONS = (ReduceOp, type(ReduceOp.SUM))


def with_options(kind: type, tensors: int):
    """Decorates a method whose last argument is an object of options `kind`, behind `tensors` arguments of other types."""

    def decorate(method):
        @functools.wraps(method)
        def call(self, *arguments, opts=None, **words):
            given = arguments[tensors:]
            if len(given) == 1 and isinstance(given[0], kind):
                return method(self, *arguments)
            return method(self, *arguments[:tensors], opts if opts is not None else assemble(kind, given, words))

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
        raise ValueError(f"weft takes one tensor for each process, not {len(tensors)}")
    return tensors[0]


def row(lists) -> list[torch.Tensor]:
    """Returns the only list of a list of lists, which may be left out or empty."""
    return lists if not lists or isinstance(lists[0], torch.Tensor) else one(lists)
