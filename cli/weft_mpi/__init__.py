# SPDX-License-Identifier: BSD-3-Clause
# weft is the command line of the Weft MPI library. The commands use only the public API of the library.
"""The command line of the Weft MPI library, and its parts for programs: buffer, and the packages torch and jax."""

try:
    from weft_mpi._commit import COMMIT as __commit__
    from weft_mpi._version import VERSION as __version__
except ImportError:  # run from the source tree, not from a prefix
    __version__, __commit__ = "unknown (not installed)", "unknown"


def __getattr__(name):
    """weft_mpi.buffer(x): a buffer for mpi4py; stream(comm, stream), stream_comm(comm, stream): MPI calls in the order of a
    GPU stream. Loaded at their first use."""
    if name == "buffer":
        from weft_mpi import arrays

        globals()[name] = arrays.buffer
        return arrays.buffer
    if name in ("stream", "stream_comm"):
        from weft_mpi import order

        return getattr(order, name)
    raise AttributeError(f"module 'weft_mpi' has no attribute '{name}'")
