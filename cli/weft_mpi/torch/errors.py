# SPDX-License-Identifier: BSD-3-Clause
# Errors: the exceptions of process groups. Programs catch those of gloo, RuntimeError, or of NCCL, whose types differ.
from __future__ import annotations

from torch import distributed

# Of torch's stores, which a failed exchange of addresses passes on.
STORE_ERRORS = (distributed.DistStoreError, distributed.DistNetworkError)


class OperandError(ValueError, RuntimeError):
    """Tensors or sizes that do not fit the operation. NCCL raises ValueError for most, gloo RuntimeError."""


def of_mpi(name: str, error) -> Exception:
    """Returns torch's exception for an MpiError in the operation `name`: that of the store if the store has failed."""
    cause = error.__cause__
    kind = type(cause) if isinstance(cause, STORE_ERRORS) else distributed.DistBackendError
    failure = kind(f"weft: {name}: {error}")
    failure.__cause__ = cause
    return failure
