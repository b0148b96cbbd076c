# SPDX-License-Identifier: BSD-3-Clause
# Work: one operation of a process group, complete or in progress, and the thread that completes operations while the program
# computes, sets their futures, and applies time limits.
from __future__ import annotations

import atexit
import ctypes
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import torch
from torch._C._distributed_c10d import Work as BaseWork

from weft_mpi import mpi
from weft_mpi.torch.options import outside_graphs

SHORTEST_POLL, LONGEST_POLL = 20e-6, 1e-3  # seconds between two polls of operations in progress
NO_TIME = timedelta(0)
NEVER = float("inf")


def synchronize(tensors) -> None:
    """Waits for the current stream of the GPU of each tensor: Weft reads and writes its memory at once."""
    for tensor in tensors:
        if tensor.is_cuda:
            torch.cuda.current_stream(tensor.device).synchronize()


class Work(BaseWork):
    """An operation with the MPI requests `requests`; none: it is complete. `keep`: what the requests use. `finishes` are called
    once, when all are complete, and write `result`, the tensors of the future. `deadline`: its time limit (time.monotonic())."""

    def __init__(self, group, name: str, requests=(), keep=(), result=(), finishes=(), deadline: float = NEVER) -> None:
        super().__init__()
        self.group, self.name = group, name
        self.requests, self.keep, self.outputs, self.finishes = list(requests), keep, list(result), finishes
        self.lock = threading.Lock()
        self.done = not self.requests
        self.error: Exception | None = None
        self.future: torch.futures.Future | None = None
        self.unset: torch.futures.Future | None = None  # the future, until its result is set
        self.source = -1
        self.deadline = deadline

    def watch(self) -> None:
        """Lets the thread complete the operation, also if the program does not wait for it."""
        if not self.poll():
            service.add(self)

    def end(self) -> None:
        """Waits for the end of an operation whose group has been revoked."""
        while not self.poll():
            time.sleep(SHORTEST_POLL)

    # The interface of torch.

    @outside_graphs
    def wait(self, timeout: timedelta = NO_TIME) -> bool:
        return self.await_end(timeout)

    def await_end(self, timeout: timedelta = NO_TIME) -> bool:
        if not self.done:
            deadline = self.deadline if timeout <= NO_TIME else self.group.deadline(timeout)
            service.begin_wait(self, deadline)
            try:
                with self.lock:
                    if not self.done:
                        self._complete(self.group.library.Wait)
            finally:
                service.end_wait()
            self._publish()
        if self.error is not None:
            raise self.error
        return True

    def synchronize(self) -> None:
        self.wait()

    @outside_graphs
    def is_completed(self) -> bool:
        return self.done or self.poll()

    def is_success(self) -> bool:
        return self.is_completed() and self.error is None

    def exception(self) -> Exception | None:
        return self.error

    def source_rank(self) -> int:
        return self.source

    _source_rank = source_rank

    def result(self) -> list[torch.Tensor]:
        return self.outputs

    @outside_graphs
    def get_future(self) -> torch.futures.Future:
        with self.lock:
            if self.future is None:
                devices = {tensor.device for tensor in self.outputs if tensor.is_cuda}
                self.future = torch.futures.Future(devices=list(devices)) if devices else torch.futures.Future()
                self.unset = self.future
        if self.done:
            self._publish()
        return self.future

    # Completion.

    def poll(self) -> bool:
        """Returns whether the operation is complete. Does nothing while another thread waits for it."""
        if not self.done and self.lock.acquire(blocking=False):
            try:
                if not self.done:
                    self._complete(self._test)
            finally:
                self.lock.release()
            if self.done:
                self._publish()
        return self.done

    def _test(self, request, status) -> int | None:
        flag = ctypes.c_int()
        code = self.group.library.Test(request, ctypes.byref(flag), status)
        return code if code or flag.value else None

    def _complete(self, function) -> None:
        """Waits for, or tests, the remaining requests under the lock. function: None means not complete."""
        status = mpi.Status()
        while self.requests:
            code = function(ctypes.byref(self.requests[-1]), ctypes.byref(status))
            if code is None:
                return
            if code and self.error is None:
                self.error = self.group.failed(self.name, code)
            if code and self.requests[-1].value not in (None, mpi.REQUEST_NULL):
                # A receive from any rank stays active when one has ended, until the group is revoked.
                if function == self._test:
                    return
                continue
            self.requests.pop()
            self.source = status.source
        self._end()

    def _end(self) -> None:
        if self.error is None and self.finishes:
            try:
                with torch.no_grad():
                    for finish in self.finishes:
                        finish()
                    synchronize(self.outputs)  # later work may be on other streams than that of this thread
            except Exception as error:  # pylint: disable=broad-except
                self.error = error  # raised by wait()
        self.keep, self.finishes = (), ()
        self.done = True

    def _publish(self) -> None:
        """Sets the future of a complete operation, without the lock: callbacks of the future may use this object."""
        with self.lock:
            future, self.unset = self.unset, None
        if future is None:
            return
        if self.error is None:
            service.run(future.set_result, self.outputs)
        else:
            service.run(future.set_exception, self.error)


class Works(BaseWork):
    """Several operations as one."""

    def __init__(self, works) -> None:
        super().__init__()
        self.works = works

    def wait(self, timeout: timedelta = NO_TIME) -> bool:
        for work in self.works:
            work.wait(timeout)
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self.works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self.works)

    def exception(self) -> Exception | None:
        return next(filter(None, (work.exception() for work in self.works)), None)

    def result(self) -> list[torch.Tensor]:
        return [tensor for work in self.works for tensor in work.result()]


class Service:
    """The thread. It starts with the first operation that it is needed for."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.works: list[Work] = []
        self.limits: dict[int, tuple[float, Work]] = {}  # by waiting thread: the deadline of its operation
        self.next_check = 0.0  # when the idle thread wakes up; 0: it is awake
        self.thread: threading.Thread | None = None
        self.callbacks: ThreadPoolExecutor | None = None
        self.ending = False

    def add(self, work: Work) -> None:
        with self.condition:
            self.works.append(work)
            self._wake()

    def outstanding(self, group) -> list[Work]:
        """Returns the operations of the group that are in flight."""
        with self.condition:
            works = {id(work): work for work in (*self.works, *(work for _, work in list(self.limits.values())))}
        return [work for work in works.values() if work.group is group and not work.poll()]

    def begin_wait(self, work: Work, deadline: float) -> None:
        """Aborts the group if this thread does not call end_wait() before the deadline (time.monotonic())."""
        self.limits[threading.get_ident()] = (deadline, work)
        if self.next_check > deadline or self.thread is None:
            with self.condition:
                self._wake()

    def end_wait(self) -> None:
        del self.limits[threading.get_ident()]

    def run(self, function, argument) -> None:
        """Calls a function that may run callbacks of the program, which may wait for other operations: not in the thread that
        completes them."""
        if threading.current_thread() is not self.thread:
            function(argument)
            return
        if self.callbacks is None:
            # Without a limit, since callbacks may wait for each other: a thread is added only if all others are busy.
            self.callbacks = ThreadPoolExecutor(sys.maxsize, thread_name_prefix="weft-future")
        self.callbacks.submit(function, argument)

    def _wake(self) -> None:
        if self.thread is None:
            self.thread = threading.Thread(target=self._run, name="weft", daemon=True)
            self.thread.start()
            atexit.register(self._stop)
        elif self.next_check:
            self.condition.notify()

    def _run(self) -> None:
        interval = SHORTEST_POLL
        while not self.ending:
            with self.condition:
                if not self.works:
                    self._sleep()
                    interval = SHORTEST_POLL
                works = list(self.works)
            finished = {id(work) for work in works if work.poll()}
            if finished:
                with self.condition:
                    self.works = [work for work in self.works if id(work) not in finished]
                interval = SHORTEST_POLL
            self._check(works)
            if self.works:
                time.sleep(interval)
                interval = min(2 * interval, LONGEST_POLL)

    def _sleep(self) -> None:
        """Waits for work until the next deadline, under the lock."""
        if self.ending:
            return
        self.next_check = NEVER  # before the limits are read: begin_wait() notifies for a later one
        nearest = min((deadline for deadline, _ in list(self.limits.values())), default=NEVER)
        self.next_check = nearest
        self.condition.wait(None if nearest == NEVER else max(nearest - time.monotonic(), LONGEST_POLL))
        self.next_check = 0.0

    def _check(self, works: list[Work]) -> None:
        now = time.monotonic()
        late = [work for work in works if not work.done and work.deadline < now]
        late += [work for deadline, work in list(self.limits.values()) if deadline < now]
        for work in late:
            work.group.expire(work.name)

    def _stop(self) -> None:
        with self.condition:
            self.ending = True
            self.condition.notify()
        self.thread.join(timeout=1)


service = Service()
