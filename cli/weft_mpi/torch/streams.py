# SPDX-License-Identifier: BSD-3-Clause
# Streams: collectives on GPU tensors, which kernels execute in streams of torch (MPIX_Stream_comm_create), so that the host
# neither waits nor takes part. A call that the program waits for goes into the current stream; others go into a stream of the
# group, which waits for the current stream. A thread watches them, since kernels that wait for a rank know no time limit.
from __future__ import annotations

import ctypes
import logging
import time
from datetime import timedelta

import torch
from torch._C._distributed_c10d import Work as BaseWork
from torch.distributed import DistBackendError

from weft_mpi import mpi
from weft_mpi.torch import extraction, native
from weft_mpi.torch.collectives import Call
from weft_mpi.torch.reduction import AVG, BYTE, reduction
from weft_mpi.torch.watching import TICK, watch
from weft_mpi.torch.work import NO_TIME, Work, service

REDUCTIONS = ("Allreduce_c", "Reduce_scatter_block_c")
HIGH_PRIORITY = -1  # of the stream of a group: its kernels start before waiting kernels of the program
SLOW = 0.1  # seconds after which the ranks that an operation waits for are looked at
Future = torch._C.Future  # as works of torch's own backends return; torch.futures.Future is a class in Python around it
log = logging.getLogger(__name__)

# Without torch's checks of its initialization. None: a torch without CUDA.
current_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
current_device = getattr(torch._C, "_cuda_getDevice", None)
current_stream, set_stream = (getattr(torch._C, f"_cuda_{name}", None) for name in ("getCurrentStream", "setStream"))


class Kernels:
    """The communicator of a process group for one GPU. Its operations are in one order, also across streams, captured or not: the
    module native orders and issues them. Made by make()."""

    def __init__(self, group, device: torch.device) -> None:
        self.group, self.devices, self.index = group, [device], device.index
        self.comm, self.stream_handle = ctypes.c_void_p(), ctypes.c_void_p()
        self.own = torch.cuda.Stream(device, priority=HIGH_PRIORITY)
        self.own_raw = self.own.cuda_stream  # where the communicator puts asynchronous operations
        self.own_numbers = self.own.stream_id, self.own.device_index, self.own.device_type
        self.queue = None
        self.supported: dict[tuple, bool] = {}
        self.done = Done(group)
        self.functions = {name: getattr(group.library, name[:-2] + "_enqueue_c") for name in mpi.ENQUEUED}

    def open(self) -> None:
        """Begins to use the communicator."""
        self.queue = native.queue(self.group.library, self.comm, self.own_raw)

    @property
    def captured(self) -> bool:
        """Whether graphs have operations of the communicator."""
        return self.queue.captured()

    @property
    def watched(self) -> int:
        """The number of operations that may be in progress."""
        return self.queue.watched()

    def supports(self, calls) -> bool:
        """Returns whether kernels can execute the calls: equal on all ranks, as it depends on functions and types only."""
        for call in calls:
            if call.function not in mpi.ENQUEUED:  # the host executes all others
                return False
            if call.function in REDUCTIONS:
                key = call.function, call.arguments[3], call.arguments[4]
                known = self.supported.get(key)
                if known is None:
                    known = self._probe(call)
                    if isinstance(key[2], int):
                        self.supported[key] = known
                if not known:
                    return False
        return True

    def _probe(self, call) -> bool:
        """Asks with a call of no elements whether a kernel computes the reduction."""
        if not isinstance(call.arguments[4], int) or call.arguments[4] == AVG:
            return False
        address = call.arguments[1]
        code = self.functions[call.function](mpi.IN_PLACE, address, 0, *call.arguments[3:], self.comm)
        if code == 0:
            return True
        error = self.group.job.error(code)
        if error.error_class != mpi.ERR_UNSUPPORTED_OPERATION:
            raise self.group.failed("a reduction", code)
        return False

    def run(self, name: str, calls, options, result) -> BaseWork:
        """Enqueues the calls. Returns at once."""
        group, queue = self.group, self.queue
        if group.failure is not None:
            raise DistBackendError(f"weft: {name}: {group.failure}")
        if self.index != current_device():
            with torch.cuda.device(self.index):
                return self.run(name, calls, options, result)
        asynchronous = getattr(options, "asyncOp", True)
        limit = getattr(options, "timeout", NO_TIME)
        limit = limit.total_seconds() if limit > NO_TIME else group.time_limit
        described = [(native.FUNCTIONS[call.function], call.arguments) for call in calls]
        try:
            code, captured, _ = queue.begin(current_raw_stream(self.index), asynchronous, described)
            if code:
                raise group.failed(name, code)
            self._finish(calls, asynchronous and not captured)
        except BaseException:
            # Some calls may be in the stream: later operations follow them, and they keep their memory.
            if queue.begun() and queue.end(name, [calls], limit)[1]:
                self.wake()
            raise
        keep = [calls] if asynchronous else None
        ticket, wake = queue.end(name, keep, limit)
        if wake:
            self.wake()
        return StreamWork(self, name, list(result), ticket, keep, captured) if asynchronous else self.done

    def _finish(self, calls, in_own: bool) -> None:
        finishes = [call.finish for call in calls if call.finish is not None]
        if not finishes:
            return
        with torch.no_grad():
            if not in_own:
                for finish in finishes:
                    finish()
                return
            with torch.cuda.stream(self.own):
                for finish in finishes:
                    finish()

    # Called by the module.

    def reduction(self, name: str, operation, tensor: torch.Tensor) -> tuple[int, int] | None:
        """Returns the type and operation of MPI of a reduction that is one call; None: it is not, or no kernel computes it."""
        group = self.group
        how = reduction(operation, tensor, group.processes, group.library)
        steps = how.wider is not None or how.terms is not None or how.divisor or how.keep
        if steps or not isinstance(how.operation, int):
            return None
        arguments = (mpi.IN_PLACE, tensor.data_ptr(), 0, how.datatype, how.operation)
        supported = self.supports([Call(native.FUNCTION_OF[name], arguments, ())])
        return (how.datatype, how.operation) if supported else None

    def failed(self, name: str, code: int, cuda: int) -> None:
        """Raises the exception of an operation, for the code of MPI or of CUDA."""
        if code:
            raise self.group.failed(name, code)
        raise RuntimeError(f"weft: {name}: error {cuda} of CUDA")

    def wake(self) -> None:
        """The first of the watched or captured operations has begun."""
        if watch.idle:
            watch.wake()

    # Called by the thread.

    def look(self, now: float) -> bool:
        """Forgets the operations that are complete, and ends the group if one takes too long or a rank has ended. Returns whether
        operations remain."""
        group, queue = self.group, self.queue
        try:
            queue.retire()
        except RuntimeError as error:  # of CUDA, also for all later calls
            group.revoke(f"its kernels have failed: {error}")
            return False
        self.check()
        oldest = queue.oldest()
        if oldest is None:
            return False
        deadline, begin, name = oldest
        if group.failure is None:
            if deadline < now:
                group.expire(name)
            elif begin + SLOW < now:
                group.look_for_ended()
        return True

    def check(self) -> None:
        """Ends the group if kernels that are complete may have left since a rank has ended, or another one has revoked the
        group. Also called by threads of the program."""
        group = self.group
        if group.failure is not None:
            return
        with group.failure_lock:
            # Without elements nothing is enqueued, but the call fails if a kernel has left, also before MPI knows why.
            code = self.functions["Bcast_c"](None, 0, BYTE, 0, self.comm) if self.comm.value else 0
        if code == 0:
            return
        error = group.job.error(code)
        if error.error_class in mpi.FAILURES:
            group.revoked_by_others()
        elif not group.look_for_ended():
            group.revoke(str(error))

    def progress(self) -> None:
        """Lets MPI learn of revocations by other ranks, which end the kernels."""
        flag = ctypes.c_int()
        if not self.queue.try_acquire():
            return
        try:
            if self.comm.value:
                self.group.library.Comm_is_revoked(self.comm, ctypes.byref(flag))
        finally:
            self.queue.release()
        if flag.value and self.group.failure is None:
            self.group.revoked_by_others()

    def settle(self, limit: float) -> None:
        """Waits for the operations, which are revoked after `limit` seconds: another process may have left before them."""
        group, end = self.group, time.monotonic() + limit
        try:
            while not self.queue.idle():
                if group.failure is None and time.monotonic() >= end:
                    group.revoke(group.DESTROYED)
                time.sleep(TICK)
            self.queue.retire()  # gives up the memory that they keep
            self.check()
        except RuntimeError as error:  # of CUDA, also for all later calls
            group.revoke(f"its kernels have failed: {error}")
        if group.failure is not None:
            log.warning("weft: operations in streams may have ended without results: %s", group.failure)

    def end(self) -> None:
        """Frees the communicator, after settle(). Collective, unless the group has been revoked."""
        watch.remove(self)
        self.queue.acquire()
        try:
            with torch.cuda.device(self.index):
                self.queue.close()
                with self.group.failure_lock:
                    comm, self.comm = self.comm, ctypes.c_void_p()
                library = self.group.library
                if library.Comm_free(ctypes.byref(comm)):
                    self.group.job.communicators += 1  # the session cannot be finalized
                library.Stream_free(ctypes.byref(self.stream_handle))
        finally:
            self.queue.release()


def make(group, device: torch.device, name: str, timeout: timedelta) -> Kernels | None:
    """Collective over the group, in its operation `name` with this time limit. None, on all ranks: kernels cannot execute its
    operations, since its ranks are on several hosts, are too many or share GPUs."""
    kernels, library, job = Kernels(group, device), group.library, group.job
    info = ctypes.c_void_p()
    job.check(library.Info_create(ctypes.byref(info)))
    for key, value in (("type", "cudaStream_t"), ("weft_stream_kernels", "true")):
        job.check(library.Info_set(info, key.encode(), value.encode()))
    value = ctypes.c_void_p(kernels.own_raw)
    job.check(library.Info_set_hex(info, b"value", ctypes.byref(value), ctypes.sizeof(value)))
    job.check(library.Stream_create(info, ctypes.byref(kernels.stream_handle)))
    library.Info_free(ctypes.byref(info))
    service.begin_wait(Work(group, name), group.deadline(timeout))
    try:
        code = library.Stream_comm_create(group.comm, kernels.stream_handle, ctypes.byref(kernels.comm))
    finally:
        service.end_wait()
    if code == 0:
        kernels.open()
        native.install(kernels, StreamWork, current_raw_stream)
        extraction.install()
        watch.add(kernels)
        return kernels
    library.Stream_free(ctypes.byref(kernels.stream_handle))
    if job.error(code).error_class == mpi.ERR_UNSUPPORTED_OPERATION:
        return None
    raise group.failed(name, code)


class Done(BaseWork):
    """An operation in the current stream: nothing has to wait for it."""

    def __init__(self, group) -> None:
        super().__init__()
        self.group = group

    def wait(self, timeout: timedelta = NO_TIME) -> bool:
        if self.group.failure is not None:
            raise DistBackendError(f"weft: {self.group.failure}")
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return self.group.failure is None

    def result(self) -> list:
        return []


class StreamWork(BaseWork):
    """An operation in a stream. wait() lets the current stream wait for it, not the host."""

    future: torch._C.Future | None = None

    def __init__(self, kernels: Kernels, name: str, outputs: list, ticket, keep: list, captured: bool) -> None:
        """ticket: of the queue; keep: what is used until the operation is complete."""
        BaseWork.__init__(self)
        self.kernels, self.name, self.outputs, self.ticket = kernels, name, outputs, ticket
        self.keep, self.captured = keep, captured
        self.issuer = current_raw_stream(kernels.index)

    def wait(self, timeout: timedelta = NO_TIME) -> bool:
        kernels = self.kernels
        if kernels.group.failure is not None:
            raise self.exception()
        raw = current_raw_stream(kernels.index)
        kernels.queue.wait(raw, self.ticket)
        if raw == self.issuer:
            self.keep.clear()  # memory that is freed now is used again in the order of this stream
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self.captured or self.kernels.group.failure is not None or self.kernels.queue.complete(self.ticket)

    def is_success(self) -> bool:
        if not self.is_completed():
            return False
        if not self.captured:
            self.kernels.check()
        return self.exception() is None

    def exception(self) -> Exception | None:
        failure = self.kernels.group.failure
        return None if failure is None else DistBackendError(f"weft: {self.name}: {failure}")

    def source_rank(self) -> int:
        return -1

    _source_rank = source_rank

    def result(self) -> list[torch.Tensor]:
        return self.outputs

    def get_future(self) -> torch._C.Future:
        """Returns a future that is complete at once: its callbacks run in streams that wait for the operation."""
        if self.future is None:
            self.future = self._complete_future()
        return self.future

    def _complete_future(self) -> torch._C.Future:
        kernels = self.kernels
        if kernels.group.failure is not None:
            failed = torch.futures.Future(devices=kernels.devices)
            failed.set_exception(self.exception())
            return failed
        future = Future(kernels.devices)
        if self.captured:  # a stream that is not captured must not take part in a capture without an end there
            kernels.queue.wait(current_raw_stream(kernels.index), self.ticket)
            future.set_result(self.outputs)
        elif kernels.index == current_device():
            # In the stream of the operation, without the objects that torch.cuda.stream() makes.
            before = current_stream(kernels.index)
            set_stream(*kernels.own_numbers)
            try:
                future.set_result(self.outputs)
            finally:
                set_stream(*before)
        else:
            with torch.cuda.stream(kernels.own):
                future.set_result(self.outputs)
        return future
