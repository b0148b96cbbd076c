# SPDX-License-Identifier: BSD-3-Clause
# Recorded streams: streams in place of those of torch.cuda, and functions in place of the driver's, without a GPU, that only
# record what they are asked for.
import ctypes
import types

import torch

NOT_READY = 600
state = types.SimpleNamespace(current=0, captured=False, capture=1, streams=0, complete=True, cuda_error=0)
log = []
recorded: list[int] = []  # events, in the order of their records
incomplete: set[int] = set()  # events, also while state.complete
stream_of_event: dict[int, int] = {}  # in which the event was recorded


BareFuture = torch._C.Future


class Stream:
    device_index = 0
    device_type = 1

    def __init__(self, device=None, priority=0, raw=None):
        state.streams += raw is None
        self.cuda_stream = self.stream_id = 100 * state.streams if raw is None else raw

    def wait_event(self, _event):
        pass


class Event:
    """Of operations that the host executes."""

    def record(self, _stream):
        pass


class Guard:
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        self.before, state.current = state.current, getattr(self.stream, "cuda_stream", state.current)

    def __exit__(self, *_):
        state.current = self.before


def function(*parameters):
    """Decorates a function that C calls; addresses are numbers, and None is no stream."""
    return lambda body: ctypes.CFUNCTYPE(ctypes.c_int, *parameters)(body)


POINTER, ADDRESS = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)


class Driver:
    """The driver's functions, of which those without a result that matters succeed."""

    cuCtxGetCurrent = cuCtxPushCurrent_v2 = cuCtxPopCurrent_v2 = cuEventDestroy_v2 = function(POINTER)(lambda _: 0)

    @function(ADDRESS, ctypes.c_uint)
    def cuEventCreate(event, _flags):
        event[0] = len(stream_of_event) + 1000
        stream_of_event[event[0]] = -1
        return 0

    @function(POINTER, POINTER)
    def cuEventRecord(event, stream):
        stream_of_event[event] = stream or 0
        recorded.append(event)
        return 0

    @function(POINTER)
    def cuEventQuery(event):
        return state.cuda_error or (0 if state.complete and event not in incomplete else NOT_READY)

    @function(POINTER, POINTER, ctypes.c_uint)
    def cuStreamWaitEvent(stream, event, _flags):
        log.append(f"{stream or 0} waits for {stream_of_event[event]}")
        return 0

    @function(POINTER, ctypes.POINTER(ctypes.c_int))
    def cuStreamIsCapturing(_stream, status):
        status[0] = int(state.captured)
        return 0

    @function(POINTER, POINTER, ctypes.POINTER(ctypes.c_uint64), POINTER, POINTER, POINTER)
    def cuStreamGetCaptureInfo_v2(_stream, _status, number, *_):
        number[0] = state.capture
        return 0


def set_stream(stream_id, _index, _type):
    state.current = stream_id


def replace_cuda():
    cuda = torch.cuda
    cuda.Stream, cuda.Event, cuda.stream, cuda.device = Stream, Event, Guard, Guard
    cuda.current_device, cuda.current_stream = lambda: 0, lambda _device=None: Stream(raw=state.current)
    future = torch.futures.Future
    torch.futures.Future = torch._C.Future = lambda devices=None: future()
    torch._C._cuda_getDevice = lambda: 0
    torch._C._cuda_getCurrentRawStream = lambda _index: state.current
    torch._C._cuda_getCurrentStream = lambda _index: (state.current, 0, 1)
    torch._C._cuda_setStream = set_stream


replace_cuda()
