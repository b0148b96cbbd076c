# SPDX-License-Identifier: BSD-3-Clause
# Capture: operations of a process group while torch captures a CUDA graph. They are enqueued in the current stream, become part
# of the graph, and run at each of its launches, on the same memory. Collectives are blocking calls of MPI, which the stream
# waits for: they are faster than nonblocking ones, which they do not match, so all processes launch the graph.
from __future__ import annotations

import contextlib
import ctypes
from datetime import timedelta

import torch

from weft_mpi import mpi, order
from weft_mpi.torch.work import NO_TIME, Work


def device_of(calls) -> torch.device | None:
    """Returns the GPU whose current stream is captured; None: the calls run now. A call without tensors is a barrier."""
    empty = True
    for call in calls:
        for tensor in call.keep:
            empty = False
            if tensor.is_cuda:
                return tensor.device if is_capturing(tensor.device) else None
    if not empty or not torch.cuda.is_initialized():
        return None
    device = torch.device("cuda", torch.cuda.current_device())
    return device if is_capturing(device) else None


def is_capturing(device: torch.device) -> bool:
    if device.index == torch.cuda.current_device():
        return torch.cuda.is_current_stream_capturing()
    with torch.cuda.device(device):
        return torch.cuda.is_current_stream_capturing()


class CapturedWork(Work):
    """An operation that has been enqueued. wait() lets the current stream follow it. Sends and receives end in wait(), since
    several may have to begin before one of them can end. Until then their memory, e.g. a copy of a tensor that is not
    contiguous, is not used for later tensors of the capture."""

    def __init__(self, group, name: str, result, device: torch.device) -> None:
        super().__init__(group, name, result=result)
        self.device, self.event = device, torch.cuda.Event()
        self.open: list[ctypes.c_void_p] = []
        self.actions: list = []

    @contextlib.contextmanager
    def in_order(self):
        """Calls of MPI inside are enqueued in the current stream."""
        library, comm = self.group.library, self.group.comm
        stream = order.stream_of(library.handle, torch.cuda.current_stream(self.device).cuda_stream)
        self.check(library.Comm_set_stream(comm, stream))
        try:
            yield
        finally:
            library.Comm_set_stream(comm, mpi.STREAM_NULL)

    def enqueue(self, calls) -> None:
        self.keep = calls
        library, comm = self.group.library, self.group.comm
        with self.in_order():
            for call in calls:
                if call.function in mpi.COLLECTIVES:
                    self.check(getattr(library, call.function)(*call.arguments, comm))
                else:
                    request = ctypes.c_void_p()
                    start = getattr(library, mpi.nonblocking(call.function))
                    self.check(start(*call.arguments, comm, ctypes.byref(request)))
                    self.open.append(request)
        self.actions = [call.finish for call in calls if call.finish]
        if not self.open:
            self.finish()

    def finish(self) -> None:
        with torch.no_grad():
            for action in self.actions:
                action()
        self.event.record(torch.cuda.current_stream(self.device))
        self.keep, self.actions = (), []

    def check(self, code: int) -> None:
        if code:
            raise self.group.failed(self.name, code)

    def wait(self, timeout: timedelta = NO_TIME) -> bool:
        requests, self.open = self.open, []
        if requests:
            with self.in_order():
                for request in requests:
                    self.check(self.group.library.Wait(ctypes.byref(request), mpi.STATUS_IGNORE))
            self.finish()
        torch.cuda.current_stream(self.device).wait_event(self.event)
        return True


def run(group, name: str, calls, result, device: torch.device) -> CapturedWork:
    """Enqueues the calls in the current stream of the device."""
    work = CapturedWork(group, name, result, device)
    work.enqueue(calls)
    return work
