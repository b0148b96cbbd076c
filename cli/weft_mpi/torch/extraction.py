# SPDX-License-Identifier: BSD-3-Clause
# Extraction: the tensors in the result of a future. torch looks for them when the future of an operation on a GPU completes, and
# DistributedDataParallel once more for each bucket. It pickles the result with a class of torch._jit_internal, whose place
# Extractor takes.
from __future__ import annotations

from torch import Tensor, _jit_internal

general = getattr(_jit_internal, "_TensorExtractor", None)


class Extractor:
    """Finds the tensors of a list of tensors, as works have; leaves every other value to torch."""

    __slots__ = ("arguments", "words", "tensors")

    def __init__(self, *arguments, tensors: list, **words) -> None:
        self.arguments, self.tensors, self.words = arguments, tensors, words

    def dump(self, value) -> None:
        if type(value) is list:
            for each in value:
                if not isinstance(each, Tensor):
                    break
            else:
                self.tensors.extend(value)
                return
        general(*self.arguments, tensors=self.tensors, **self.words).dump(value)


def install() -> None:
    """May be called again. Does nothing in a torch that has no such class."""
    if general is not None:
        _jit_internal._TensorExtractor = Extractor
