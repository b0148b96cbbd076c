# SPDX-License-Identifier: BSD-3-Clause
# Queries of the library of this prefix, loaded into this process. None initializes MPI.
from __future__ import annotations

import ctypes
import os

from weft_mpi import prefix
from weft_mpi.output import Refusal

MAX_LIBRARY_VERSION = 8192  # MPI_MAX_LIBRARY_VERSION_STRING of the standard ABI
FIELDS = ("variable", "value", "default", "origin", "level", "range", "help", "change_when")


def path() -> str:
    return os.path.join(prefix.find(), "lib", prefix.LIBRARY)


def load() -> ctypes.CDLL:
    """Returns the loaded library. Raises Refusal on failure."""
    try:
        return ctypes.CDLL(path())
    except OSError as error:
        raise Refusal(f"the library does not load ({error}): reinstall Weft for this machine") from None


def settings(library: ctypes.CDLL | None = None) -> list[dict[str, str]]:
    """Returns one dictionary per setting. Raises Refusal if a setting has a bad value."""
    lines = text_of(library or load(), "MPIX_Settings").splitlines()
    return [dict(zip(FIELDS, line.split("\t"))) for line in lines]


def text_of(library: ctypes.CDLL, call: str) -> str:
    """Returns the text of a function of weft.h with parameters (text, size, length). Raises Refusal on error."""
    length = ctypes.c_int()
    function = getattr(library, call)
    function(None, 0, ctypes.byref(length))
    text = ctypes.create_string_buffer(length.value + 1)
    status = function(text, length.value + 1, None)
    if status != 0:
        raise Refusal(text.value.decode())
    return text.value.decode()


def paths(library: ctypes.CDLL) -> list[tuple[str, ...]]:
    """Returns (part, text) pairs: the available transports, or after MPI_Init the transports used by the job."""
    length = ctypes.c_int()
    library.MPIX_Describe_paths(None, 0, ctypes.byref(length))
    text = ctypes.create_string_buffer(length.value + 200)
    library.MPIX_Describe_paths(text, len(text), None)
    return [tuple(line.split("\t", 1)) for line in text.value.decode(errors="replace").splitlines() if "\t" in line]


def version_text(library: ctypes.CDLL) -> str:
    """Returns the first line of MPI_Get_library_version, which is legal before MPI_Init."""
    text = ctypes.create_string_buffer(MAX_LIBRARY_VERSION)
    length = ctypes.c_int()
    library.MPI_Get_library_version(text, ctypes.byref(length))
    return text.value.decode().splitlines()[0]


def standard(library: ctypes.CDLL) -> str:
    """Returns the version of MPI_Get_version, e.g. 5.0."""
    version, subversion = ctypes.c_int(), ctypes.c_int()
    library.MPI_Get_version(ctypes.byref(version), ctypes.byref(subversion))
    return f"{version.value}.{subversion.value}"


def abi(library: ctypes.CDLL) -> str | None:
    """Returns the version of MPI_Abi_get_version, e.g. 1.0; None if the library lacks the function."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        library.MPI_Abi_get_version(ctypes.byref(major), ctypes.byref(minor))
    except AttributeError:
        return None
    return f"{major.value}.{minor.value}"
