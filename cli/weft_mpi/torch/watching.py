# SPDX-License-Identifier: BSD-3-Clause
# Watching: the thread that looks at operations in streams (streams.Kernels), by the driver.
from __future__ import annotations

import atexit
import ctypes
import threading
import time

import torch

from weft_mpi.torch import native

TICK, LONGEST_SILENCE = 5e-3, 1.0  # seconds between two looks of the thread; after its last work until it sleeps
LONGEST_WATCH = 0.1  # between two looks by Python, whose lock other threads of the program need
SELDOM = 0.1  # between two looks while only graphs may be in progress
RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED


class Watch:
    """The thread that looks at the operations of all groups. It sleeps while there are none, but looks seldom at groups with
    captured operations, as nothing tells of launches of graphs."""

    def __init__(self) -> None:
        self.all: list = []  # replaced under the lock
        self.lock = threading.Lock()
        self.awake = threading.Event()
        self.idle = True
        self.thread: threading.Thread | None = None
        self.ending = False

    def add(self, kernels) -> None:
        with self.lock:
            self.all = [*self.all, kernels]
            if self.thread is None:
                self.thread = threading.Thread(target=self._run, name="weft-streams", daemon=True)
                self.thread.start()
                atexit.register(self._stop)

    def remove(self, kernels) -> None:
        with self.lock:
            self.all = [other for other in self.all if other is not kernels]

    def wake(self) -> None:
        self.idle = False
        self.awake.set()

    def _run(self) -> None:
        relax_capture()
        last = time.monotonic()
        while not self.ending:
            now = time.monotonic()
            busy = [kernels for kernels in self.all if self._look(kernels, now)]
            for kernels in self.all:
                kernels.progress()
            if busy:
                last = now
            elif now - last > LONGEST_SILENCE:
                self.awake.clear()
                self.idle = True
                if not any(kernels.watched for kernels in self.all):  # an operation that has found the thread awake
                    captured = any(kernels.captured for kernels in self.all)
                    if self.awake.wait(SELDOM if captured else None):
                        last = time.monotonic()
                self.idle = False
            native.module().weft_torch_watch([kernels.queue for kernels in self.all], TICK, LONGEST_WATCH)

    def _look(self, kernels, now: float) -> bool:
        if torch.cuda.current_device() != kernels.index:
            torch.cuda.set_device(kernels.index)  # otherwise the thread would create a context on GPU 0
        return kernels.look(now)

    def _stop(self) -> None:
        self.ending = True
        self.wake()
        self.thread.join(timeout=1)


def relax_capture() -> None:
    """Lets this thread look at events while another one captures a graph, which would be invalid otherwise."""
    mode = ctypes.c_int(RELAXED)
    native.driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


watch = Watch()
