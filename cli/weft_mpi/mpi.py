# SPDX-License-Identifier: BSD-3-Clause
# MPI through ctypes, in the binary interface of MPI 5.0: handles are pointers, whose predefined values are constants.
# ctypes releases Python's lock during each call. Needs no torch.
from __future__ import annotations

import ctypes
import os

from weft_mpi import prefix

INFO_NULL, REQUEST_NULL = 304, 384
ERRORS_RETURN = 323
ANY_SOURCE = -1
IN_PLACE = 1  # an address
STATUS_IGNORE = STREAM_NULL = None
ERR_OTHER = 16
ERR_UNSUPPORTED_OPERATION = 55
FAILURES = (16001, 16002, 16003)  # MPIX_ERR_PROC_FAILED, MPIX_ERR_PROC_FAILED_PENDING, MPIX_ERR_REVOKED of weft.h
MAX_MESSAGE = 4096


class Status(ctypes.Structure):
    _fields_ = [
        ("source", ctypes.c_int),
        ("tag", ctypes.c_int),
        ("error", ctypes.c_int),
        ("internal", ctypes.c_int * 5),
    ]


STORE_PUT = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char), ctypes.c_int
)
STORE_GET = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char), ctypes.c_int
)
# Types of parameters: h handle, p address, i int, c MPI_Count, d double, P address of a handle or number, s text.
TYPES = {
    "h": ctypes.c_void_p,
    "p": ctypes.c_void_p,
    "i": ctypes.c_int,
    "c": ctypes.c_longlong,
    "d": ctypes.c_double,
    "P": ctypes.c_void_p,
    "s": ctypes.c_char_p,
}
COLLECTIVES = {  # whose nonblocking forms have a request as well
    "Barrier": "h",
    "Bcast_c": "pchih",
    "Allreduce_c": "ppchhh",
    "Reduce_c": "ppchhih",
    "Allgather_c": "pchpchh",
    "Allgatherv_c": "pchpPPhh",
    "Gather_c": "pchpchih",
    "Scatter_c": "pchpchih",
    "Reduce_scatter_block_c": "ppchhh",
    "Reduce_scatter_c": "ppPhhh",
    "Alltoall_c": "pchpchh",
    "Alltoallv_c": "pPPhpPPhh",
}
ENQUEUED = ("Bcast_c", "Allreduce_c", "Allgather_c", "Reduce_scatter_block_c", "Alltoall_c")


def nonblocking(name: str) -> str:
    """Returns the name of the nonblocking form of a function."""
    return "I" + name[0].lower() + name[1:]


FUNCTIONS = {
    "MPI_Session_init": "hhP",
    "MPI_Session_finalize": "P",
    "MPI_Group_from_session_pset": "hsP",
    "MPI_Group_incl": "hiPP",
    "MPI_Group_rank": "hP",
    "MPI_Group_size": "hP",
    "MPI_Group_free": "P",
    "MPI_Group_translate_ranks": "hiPhP",
    "MPI_Comm_create_from_group": "hshhP",
    "MPI_Comm_group": "hP",
    "MPI_Comm_free": "P",
    "MPI_Isend_c": "pchiihP",
    "MPI_Irecv_c": "pchiihP",
    "MPI_Wait": "PP",
    "MPI_Test": "PPP",
    "MPI_Error_class": "iP",
    "MPI_Get_library_version": "pP",
    "MPI_Op_free": "P",
    "MPIX_Op_create_premul_sum": "phP",
    "MPIX_Comm_revoke": "h",
    "MPIX_Comm_set_stream": "hh",
    "MPIX_Comm_get_failed": "hP",
    "MPIX_Last_error_message": "piP",
    "MPIX_Job_name": "piP",
    "MPIX_Job_allow_exit": "d",
    "MPIX_Comm_is_revoked": "hP",
    "MPI_Info_create": "P",
    "MPI_Info_set": "hss",
    "MPI_Info_free": "P",
    "MPIX_Info_set_hex": "hsPi",
    "MPIX_Stream_create": "hP",
    "MPIX_Stream_free": "P",
    "MPIX_Stream_comm_create": "hhP",
    "MPIX_Stream_comm_redirect": "hp",
    **{"MPIX_" + name[:-2] + "_enqueue_c": COLLECTIVES[name] for name in ENQUEUED},
    **{"MPI_" + name: types for name, types in COLLECTIVES.items()},
    **{"MPI_" + nonblocking(name): types + "P" for name, types in COLLECTIVES.items()},
}


class MpiError(RuntimeError):
    """A function of MPI has failed. code: its error code; error_class: the class of that."""

    def __init__(self, code: int, error_class: int, message: str) -> None:
        super().__init__(message)
        self.code, self.error_class = code, error_class


class Library:
    """libmpi_abi.so.1: as the process has loaded it, otherwise that of this installation. Functions are attributes; they
    return error codes, which check() turns into MpiError."""

    def __init__(self) -> None:
        try:
            self.handle = ctypes.CDLL(prefix.LIBRARY, mode=os.RTLD_NOLOAD)
        except OSError:
            self.handle = ctypes.CDLL(os.path.join(prefix.find(), "lib", prefix.LIBRARY))
        for name, types in FUNCTIONS.items():
            function = getattr(self.handle, name, None)
            if function is None:
                raise RuntimeError(f"{self.version()} has no {name}: this process has loaded another MPI than Weft")
            function.argtypes = [TYPES[letter] for letter in types]
            setattr(self, name[name.index("_") + 1 :], function)
        store = self.handle.MPIX_Job_by_store
        store.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p, STORE_PUT, STORE_GET, ctypes.c_void_p]
        self.Job_by_store = store

    def version(self) -> str:
        """Returns the first line of MPI_Get_library_version."""
        text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
        self.handle.MPI_Get_library_version(text, ctypes.byref(length))
        return text.value.decode(errors="replace").splitlines()[0]

    def check(self, code: int) -> None:
        """Raises MpiError unless the code is MPI_SUCCESS. Call it in the thread of the function that returned the code."""
        if code:
            raise self.error(code)

    def error(self, code: int) -> MpiError:
        error_class = ctypes.c_int()
        self.Error_class(code, ctypes.byref(error_class))
        return MpiError(code, error_class.value, self.text(self.Last_error_message))

    def text(self, function) -> str:
        """Returns the text of a function of weft.h with the parameters (text, size, length)."""
        text = ctypes.create_string_buffer(MAX_MESSAGE)
        function(text, len(text), None)
        return text.value.decode(errors="replace")
