# SPDX-License-Identifier: BSD-3-Clause
# Recorded streams: streams and events in place of those of torch.cuda, without a GPU, that only record what they are asked for.
import types

import torch

state = types.SimpleNamespace(current=0, captured=False, capture=1, streams=0)
log = []


class Stream:
    def __init__(self, device=None, priority=0, raw=None):
        state.streams += raw is None
        self.cuda_stream = 100 * state.streams if raw is None else raw

    def wait_event(self, event):
        log.append(f"{self.cuda_stream} waits for {event.stream}")

    def record_event(self):
        event = Event()
        event.record(self)
        return event


class Event:
    complete = True

    def record(self, stream):
        self.stream = stream.cuda_stream

    def query(self):
        return self.complete


class Guard:
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        self.before, state.current = state.current, getattr(self.stream, "cuda_stream", state.current)

    def __exit__(self, *_):
        state.current = self.before


def replace_cuda():
    cuda = torch.cuda
    cuda.Stream, cuda.Event, cuda.stream, cuda.device = Stream, Event, Guard, Guard
    cuda.current_device, cuda.current_stream = lambda: 0, lambda _device=None: Stream(raw=state.current)
    future = torch.futures.Future
    torch.futures.Future = lambda devices=None: future()
    torch._C._cuda_isCurrentStreamCapturing = lambda: state.captured
    torch._C._cuda_getDevice = lambda: 0
    torch._C._cuda_getCurrentRawStream = lambda _index: state.current


replace_cuda()
