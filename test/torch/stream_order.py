#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The order of a group's operations in streams, without a GPU: streams and events that only record what they are asked for.
import ctypes
import sys
import threading
import time
import types
import unittest
import unittest.mock
import weakref
from datetime import timedelta

import torch
from recorded_streams import POINTER, Driver, function, log, state

WAITED, NOT_WAITED = False, True
if not hasattr(torch.distributed.Backend, "WEFT"):
    import weft_mpi.torch  # noqa: F401
from weft_mpi import mpi  # noqa: E402
from weft_mpi.torch import capture, native, streams, watching  # noqa: E402
from weft_mpi.torch import group as group_module  # noqa: E402
from weft_mpi.torch.collectives import Call  # noqa: E402
from weft_mpi.torch.group import WeftGroup  # noqa: E402

native.driver = lambda: Driver
SIGNATURES = {  # of the functions that C calls, without the communicator
    "Bcast": (POINTER, ctypes.c_longlong, POINTER, ctypes.c_int),
    "Allreduce": (POINTER, POINTER, ctypes.c_longlong, POINTER, POINTER),
    "Allgather": (POINTER, ctypes.c_longlong, POINTER) * 2,
}
SIGNATURES.update(Reduce_scatter_block=SIGNATURES["Allreduce"], Alltoall=SIGNATURES["Allgather"])


class Library:
    """Functions that succeed; collectives record the stream into which they go."""

    def __init__(self):
        self.target, self.failed, self.revoked, self.freed, self.codes = None, 0, [], [], {}
        self.others_come, self.left = True, threading.Event()
        for name, parameters in SIGNATURES.items():
            setattr(self, f"{name}_enqueue_c", self._collective(name, parameters))
        self.Stream_comm_redirect = function(POINTER, POINTER)(self._redirect)
        self.Comm_is_revoked = function(POINTER, POINTER)(lambda _comm, _flag: 0)

    def _collective(self, name, parameters):
        def record(*arguments):
            count = arguments[1 if name in ("Bcast", "Allgather", "Alltoall") else 2]
            if count == 0:
                return self.failed
            log.append(f"{name.lower()} in {self.target}")
            self.arguments = arguments[:-1]
            return self.codes.get(name, 0)

        return function(*parameters, POINTER)(record)

    def _redirect(self, _comm, raw):
        self.target = raw or 0
        return 0

    def Barrier(self, comm):
        self.freed.append(f"barrier of {comm.value}")
        if not self.others_come:
            assert self.left.wait(20)
        return 0 if self.others_come else mpi.FAILURES[2]

    def Comm_revoke(self, comm):
        self.revoked.append(comm.value)
        state.complete = True  # its kernels leave
        self.left.set()
        return 0

    def Comm_free(self, comm):
        self.freed.append(comm._obj.value)
        return 0

    def __getattr__(self, _name):
        return lambda *_: 0


class Group(WeftGroup):
    """A group of two processes, of which `ended` have ended."""

    def __init__(self):
        job = types.SimpleNamespace(
            library=Library(), communicators=1, free=lambda comm: job.library.freed.append(comm.value)
        )
        job.error = lambda code: mpi.MpiError(code, code, f"error {code}")
        super().__init__(job, None, 0, 2, timedelta(seconds=100), ctypes.c_void_p(1))
        self.ended = []

    def _ended_ranks(self):
        return self.ended


def kernels(gpu=0):
    group = Group()
    made = streams.Kernels(group, types.SimpleNamespace(index=gpu))
    made.comm = ctypes.c_void_p(2)
    made.open()
    group.kernels[gpu] = made
    watching.watch.idle = False  # no thread
    group.library.target = made.own_raw
    return made


def run(of, asynchronous, finish=None):
    options = types.SimpleNamespace(asyncOp=asynchronous, timeout=timedelta(0))
    return of.run("x", [Call("Allreduce_c", (1, 2, 3, 528, 33), (), finish)], options, [])


class Order(unittest.TestCase):
    def setUp(self):
        state.current, state.captured, state.capture, state.complete = 0, False, 1, True
        self.kernels = kernels()
        self.own = self.kernels.own_raw
        log.clear()

    def recorded(self):
        found = list(log)
        log.clear()
        return found

    def test_current_stream(self):
        run(self.kernels, WAITED)
        run(self.kernels, WAITED, lambda: log.append(f"finish in {state.current}"))
        self.assertEqual(self.recorded(), ["allreduce in 0", "allreduce in 0", "finish in 0"])

    def test_own_stream(self):
        own = self.own
        run(self.kernels, WAITED)
        work = run(self.kernels, NOT_WAITED, lambda: log.append(f"finish in {state.current}"))
        self.assertEqual(
            self.recorded(), ["allreduce in 0", f"{own} waits for 0", f"allreduce in {own}", f"finish in {own}"]
        )
        run(self.kernels, WAITED)
        self.assertEqual(self.recorded(), [f"0 waits for {own}", "allreduce in 0"])
        state.current = 5
        work.wait()
        self.assertEqual((self.recorded(), len(work.keep)), ([f"5 waits for {own}"], 1))  # memory of stream 0
        state.current = 0
        work.wait()
        self.assertEqual((self.recorded(), len(work.keep)), ([f"0 waits for {own}"], 0))

    def test_other_streams(self):
        for state.current in (0, 5, 0):
            run(self.kernels, WAITED)
        self.assertEqual(
            self.recorded(), ["allreduce in 0", "5 waits for 0", "allreduce in 5", "0 waits for 5", "allreduce in 0"]
        )
        state.current = 5
        run(self.kernels, NOT_WAITED)  # the current stream does not follow the last operation
        self.assertEqual(
            self.recorded(),
            [f"{self.own} waits for 5", f"{self.own} waits for 0", f"allreduce in {self.own}"],
        )

    def test_capture(self):
        run(self.kernels, WAITED)
        state.current, state.captured = 8, True
        work = run(self.kernels, NOT_WAITED)
        work.wait()
        self.assertEqual(self.recorded(), ["allreduce in 0", "allreduce in 8", "8 waits for 8"])
        state.captured = False
        run(self.kernels, WAITED)  # events of the capture do not count
        self.assertEqual(self.recorded(), ["8 waits for 0", "allreduce in 8"])

    def test_branches_of_captures(self):
        state.captured = True
        for state.current in (8, 9, 9, 8):
            run(self.kernels, WAITED)
        self.assertEqual(
            self.recorded(),
            ["allreduce in 8", "9 waits for 8", "allreduce in 9", "allreduce in 9", "8 waits for 9", "allreduce in 8"],
        )
        state.capture, state.current = 2, 9  # whose streams cannot wait for events of the first
        run(self.kernels, WAITED)
        self.assertEqual(self.recorded(), ["allreduce in 9"])
        state.captured = False
        run(self.kernels, WAITED)
        state.captured, state.current = True, 8
        run(self.kernels, WAITED)
        self.assertEqual(self.recorded(), ["allreduce in 9", "8 waits for 9", "allreduce in 8"])

    def test_look(self):
        run(self.kernels, WAITED)
        work = run(self.kernels, NOT_WAITED)
        now = time.monotonic()
        state.complete = False
        self.assertTrue(self.kernels.look(now))
        self.assertIsNone(self.kernels.group.failure)
        self.assertTrue(self.kernels.look(now + 200))
        self.assertRegex(self.kernels.group.failure, "Timed out in x")
        state.complete = True
        self.assertFalse(self.kernels.look(now))
        self.assertEqual((self.kernels.watched, len(work.keep)), (0, 0))
        for call in (work.wait, lambda: run(self.kernels, WAITED), self.kernels.done.wait):
            with self.assertRaisesRegex(torch.distributed.DistBackendError, "Timed out in x"):
                call()

    def test_half_begun(self):
        """The second call of an operation fails: later operations follow the first, whose memory lives until it is complete."""
        temporary = torch.zeros(3)
        reference = weakref.ref(temporary)
        for asynchronous in (WAITED, NOT_WAITED):
            for state.captured in (False, True):
                self.kernels = kernels()
                self.kernels.group.library.codes["Alltoall"] = 5
                options = types.SimpleNamespace(asyncOp=asynchronous, timeout=timedelta(0))
                arguments = (1, 2, 4, 5, 6, 7)
                calls = [Call("Allgather_c", arguments, (temporary,)), Call("Alltoall_c", arguments, ())]
                state.current, state.complete = 3, False
                log.clear()
                with self.assertRaisesRegex(torch.distributed.DistBackendError, "x: error 5"):
                    self.kernels.run("x", calls, options, [])
                used = self.kernels.own_raw if asynchronous and not state.captured else 3
                state.current = 7
                self.recorded()
                run(self.kernels, WAITED)
                self.assertEqual(self.recorded(), [f"7 waits for {used}", "allreduce in 7"])
                state.complete = state.captured
                del calls
                if not state.captured:
                    self.assertTrue(self.kernels.look(time.monotonic()))
                    self.assertEqual(self.kernels.watched, 2)
                    self.assertIsNotNone(reference())
                    state.complete = True
                    self.assertFalse(self.kernels.look(time.monotonic()))
        del temporary
        self.assertIsNone(reference())

    def test_death(self):
        """A kernel that leaves since a rank has ended is no success."""
        group = self.kernels.group
        work = run(self.kernels, NOT_WAITED)
        run(self.kernels, WAITED)
        self.assertTrue(work.is_success())
        group.library.failed, group.ended = mpi.FAILURES[0], [1]
        self.assertFalse(self.kernels.look(time.monotonic()))
        self.assertEqual((group.failure, group.library.revoked), ("rank 1 of the group has ended", [1, 2]))
        for call in (work.wait, work.get_future().wait, self.kernels.done.wait):
            with self.assertRaisesRegex(Exception, "rank 1 of the group has ended"):
                call()

    def test_death_before_thread(self):
        """The program asks, or ends the group, before the thread has looked."""
        group = self.kernels.group
        work = run(self.kernels, NOT_WAITED)
        group.library.failed = mpi.FAILURES[2]
        self.assertFalse(work.is_success())
        self.assertRegex(str(work.exception()), "another process has aborted the group")
        self.kernels = kernels()
        group = self.kernels.group
        run(self.kernels, WAITED)
        group.library.failed, group.ended = mpi.FAILURES[0], [1]
        with self.assertLogs("weft_mpi.torch.streams", "WARNING") as logged:
            group.shutdown()
        self.assertIn("rank 1 of the group has ended", logged.output[0])
        self.assertEqual(group.library.freed, [2, 1])

    def test_revoked_while_made(self):
        """Another thread revokes the group while the communicator of the kernels is made."""
        group, made = self.kernels.group, self.kernels
        group.kernels = {}

        def make(*_):
            group.abort()
            return made

        with unittest.mock.patch.object(streams, "make", make):
            with unittest.mock.patch.object(capture, "is_capturing", lambda _device: False):
                calls = [Call("Allreduce_c", (), ())]
                self.assertIs(group.kernels_for(torch.device("cuda", 0), "x", calls), made)
        self.assertEqual(group.library.revoked, [1, 2])


class Watched(unittest.TestCase):
    """The thread that looks at the operations."""

    def setUp(self):
        for name, value in (
            ("LONGEST_SILENCE", 0.05),
            ("SELDOM", 0.02),
            ("TICK", 0.001),
            ("relax_capture", lambda: None),
        ):
            patch = unittest.mock.patch.object(watching, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.watch = watching.Watch()
        patch = unittest.mock.patch.object(streams, "watch", self.watch)
        patch.start()
        self.addCleanup(patch.stop)
        self.looks = 0

    def looked(self, seconds):
        """Returns whether the thread looks at a group within the last part of a time."""
        time.sleep(seconds / 2)
        before = self.looks
        time.sleep(seconds / 2)
        return self.looks > before

    def test_graphs(self):
        """The thread looks on at groups with captured operations, whose launches it does not see."""
        state.current, state.captured = 8, False
        made = kernels()
        made.progress = lambda: setattr(self, "looks", self.looks + 1)
        self.watch.add(made)
        self.addCleanup(self.watch._stop)
        self.assertFalse(self.looked(0.4))
        state.captured = True
        run(made, WAITED)
        self.assertTrue(self.looked(0.4))
        before = self.looks
        time.sleep(0.3)
        self.assertLess(self.looks - before, 20)

    def test_revocation_of_graphs(self):
        state.current, state.captured, state.complete = 8, True, True
        made = kernels()
        run(made, WAITED)
        made.group.library.failed, made.group.ended = mpi.FAILURES[0], [1]
        made.look(time.monotonic())
        self.assertEqual(made.group.failure, "rank 1 of the group has ended")

    def test_threads(self):
        """Groups that threads make and free at the same time."""
        self.watch.thread = threading.current_thread()
        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        sys.setswitchinterval(1e-6)

        def make_and_free():
            for _ in range(300):
                made = object()
                self.watch.add(made)
                self.watch.remove(made)

        threads = [threading.Thread(target=make_and_free) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.watch.all, [])


class End(unittest.TestCase):
    """The end of a group, which other processes may not reach."""

    def setUp(self):
        state.current, state.captured, state.complete = 0, False, True
        self.kernels = kernels()
        self.group, self.library = self.kernels.group, self.kernels.group.library
        run(self.kernels, WAITED)
        for name, value in (("END_TIMEOUT", 0.3), ("END_TIMEOUT_IN_HANDLER", 0.05)):
            patch = unittest.mock.patch.object(group_module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def shutdown_in_handler(self):
        begin = time.monotonic()
        try:
            raise LookupError
        except LookupError:
            self.group.shutdown()
        self.assertLess(time.monotonic() - begin, 0.3)

    def test_together(self):
        self.group.shutdown()
        self.assertEqual((self.library.revoked, self.library.freed), ([], ["barrier of 1", 2, 1]))
        self.assertEqual((self.kernels.comm.value, self.group.comm, self.group.kernels), (None, None, {}))

    def test_kernels_wait(self):
        state.complete = False
        begin = time.monotonic()
        with self.assertLogs("weft_mpi.torch.streams", "WARNING") as logged:
            self.group.shutdown()
        self.assertGreater(time.monotonic() - begin, 0.25)
        self.assertIn("destroyed while operations were in flight", logged.output[0])
        self.assertEqual((self.library.revoked, self.library.freed), ([1, 2], [2, 1]))

    def test_kernels_wait_in_handler(self):
        state.complete = False
        with self.assertLogs("weft_mpi.torch.streams", "WARNING"):
            self.shutdown_in_handler()
        self.assertEqual((self.library.revoked, self.library.freed), ([1, 2], [2, 1]))

    def test_others_are_elsewhere(self):
        """Their kernels wait for this process, which has left by an exception."""
        self.library.others_come = False
        self.shutdown_in_handler()
        self.assertEqual((self.library.revoked, self.library.freed), ([1, 2], ["barrier of 1", 2, 1]))
        self.assertRegex(self.group.failure, "Timed out in destroy_process_group")

    def test_time_limit(self):
        self.library.others_come, self.group.time_limit = False, 0.05
        self.group.shutdown()
        self.assertEqual((self.library.revoked, self.library.freed), ([1, 2], ["barrier of 1", 2, 1]))

    def test_error_of_cuda(self):
        state.cuda_error = 700
        self.addCleanup(setattr, state, "cuda_error", 0)
        with self.assertLogs("weft_mpi.torch.streams", "WARNING") as logged:
            self.group.shutdown()
        self.assertIn("error 700 of CUDA", logged.output[0])
        self.assertEqual((self.library.revoked, self.library.freed), ([1, 2], [2, 1]))


class Capture(unittest.TestCase):
    """Operations that the host executes for a graph."""

    def setUp(self):
        state.current, state.captured = 8, True
        self.group = Group()
        patch = unittest.mock.patch.object(capture.order, "stream_of", lambda _library, raw: raw)
        patch.start()
        self.addCleanup(patch.stop)

    def test_memory_of_messages(self):
        temporary = torch.zeros(3)
        reference, finished = weakref.ref(temporary), []
        calls = [Call("Send_c", (), (temporary,), lambda: finished.append(1))]
        work = capture.run(self.group, "send", calls, [], torch.device("cuda", 0))
        del temporary, calls
        self.assertIsNotNone(reference())
        work.wait()
        self.assertEqual((reference(), finished), (None, [1]))
        work.wait()
        self.assertEqual(finished, [1])


if __name__ == "__main__":
    unittest.main()
