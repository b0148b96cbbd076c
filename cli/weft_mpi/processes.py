# SPDX-License-Identifier: BSD-3-Clause
# Job: the processes of Weft that this process can reach, and communicators of some of them. A process belongs to one job
# until it ends; torch may initialize its process groups several times meanwhile, each time with another store.
# Needs no torch: a store is an object with set(key, value), get(key), which waits for the key, add(key, number), which returns
# the sum, and check(keys).
from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import uuid

from weft_mpi import mpi

STATE_KEY, NAME_KEY, PLACE_KEY, VALUE_KEY = "weft/state", "weft/name", "weft/place", "weft/value"
NEW = b"new"
SENT_TIMEOUT = 5.0  # seconds that a process waits at exit until what it has sent has left it


def root_of(store):
    """Returns the store in which a process group keeps its keys with a prefix. All process groups of a program, also groups that
    have only some of its processes, share it as long as the default group exists."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


class Store:
    """Passes the keys of a job to the current store of the program. A later store gets all keys again, since processes may
    read them at their first contact. `failure`: the last exception of the store, until an error reports it."""

    def __init__(self, store, name: str) -> None:
        self.name = name
        self.values: dict[str, bytes] = {}
        self.store = root_of(store)
        self.failure: Exception | None = None
        self.put = mpi.STORE_PUT(self._put)
        self.get = mpi.STORE_GET(self._get)

    def replace(self, store) -> None:
        """Uses the store of a further process group, if it is another one."""
        root = root_of(store)
        if root is self.store:
            return
        self.store = root
        for key, value in list(self.values.items()):
            root.set(key, value)

    def _key(self, key: bytes) -> str:
        return f"{VALUE_KEY}/{self.name}/{key.decode()}"

    def _put(self, _state, key, value, size) -> int:
        try:
            text = value[:size]
            self.values[self._key(key)] = text
            self.store.set(self._key(key), text)
            return 0
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error
            return 1  # an exception cannot pass through the library, which reports the failed key

    def _get(self, _state, key, _owner, value, capacity) -> int:
        try:
            text = self.store.get(self._key(key))
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error
            return -1
        ctypes.memmove(value, text, min(len(text), capacity))
        return len(text)


def publish_place(store, rank: int, size: int, text: str) -> str:
    """Returns the prefix of the keys by which the processes of a group exchange their places. A store may have keys of an earlier
    group of the same name, which had other processes: every group of this name and size has keys of its own, since all its
    processes arrive before one of them arrives at the next."""
    arrivals = f"{PLACE_KEY}/arrivals/{size}"
    keys = f"{PLACE_KEY}/{size}/{(store.add(arrivals, 1) - 1) // size}/"
    store.set(keys + str(rank), text)
    return keys


class Job:
    """The session that this process has with Weft. Threading: connect() and create() by one thread at a time."""

    def __init__(self) -> None:
        self.library = mpi.Library()
        self.session = ctypes.c_void_p()
        self.store: Store | None = None
        self.name = ""
        self.world = ctypes.c_void_p()
        self.rank, self.size = -1, -1
        self.communicators = 0

    @property
    def running(self) -> bool:
        return bool(self.session.value)

    @property
    def started_by_launcher(self) -> bool:
        return self.running and self.store is None and self.size > 1

    def error(self, code: int) -> mpi.MpiError:
        """Returns the exception for the code of a failed call of this thread, with the reason if the store has failed."""
        error = self.library.error(code)
        if self.store is None or self.store.failure is None:
            return error
        cause, self.store.failure = self.store.failure, None
        text = f"{error}; the store of the program has failed: {type(cause).__name__}: {cause}"
        error = mpi.MpiError(code, error.error_class, text)
        error.__cause__ = cause
        return error

    def check(self, code: int) -> None:
        """Raises error() unless the code is MPI_SUCCESS."""
        if code:
            raise self.error(code)

    def connect(self, store, rank: int, size: int) -> None:
        """Collective over the `size` processes of a store: processes that belong to no job yet form one. The store of the
        program takes precedence over the variables of launchers."""
        key = f"{STATE_KEY}/{rank}"
        if not self.running and self.store is None and store.check([key]):
            raise RuntimeError(
                f"the store has keys of an earlier process with rank {rank}, which the processes would take for new ones: start "
                "all with a new store; set TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 so that torchrun makes one for each attempt"
            )
        store.set(key, self.name.encode() if self.running else NEW)
        if self.running:
            if self.store is not None:
                self.store.replace(store)
            return
        if self.store is not None:
            raise RuntimeError("an earlier init_process_group of this process has failed: start the process again")
        states = [bytes(store.get(f"{STATE_KEY}/{other}")) for other in range(size)]
        if any(state != NEW for state in states):
            publish_place(store, rank, size, "-1 ")  # ends the wait of the others
            raise RuntimeError(
                f"rank {rank} starts while other processes of this store belong to the job of an earlier "
                "init_process_group: start all processes again, as torchrun does"
            )
        if rank == 0:
            store.set(NAME_KEY, "store-" + uuid.uuid4().hex)
        self.store = Store(store, bytes(store.get(NAME_KEY)).decode())
        code = self.library.Job_by_store(rank, size, self.store.name.encode(), self.store.put, self.store.get, None)
        if code == mpi.ERR_OTHER:  # MPI is initialised already, e.g. by mpi4py: its job is used
            self.store = None
        else:
            self.check(code)
        self.open()

    def open(self) -> None:
        """Opens the session: in the job of the store, of the launcher, or of MPI_Init, if that was called before."""
        check = self.check
        check(self.library.Session_init(mpi.INFO_NULL, mpi.ERRORS_RETURN, ctypes.byref(self.session)))
        check(self.library.Group_from_session_pset(self.session, b"mpi://WORLD", ctypes.byref(self.world)))
        rank, size = ctypes.c_int(), ctypes.c_int()
        check(self.library.Group_rank(self.world, ctypes.byref(rank)))
        check(self.library.Group_size(self.world, ctypes.byref(size)))
        self.rank, self.size = rank.value, size.value
        self.name = self.library.text(self.library.Job_name)
        check(self.library.Job_allow_exit(0.0))
        self.pid = os.getpid()
        atexit.register(self.close)

    @property
    def inherited(self) -> bool:
        """Whether this process is a child of fork(), to which MPI does not belong."""
        return os.getpid() != self.pid

    def close(self) -> None:
        """Leaves MPI at exit. A process that has not destroyed its process groups counts as failed for the others, so that
        they do not wait for it, and as ended for the launcher, which lets them go on."""
        if self.inherited:
            return
        if self.communicators == 0:
            self.library.Session_finalize(ctypes.byref(self.session))
        elif getattr(sys, "last_value", None) is None:  # no exception ends the program
            self.library.Job_allow_exit(SENT_TIMEOUT)

    def on_one_host(self) -> bool:
        """Returns whether all processes of the job share a host."""
        group, count = ctypes.c_void_p(), ctypes.c_int()
        self.check(self.library.Group_from_session_pset(self.session, b"mpix://SHARED", ctypes.byref(group)))
        self.check(self.library.Group_size(group, ctypes.byref(count)))
        self.library.Group_free(ctypes.byref(group))
        return count.value == self.size

    def places(self, store, rank: int, size: int) -> list[int]:
        """Returns the ranks in the job of the processes of a group, in the order of the group. Collective over the group, by
        its store."""
        keys = publish_place(store, rank, size, f"{self.rank} {self.name}")
        ranks = []
        for other in range(size):
            place, name = bytes(store.get(keys + str(other))).decode().split(" ", 1)
            if name != self.name:
                raise RuntimeError(
                    f"ranks {rank} and {other} belong to different jobs of MPI ({self.name} and {name}): MPI was "
                    "initialised before init_process_group, e.g. by mpi4py, without a launcher that connects them. "
                    "Import mpi4py after init_process_group, or start the processes with mpiexec"
                )
            ranks.append(int(place))
        return ranks

    def create(self, ranks: list[int], tag: str) -> ctypes.c_void_p:
        """Returns a communicator of the processes with these ranks in the job, in this order. Collective over them; tag:
        the same in all of them, and not of another call at that time."""
        check = self.check
        group, comm = ctypes.c_void_p(), ctypes.c_void_p()
        array = (ctypes.c_int * len(ranks))(*ranks)
        check(self.library.Group_incl(self.world, len(ranks), array, ctypes.byref(group)))
        try:
            check(
                self.library.Comm_create_from_group(
                    group, tag.encode(), mpi.INFO_NULL, mpi.ERRORS_RETURN, ctypes.byref(comm)
                )
            )
        finally:
            self.library.Group_free(ctypes.byref(group))
        self.communicators += 1
        return comm

    def free(self, comm: ctypes.c_void_p) -> None:
        self.library.Comm_free(ctypes.byref(comm))
        self.communicators -= 1


_lock = threading.Lock()
_current: Job | None = None


def current() -> Job:
    """Returns the job of this process, which may not run yet."""
    global _current
    with _lock:
        if _current is None:
            _current = Job()
        return _current


def started_by_launcher() -> bool:
    """Returns whether this process belongs to a job that an MPI launcher has started. Loads no library."""
    return _current is not None and _current.started_by_launcher
