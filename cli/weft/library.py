# SPDX-License-Identifier: BSD-3-Clause
# The library of this prefix, asked in this process; nothing here starts MPI.
import ctypes
import os

from weft import prefix
from weft.output import Refusal

MAX_LIBRARY_VERSION = 8192  # MPI_MAX_LIBRARY_VERSION_STRING of the standard ABI
COMM_WORLD = 257  # MPI_COMM_WORLD of the standard ABI
FIELDS = ("variable", "value", "default", "origin", "range", "help")


def path():
    return os.path.join(prefix.find(), "lib", prefix.LIBRARY)


def load():
    """The library. Refusal: it cannot be loaded."""
    try:
        return ctypes.CDLL(path())
    except OSError as error:
        raise Refusal("the library does not load (%s): install Weft again, for this machine" % error) from None


def settings(library=None):
    """Every setting, one dictionary each. Refusal: the environment or a file holds a bad one."""
    lines = text_of(library or load(), "MPIX_Settings").splitlines()
    return [dict(zip(FIELDS, line.split("\t"))) for line in lines]


def text_of(library, call):
    """What a call of weft.h hands out that takes (text, size, length). Refusal: its message."""
    length = ctypes.c_int()
    function = getattr(library, call)
    function(None, 0, ctypes.byref(length))
    text = ctypes.create_string_buffer(length.value + 1)
    status = function(text, length.value + 1, None)
    if status != 0:
        raise Refusal(text.value.decode())
    return text.value.decode()


def paths(library):
    """What carries messages, as (part, text): what could be used here, or, while MPI runs, what the job uses."""
    length = ctypes.c_int()
    library.MPIX_Describe_paths(None, 0, ctypes.byref(length))
    text = ctypes.create_string_buffer(length.value + 200)
    library.MPIX_Describe_paths(text, len(text), None)
    return [tuple(line.split("\t", 1)) for line in text.value.decode(errors="replace").splitlines() if "\t" in line]


def job_paths(library):
    """The same of the job that a launcher has started this process in; None on other ranks than 0."""
    rank = ctypes.c_int()
    library.MPI_Init(None, None)
    library.MPI_Comm_rank(ctypes.c_void_p(COMM_WORLD), ctypes.byref(rank))
    found = paths(library)
    library.MPI_Finalize()
    return found if rank.value == 0 else None


def version_text(library):
    """What MPI_Get_library_version answers (legal before MPI_Init)."""
    text = ctypes.create_string_buffer(MAX_LIBRARY_VERSION)
    length = ctypes.c_int()
    library.MPI_Get_library_version(text, ctypes.byref(length))
    return text.value.decode().splitlines()[0]


def standard(library):
    """What MPI_Get_version answers, e.g. 5.0."""
    version, subversion = ctypes.c_int(), ctypes.c_int()
    library.MPI_Get_version(ctypes.byref(version), ctypes.byref(subversion))
    return "%d.%d" % (version.value, subversion.value)


def abi(library):
    """What MPI_Abi_get_version answers, e.g. 1.0; None where the library has no such call."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    try:
        library.MPI_Abi_get_version(ctypes.byref(major), ctypes.byref(minor))
    except AttributeError:
        return None
    return "%d.%d" % (major.value, minor.value)
