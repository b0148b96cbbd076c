# SPDX-License-Identifier: BSD-3-Clause
# weft: the command line of the Weft MPI library. Talks to the library through its public API only.
"""The command line of the Weft MPI library."""

try:
    from weft._version import VERSION as __version__
except ImportError:  # run from the source tree, not from a prefix
    __version__ = "unknown (not installed)"
