# SPDX-License-Identifier: BSD-3-Clause
# weft is the command line of the Weft MPI library. The commands use only the public API of the library.
"""The command line of the Weft MPI library, and its parts for programs: buffer, and the packages torch and jax."""

from weft_mpi.arrays import buffer as buffer

try:
    from weft_mpi._version import VERSION as __version__
except ImportError:  # run from the source tree, not from a prefix
    __version__ = "unknown (not installed)"
