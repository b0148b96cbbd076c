# SPDX-License-Identifier: BSD-3-Clause
# Streams: collectives on GPU tensors, which kernels execute in streams of torch (MPIX_Stream_comm_create), so that the host
# neither waits nor takes part. A call that the program waits for goes into the current stream; others go into a stream of the
# group, which waits for the current stream. A thread watches them, since kernels that wait for a rank know no time limit.
from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections import deque
from datetime import timedelta

import torch
from torch._C._distributed_c10d import Work as BaseWork
from torch.distributed import DistBackendError

from weft_mpi import mpi
from weft_mpi.torch.reduction import AVG, BYTE
from weft_mpi.torch.watching import TICK, capture_of, watch
from weft_mpi.torch.work import NO_TIME, Work, service

REDUCTIONS = ("Allreduce_c", "Reduce_scatter_block_c")
HIGH_PRIORITY = -1  # of the stream of a group: its kernels start before waiting kernels of the program
SLOW = 0.1  # seconds after which the ranks that an operation waits for are looked at
log = logging.getLogger(__name__)

# Without torch's checks of its initialization. None: a torch without CUDA.
current_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
current_device = getattr(torch._C, "_cuda_getDevice", None)
is_capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)


class Kernels:
    """The communicator of a process group for one GPU. Its operations are in one order, also across streams, captured or not:
    each stream waits for the operation before, unless a capture begins or ends between the two. Made by make()."""

    def __init__(self, group, device: torch.device) -> None:
        self.group, self.device, self.index = group, device, device.index
        self.comm, self.stream_handle = ctypes.c_void_p(), ctypes.c_void_p()
        self.own = torch.cuda.Stream(device, priority=HIGH_PRIORITY)
        self.own_raw = self.target = self.own.cuda_stream  # target: where the communicator puts operations
        self.streams = {self.own_raw: self.own}
        self.begin = torch.cuda.Event()  # recorded again for each operation: a wait means the record before it
        self.last: torch.cuda.Event | None = None  # the end of the latest operation outside of captures,
        self.last_raw = -1  # and its stream
        # The capture of the latest captured operation, its stream and its end.
        self.last_captured: tuple = (None, -1, None)
        self.lock = threading.Lock()
        self.supported: dict[tuple, bool] = {}
        # Operations in their order: (event, deadline, begin, name, keep). keep: None if nothing else refers to the event.
        self.watched: deque = deque()
        self.free: list[torch.cuda.Event] = []
        self.done = Done(group)
        library = group.library
        self.functions = {name: getattr(library, name[:-2] + "_enqueue_c") for name in mpi.ENQUEUED}
        self.redirect = library.Stream_comm_redirect

    @property
    def captured(self) -> bool:
        """Whether graphs have operations of the communicator."""
        return self.last_captured[2] is not None

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
        group = self.group
        if group.failure is not None:
            raise DistBackendError(f"weft: {name}: {group.failure}")
        if self.index != current_device():
            with torch.cuda.device(self.index):
                return self.run(name, calls, options, result)
        captured = is_capturing()
        asynchronous = not captured and getattr(options, "asyncOp", True)
        with self.lock:
            raw, stream = self._order(captured, asynchronous)
            try:
                for call in calls:
                    code = self.functions[call.function](*call.arguments, self.comm)
                    if code:
                        raise group.failed(name, code)
                self._finish(calls, stream, asynchronous)
            except BaseException:
                self._half_begun(calls, name, options, raw, stream, captured)
                raise
            if captured:
                event = stream.record_event()
                self._remember_captured(raw, event)
                return StreamWork(self, name, result, event, [calls], True)
            event = self.free.pop() if self.free and not asynchronous else torch.cuda.Event()
            event.record(stream)
            self.last, self.last_raw = event, raw
            keep = [calls] if asynchronous else None
            self._watch(event, name, options, keep)
        return StreamWork(self, name, result, event, keep, False) if asynchronous else self.done

    def _half_begun(self, calls, name: str, options, raw: int, stream, captured: bool) -> None:
        """Some calls of an operation may be in the stream when one fails: later operations follow them, and those
        outside of captures keep their memory until they are complete."""
        event = torch.cuda.Event()
        event.record(stream)
        if captured:
            self._remember_captured(raw, event)
            return
        self.last, self.last_raw = event, raw
        self._watch(event, name, options, [calls])

    def _order(self, captured: bool, asynchronous: bool) -> tuple:
        """Returns the stream for the next operation, which follows the operations before and the current stream."""
        raw = current_raw_stream(self.index)
        stream = self.stream(raw)
        ordered = captured or self.last is None or raw == self.last_raw
        if captured:
            self._order_captured(raw, stream)
        if asynchronous:
            self.begin.record(stream)
            self.own.wait_event(self.begin)
            raw, stream = self.own_raw, self.own
        if not ordered and raw != self.last_raw:
            stream.wait_event(self.last)
        if raw != self.target:
            self._redirect(raw)
        return raw, stream

    def _order_captured(self, raw: int, stream) -> None:
        """Lets the stream wait for the operation before in another stream of the same capture: no stream can wait for an event of
        another capture."""
        capture, last_raw, event = self.last_captured
        if event is not None and raw != last_raw and capture == capture_of(raw):
            stream.wait_event(event)

    def _remember_captured(self, raw: int, event) -> None:
        first = not self.captured
        self.last_captured = (capture_of(raw), raw, event)
        if first:
            watch.wake()  # from a sleep without a limit

    def stream(self, raw: int):
        """Returns the current stream, whose handle is `raw`."""
        found = self.streams.get(raw)
        if found is None:
            found = self.streams[raw] = torch.cuda.current_stream(self.device)
        return found

    def _watch(self, event, name: str, options, keep) -> None:
        now = time.monotonic()
        limit = getattr(options, "timeout", NO_TIME)
        limit = limit.total_seconds() if limit > NO_TIME else self.group.time_limit
        self.watched.append((event, now + limit, now, name, keep))
        if watch.idle:
            watch.wake()

    def _redirect(self, raw: int) -> None:
        code = self.redirect(self.comm, raw)
        if code:
            raise self.group.failed("another stream", code)
        self.target = raw

    def _finish(self, calls, stream, asynchronous: bool) -> None:
        finishes = [call.finish for call in calls if call.finish is not None]
        if not finishes:
            return
        with torch.no_grad():
            if not asynchronous:
                for finish in finishes:
                    finish()
                return
            with torch.cuda.stream(stream):
                for finish in finishes:
                    finish()

    # Called by the thread.

    def look(self, now: float) -> bool:
        """Forgets the operations that are complete, and ends the group if one takes too long or a rank has ended. Returns whether
        operations remain."""
        watched, group = self.watched, self.group
        complete = 0
        while complete < len(watched) and watched[complete][0].query():
            complete += 1
        if complete:
            self.check()
        for _ in range(complete):
            event, _, _, _, keep = watched.popleft()
            if keep is None:
                self.free.append(event)
            else:
                keep.clear()
        if not watched:
            return False
        _, deadline, begin, name, _ = watched[0]
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
        if not self.lock.acquire(blocking=False):
            return
        try:
            if self.comm.value:
                self.group.library.Comm_is_revoked(self.comm, ctypes.byref(flag))
        finally:
            self.lock.release()
        if flag.value and self.group.failure is None:
            self.group.revoked_by_others()
        if self.captured:
            self.check()

    def settle(self, limit: float) -> None:
        """Waits for the operations, which are revoked after `limit` seconds: another process may have left before them."""
        group, end = self.group, time.monotonic() + limit
        try:
            while self.last is not None and not self.last.query():
                if group.failure is None and time.monotonic() >= end:
                    group.revoke(group.DESTROYED)
                time.sleep(TICK)
            self.check()
        except RuntimeError as error:  # of CUDA, also for all later calls
            group.revoke(f"its kernels have failed: {error}")
        if group.failure is not None:
            log.warning("weft: operations in streams may have ended without results: %s", group.failure)

    def end(self) -> None:
        """Frees the communicator, after settle(). Collective, unless the group has been revoked."""
        watch.remove(self)
        with self.lock, torch.cuda.device(self.index):
            if self.target != self.own_raw:
                self.redirect(self.comm, self.own_raw)  # all operations are complete
            with self.group.failure_lock:
                comm, self.comm = self.comm, ctypes.c_void_p()
            library = self.group.library
            if library.Comm_free(ctypes.byref(comm)):
                self.group.job.communicators += 1  # the session cannot be finalized
            library.Stream_free(ctypes.byref(self.stream_handle))


def make(group, device: torch.device, name: str) -> Kernels | None:
    """Collective over the group, in its operation `name`. None, on all ranks: kernels cannot execute its operations, since its
    ranks are on several hosts, are too many or share GPUs."""
    kernels, library, job = Kernels(group, device), group.library, group.job
    info = ctypes.c_void_p()
    job.check(library.Info_create(ctypes.byref(info)))
    for key, value in (("type", "cudaStream_t"), ("weft_stream_kernels", "true")):
        job.check(library.Info_set(info, key.encode(), value.encode()))
    value = ctypes.c_void_p(kernels.own_raw)
    job.check(library.Info_set_hex(info, b"value", ctypes.byref(value), ctypes.sizeof(value)))
    job.check(library.Stream_create(info, ctypes.byref(kernels.stream_handle)))
    library.Info_free(ctypes.byref(info))
    service.begin_wait(Work(group, name), group.deadline(NO_TIME))
    try:
        code = library.Stream_comm_create(group.comm, kernels.stream_handle, ctypes.byref(kernels.comm))
    finally:
        service.end_wait()
    if code == 0:
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

    def __init__(self, kernels: Kernels, name: str, result, event, keep: list, captured: bool) -> None:
        super().__init__()
        self.kernels, self.name, self.outputs, self.event = kernels, name, list(result), event
        self.keep, self.captured = keep, captured
        self.issuer = current_raw_stream(kernels.index)
        self.future: torch.futures.Future | None = None

    def wait(self, timeout: timedelta = NO_TIME) -> bool:
        kernels = self.kernels
        if kernels.group.failure is not None:
            raise self.exception()
        raw = current_raw_stream(kernels.index)
        kernels.stream(raw).wait_event(self.event)
        if raw == self.issuer:
            self.keep.clear()  # memory that is freed now is used again in the order of this stream
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self.captured or self.kernels.group.failure is not None or self.event.query()

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

    def get_future(self) -> torch.futures.Future:
        """Returns a future that is complete at once: its callbacks run in streams that wait for the operation."""
        kernels = self.kernels
        if self.future is None:
            self.future = torch.futures.Future(devices=[kernels.device])
            if kernels.group.failure is not None:
                self.future.set_exception(self.exception())
            else:
                # A stream that is not captured must not take part in a capture without an end there.
                stream = torch.cuda.current_stream(kernels.device) if self.captured else kernels.own
                with torch.cuda.stream(stream):
                    stream.wait_event(self.event)
                    self.future.set_result(self.outputs)
        return self.future
