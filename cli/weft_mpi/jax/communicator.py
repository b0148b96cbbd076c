# SPDX-License-Identifier: BSD-3-Clause
# Communicators of compiled functions: each is private to weft_mpi.jax, so that its messages, which XLA's threads send, never
# meet messages of the program. Needs no jax.
from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import sys
import threading

from weft_mpi import prefix
from weft_mpi import processes as job

MODULE = "libweft_jax.so"


class Communicator:
    """Processes whose compiled functions communicate. rank: of this process; size: number of processes. kernels: whether
    collectives on GPU memory are kernels in XLA's stream, otherwise the host executes them; None: not known yet."""

    def __init__(self, index: int, handle: ctypes.c_void_p, rank: int, size: int) -> None:
        self.index, self.handle, self.rank, self.size = index, handle, rank, size
        self.kernels: bool | None = None

    def __repr__(self) -> str:
        return f"<communicator {self.index}: rank {self.rank} of {self.size}>"


class Registry:
    """The communicators of this process, and the module with the handlers of XLA."""

    def __init__(self) -> None:
        self.job = job.current()
        if not self.job.running:
            self.job.open()
        self.module = ctypes.CDLL(os.path.join(prefix.find(), "lib", MODULE))
        self.module.weft_jax_add_communicator.argtypes = [ctypes.c_void_p]
        self.module.weft_jax_stream_waits.restype = ctypes.c_longlong
        self.module.weft_jax_problem.restype = ctypes.c_char_p
        self.module.weft_jax_end_calls.argtypes = [ctypes.c_char_p]
        self.module.weft_jax_reduces.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong]
        self.lock = threading.Lock()
        self.by_ranks: dict[tuple[int, ...], Communicator] = {}
        self.by_object: dict[int, tuple[object, Communicator]] = {}
        self.world = self.of_ranks(tuple(range(self.job.size)))
        atexit.register(self.close)

    def of_ranks(self, ranks: tuple[int, ...]) -> Communicator:
        """Returns the communicator of the processes with these ranks in the job, in this order. The first call with these
        ranks is collective over them."""
        if ranks not in self.by_ranks:
            number = hashlib.sha256(repr(ranks).encode()).hexdigest()[:24]
            handle = self.job.create(list(ranks), f"weft-jax-{number}")
            index = self.module.weft_jax_add_communicator(handle)
            if index < 0:
                raise RuntimeError("weft_mpi.jax: too many communicators in this process: use fewer sets of processes")
            self.by_ranks[ranks] = Communicator(index, handle, ranks.index(self.job.rank), len(ranks))
        return self.by_ranks[ranks]

    def of_mpi4py(self, comm) -> Communicator:
        """Returns the communicator of the processes of one of mpi4py. mpi4py may use another binary interface of Weft, in
        which handles have other values: only ranks are taken from it."""
        known = self.by_object.get(id(comm))
        if known is not None:
            return known[1]
        if comm.Is_inter():
            raise ValueError("weft_mpi.jax: comm is an intercommunicator: pass an intracommunicator")
        mpi = __import__(type(comm).__module__.partition(".")[0]).MPI
        group, world = comm.Get_group(), mpi.COMM_WORLD.Get_group()
        ranks = tuple(mpi.Group.Translate_ranks(group, list(range(group.Get_size())), world))
        group.Free()
        world.Free()
        if mpi.UNDEFINED in ranks:
            raise ValueError("weft_mpi.jax: comm has processes that are not in MPI.COMM_WORLD: pass one without them")
        if ranks[comm.Get_rank()] != self.job.rank:
            raise RuntimeError(
                "weft_mpi.jax: mpi4py runs on another MPI than Weft: install it with Weft by pip, or start by mpiexec"
            )
        found = self.of_ranks(ranks)
        self.by_object[id(comm)] = (comm, found)  # keeps the object, and so its identity
        return found

    def open_kernels(self, communicator: Communicator, gpu: int) -> None:
        """Lets kernels on GPU number `gpu` execute collectives, if all processes have a GPU (-1: none) that can. Collective."""
        with self.lock:
            if communicator.kernels is not None:
                return
            found = self.module.weft_jax_open_kernels(communicator.index, gpu)
            if found < 0:
                problem = self.module.weft_jax_problem().decode(errors="replace")
                raise RuntimeError(f"weft_mpi.jax: the first call on a communicator has failed: {problem}")
            communicator.kernels = found > 0

    def close(self) -> None:
        """Waits for compiled functions that still run, and frees the communicators, before the job leaves MPI at exit. A
        process that ends with an exception keeps them, and so counts as failed for the others, which may wait for it."""
        if hasattr(sys, "last_type") or self.job.inherited:
            return
        try:
            import jax

            jax.effects_barrier()
            for settle in at_close:
                settle()
        finally:
            self.module.weft_jax_forget_communicators()
            for communicator in self.by_ranks.values():
                self.job.free(communicator.handle)
            self.by_ranks.clear()
            self.by_object.clear()


at_close: list = []  # called before the communicators are freed
_lock = threading.Lock()
_registry: Registry | None = None


def registry() -> Registry:
    """Returns the registry of this process. The first call is collective over all processes of the job."""
    global _registry
    with _lock:
        if _registry is None:
            _registry = Registry()
        return _registry


def end_calls(error: str) -> None:
    """Ends the calls of this process, and those of other processes with it, since a compiled function has failed."""
    if _registry is not None:
        _registry.module.weft_jax_end_calls(error.encode())


def resolve(comm) -> Communicator:
    """Returns the communicator for an argument: None (all processes), a Communicator, or an intracommunicator of mpi4py."""
    if comm is None:
        return registry().world
    return comm if isinstance(comm, Communicator) else registry().of_mpi4py(comm)
