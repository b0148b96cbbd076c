#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Operations that the module issues, without a GPU: the calls of MPI for tensors and options, and the calls that it leaves to the
# methods in Python.
# usage: issued.py [time]: the second prints the time of issuing an operation instead, with functions that do nothing
import ctypes
import sys
import threading
import time
import types
import unittest
from datetime import timedelta

import torch
import torch._C._distributed_c10d as c10d
from recorded_streams import Driver, incomplete, log, recorded, state
from stream_order import kernels
from torch.distributed import ReduceOp
from weft_mpi import mpi
from weft_mpi.torch import extraction, native, streams, watching

BYTE, FLOAT, SUM, MAX = 583, 528, 33, 35
LEFT = object()


class Gpu:
    """A tensor that says that it is in the memory of GPU 0."""

    def __init__(self, tensor):
        self.tensor = tensor

    def get_device(self):
        return 0

    def __len__(self):
        return len(self.tensor)

    def __getattr__(self, name):
        return getattr(self.tensor, name)


def options(kind, asynchronous=False, **fields):
    made = kind()
    made.asyncOp = asynchronous
    for name, value in fields.items():
        setattr(made, name, value)
    return made


class Issued(unittest.TestCase):
    def setUp(self):
        state.current, state.captured, state.complete = 5, False, True
        self.kernels = kernels()
        self.group, self.library = self.kernels.group, self.kernels.group.library
        self.left = []
        for method in native.METHODS:
            setattr(self.group, method, lambda *arguments, **words: self.left.append((arguments, words)) or LEFT)
        native.install(self.kernels, streams.StreamWork, streams.current_raw_stream)
        log.clear()

    def issue(self, method, *arguments):
        """Returns the work of a call, which the module must issue, and the arguments of MPI."""
        work = getattr(self.group, method)(*arguments)
        self.assertEqual(self.left, [])
        self.assertIsNot(work, LEFT)
        return work, tuple(argument or 0 for argument in self.library.arguments)

    def leave(self, method, *arguments):
        """The module leaves the call to the method in Python."""
        before = list(log)
        self.assertIs(getattr(self.group, method)(*arguments), LEFT)
        self.assertEqual((self.left.pop(), log), ((arguments, {}), before))

    def test_allreduce(self):
        tensor = Gpu(torch.ones(3))
        work, arguments = self.issue("allreduce", [tensor], options(c10d.AllreduceOptions))
        self.assertIs(work, self.kernels.done)
        self.assertEqual((arguments, log), ((mpi.IN_PLACE, tensor.data_ptr(), 3, FLOAT, SUM), ["allreduce in 5"]))
        of_max = options(c10d.AllreduceOptions, True, reduceOp=ReduceOp.MAX)
        work, arguments = self.issue("allreduce", [tensor], of_max)
        self.assertEqual(arguments, (mpi.IN_PLACE, tensor.data_ptr(), 3, FLOAT, MAX))
        self.assertEqual(log[1:], [f"{self.kernels.own_raw} waits for 5", f"allreduce in {self.kernels.own_raw}"])
        self.assertIs(work.result()[0], tensor)
        self.assertEqual(work.keep, [tensor])
        state.current = 6
        work.wait()
        self.assertEqual((log[-1], len(work.keep)), (f"6 waits for {self.kernels.own_raw}", 1))
        self.assertFalse(self.kernels.look(time.monotonic()))
        self.assertEqual(work.keep, [])

    def test_movements(self):
        whole, part = Gpu(torch.ones(2, 4)), Gpu(torch.ones(4))
        _, arguments = self.issue("_allgather_base", whole, part, options(c10d.AllgatherOptions))
        self.assertEqual(arguments, (part.data_ptr(), 16, BYTE, whole.data_ptr(), 16, BYTE))
        _, arguments = self.issue("_reduce_scatter_base", part, whole, options(c10d.ReduceScatterOptions))
        self.assertEqual(arguments, (whole.data_ptr(), part.data_ptr(), 4, FLOAT, SUM))
        _, arguments = self.issue("alltoall_base", Gpu(torch.ones(4)), part, [], [], options(c10d.AllToAllOptions))
        self.assertEqual((arguments[0], arguments[1:3]), (part.data_ptr(), (8, BYTE)))
        _, arguments = self.issue("broadcast", [whole], options(c10d.BroadcastOptions, rootRank=1))
        self.assertEqual(arguments, (whole.data_ptr(), 32, BYTE, 1))
        self.assertEqual(log, [f"{name} in 5" for name in ("allgather", "reduce_scatter_block", "alltoall", "bcast")])

    def test_left(self):
        plain, tensor = options(c10d.AllreduceOptions), Gpu(torch.ones(2, 2))
        for other in (
            torch.ones(3),  # in the memory of the host
            Gpu(torch.ones(3, 2).t()),
            Gpu(torch.view_as_complex(torch.ones(3, 2)).conj()),
            Gpu(torch.ones(3).to_sparse()),
            Gpu(torch.ones(3, device="meta")),  # without memory, as a tensor that consists of others
            None,
        ):
            self.leave("allreduce", [other], plain)
        self.leave("allreduce", [tensor, tensor], plain)
        self.leave("allreduce", tensor, plain)
        self.leave("allreduce", [tensor])
        self.leave("allreduce", [tensor], options(c10d.AllreduceCoalescedOptions))
        self.leave("allreduce", [tensor], options(c10d.AllreduceOptions, reduceOp=ReduceOp.AVG))
        scaled = torch._C._distributed_c10d._make_nccl_premul_sum(2.0)
        self.leave("allreduce", [tensor], options(c10d.AllreduceOptions, reduceOp=scaled))
        gather = options(c10d.AllgatherOptions)
        self.leave("_allgather_base", Gpu(torch.ones(5)), Gpu(torch.ones(2)), gather)
        self.leave("_allgather_base", Gpu(torch.ones(4)), Gpu(torch.ones(2, dtype=torch.float16)), gather)
        whole = torch.ones(4)
        self.leave("_allgather_base", Gpu(whole), Gpu(whole[2:]), gather)
        exchange = options(c10d.AllToAllOptions)
        self.leave("alltoall_base", Gpu(torch.ones(3)), Gpu(torch.ones(3)), [], [], exchange)
        self.leave("alltoall_base", Gpu(torch.ones(4)), tensor, [2, 2], [2, 2], exchange)
        self.group.failure = "a rank has ended"
        self.leave("allreduce", [tensor], plain)

    def test_from_native_code(self):
        """torch's own code calls the methods by their names, and gets works of Python back."""
        made = kernels(-1)  # the GPU that has the memory of the host, as tensors say
        native.install(made, streams.StreamWork, streams.current_raw_stream)
        tensor, whole = torch.ones(3), torch.ones(6)
        for asynchronous in (True, False):
            log.clear()
            c10d.ProcessGroup.allreduce(made.group, [tensor], options(c10d.AllreduceOptions, asynchronous)).wait()
            in_own = [f"{made.own_raw} waits for 5", f"allreduce in {made.own_raw}", f"5 waits for {made.own_raw}"]
            in_current = [f"5 waits for {made.own_raw}", "allreduce in 5"]
            self.assertEqual(log, in_own if asynchronous else in_current)
        work = c10d.ProcessGroup._allgather_base(made.group, whole, tensor, options(c10d.AllgatherOptions, True))
        self.assertEqual(log[-1], f"allgather in {made.own_raw}")
        self.assertEqual(work.get_future().wait(), [whole])

    def test_keywords(self):
        tensor, plain = Gpu(torch.ones(3)), options(c10d.AllreduceOptions)
        self.assertIs(self.group.allreduce([tensor], opts=plain), LEFT)
        self.assertEqual(self.left, [(([tensor],), {"opts": plain})])

    def watched(self, seconds=0.05):
        """Returns whether the module watches the queue for the whole time, as nothing needs Python."""
        begin = time.monotonic()
        native.module().weft_torch_watch([self.kernels.queue], 0.001, seconds)
        return time.monotonic() - begin >= seconds

    def test_watched(self):
        self.assertTrue(self.watched())
        state.complete = False
        asynchronous = options(c10d.AllreduceOptions, True)
        work, _ = self.issue("allreduce", [Gpu(torch.ones(3))], asynchronous)
        self.assertTrue(self.watched())
        state.complete = True
        self.assertTrue(self.watched())
        self.assertEqual((self.kernels.watched, len(work.keep)), (0, 1))  # without Python's lock nothing is freed,
        self.issue("allreduce", [Gpu(torch.ones(3))], options(c10d.AllreduceOptions))
        self.assertEqual(work.keep, [])  # but by the next operation,
        work, _ = self.issue("allreduce", [Gpu(torch.ones(3))], asynchronous)
        self.assertFalse(self.watched(5))  # or soon by the thread
        self.kernels.look(time.monotonic())
        self.assertEqual(work.keep, [])

    def test_retired(self):
        """Operations end in their order."""
        for count in range(8):
            self.kernels.look(time.monotonic())
            self.assertEqual(self.kernels.watched, 0)
            recorded.clear()
            for _ in range(7):
                self.issue("allreduce", [Gpu(torch.ones(3))], options(c10d.AllreduceOptions))
            incomplete.update(recorded[7 - count :])
            self.assertEqual(self.kernels.look(time.monotonic()), count > 0)
            self.assertEqual(self.kernels.watched, count)
            incomplete.clear()

    def test_watched_failures(self):
        state.complete = False
        self.issue("allreduce", [Gpu(torch.ones(3))], options(c10d.AllreduceOptions, timeout=timedelta(seconds=0.01)))
        self.assertFalse(self.watched(5))  # the time limit
        state.complete = True
        self.kernels.look(time.monotonic())
        self.assertTrue(self.watched())
        self.library.failed = mpi.FAILURES[2]
        self.assertTrue(self.watched())
        self.issue("allreduce", [Gpu(torch.ones(3))], options(c10d.AllreduceOptions))
        self.assertFalse(self.watched(5))  # a kernel that has left
        self.library.failed = 0
        self.assertTrue(self.watched())
        state.cuda_error = 700
        self.addCleanup(setattr, state, "cuda_error", 0)
        self.issue("allreduce", [Gpu(torch.ones(3))], options(c10d.AllreduceOptions))
        self.assertFalse(self.watched(5))

    def test_time_limit(self):
        state.complete = False
        own = options(c10d.AllreduceOptions, timeout=timedelta(seconds=3))
        now = time.monotonic()
        self.issue("allreduce", [Gpu(torch.ones(3))], own)
        deadline, begin, name = self.kernels.queue.oldest()
        self.assertEqual((name, round(deadline - begin, 6)), ("all_reduce", 3))
        self.assertAlmostEqual(begin, now, delta=1)
        self.assertTrue(self.kernels.look(now + 4))
        self.assertRegex(self.group.failure, "Timed out in all_reduce")

    def test_failure(self):
        self.library.codes["Allreduce"] = 5
        with self.assertRaisesRegex(torch.distributed.DistBackendError, "all_reduce: error 5"):
            self.group.allreduce([Gpu(torch.ones(3))], options(c10d.AllreduceOptions))
        self.library.codes.clear()
        self.issue("allreduce", [Gpu(torch.ones(3))], options(c10d.AllreduceOptions))  # the lock is free

    def test_wake(self):
        watching.watch.idle = True
        self.issue("allreduce", [Gpu(torch.ones(3))], options(c10d.AllreduceOptions))
        self.assertFalse(watching.watch.idle)

    def test_end(self):
        self.group.shutdown()
        with self.assertRaisesRegex(torch.distributed.DistBackendError, "the process group was destroyed"):
            self.group.allreduce([torch.ones(3)], options(c10d.AllreduceOptions))


class Extraction(unittest.TestCase):
    def setUp(self):
        self.general = extraction.general
        self.assertIsNotNone(self.general)  # else torch examines results slowly
        self.addCleanup(setattr, extraction, "general", self.general)
        self.addCleanup(setattr, torch._jit_internal, "_TensorExtractor", self.general)

    def test_tensors(self):
        """The same tensors as torch finds; those of a list of tensors without torch."""
        one, other, asked = torch.ones(2), torch.nn.Parameter(torch.ones(3)), []
        direct = [[], [one], [one, other, one]]
        values = [*direct, one, (one,), [[one], other], {"a": one}, [one, None], [1, "text"], None, threading.Lock()]
        extract = torch._jit_internal._extract_tensors
        expected = [[id(each) for each in extract(value)] for value in values]
        extraction.install()
        extraction.general = lambda *arguments, **words: asked.append(1) or self.general(*arguments, **words)
        self.assertEqual([[id(each) for each in extract(value)] for value in values], expected)
        self.assertEqual(len(asked), len(values) - len(direct))

    def test_no_such_class(self):
        torch._jit_internal._TensorExtractor, extraction.general = None, None  # as in another torch
        extraction.install()
        self.assertIsNone(torch._jit_internal._TensorExtractor)


class Described(unittest.TestCase):
    """Tensors that DLPack's functions of torch describe; here in the memory of the host, GPU -1 as tensors say."""

    DESCRIBE = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
    WORDS, DESCRIBES = 7, 5  # of DLPackExchangeAPI

    @unittest.skipIf(native.EXCHANGE is None, "torch has no functions of DLPack in C")
    def setUp(self):
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        name = b"dlpack_exchange_api"
        self.table = (ctypes.c_uint64 * self.WORDS).from_buffer_copy(
            ctypes.string_at(pointer(native.EXCHANGE, name), 8 * self.WORDS)
        )
        real, self.described = self.DESCRIBE(self.table[self.DESCRIBES]), 0

        def describe(tensor, out):
            self.described += 1
            try:
                return real(tensor, out)
            except Exception:  # pylint: disable=broad-except
                return -1

        self.describe = self.DESCRIBE(describe)
        self.table[self.DESCRIBES] = ctypes.cast(self.describe, ctypes.c_void_p).value
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.addCleanup(setattr, native, "EXCHANGE", native.EXCHANGE)
        native.EXCHANGE = new(ctypes.addressof(self.table), name, None)
        state.current, state.captured, state.complete = 5, False, True
        self.kernels = kernels(-1)
        self.group, self.library = self.kernels.group, self.kernels.group.library
        for method in native.METHODS:
            setattr(self.group, method, lambda *_: LEFT)
        native.install(self.kernels, streams.StreamWork, streams.current_raw_stream)

    def issue(self, method, *arguments, described):
        """Returns the arguments of MPI of a call that the module issues; None: it leaves the call to the method in Python."""
        before = self.described
        work = getattr(self.group, method)(*arguments)
        self.assertEqual(self.described - before, described)
        return None if work is LEFT else tuple(argument or 0 for argument in self.library.arguments)

    def test_calls(self):
        plain, tensor = options(c10d.AllreduceOptions), torch.ones(3)
        expected = (mpi.IN_PLACE, tensor.data_ptr(), 3, FLOAT, SUM)
        self.assertEqual(self.issue("allreduce", [tensor], plain, described=1), expected)
        of_max = options(c10d.AllreduceOptions, reduceOp=ReduceOp.MAX)
        for _ in range(2):
            self.assertEqual(self.issue("allreduce", [tensor], plain, described=1), expected)
            self.assertEqual(self.issue("allreduce", [tensor], of_max, described=1), (*expected[:4], MAX))
        double = torch.ones(6, dtype=torch.float64)[2:5]
        arguments = self.issue("allreduce", [double], plain, described=1)
        self.assertEqual(arguments, (mpi.IN_PLACE, double.data_ptr(), 3, 532, SUM))
        parameter = torch.nn.Parameter(torch.ones(2, 4))
        whole, part = torch.ones(2, 4), torch.ones(4)
        arguments = self.issue("broadcast", [parameter], options(c10d.BroadcastOptions, rootRank=1), described=1)
        self.assertEqual(arguments, (parameter.data_ptr(), 32, BYTE, 1))
        arguments = self.issue("_allgather_base", whole, part, options(c10d.AllgatherOptions), described=2)
        self.assertEqual(arguments, (part.data_ptr(), 16, BYTE, whole.data_ptr(), 16, BYTE))
        arguments = self.issue("_reduce_scatter_base", part, whole, options(c10d.ReduceScatterOptions), described=2)
        self.assertEqual(arguments, (whole.data_ptr(), part.data_ptr(), 4, FLOAT, SUM))
        exchange = options(c10d.AllToAllOptions)
        arguments = self.issue("alltoall_base", torch.ones(4), part, [], [], exchange, described=2)
        self.assertEqual((arguments[0], arguments[1:3]), (part.data_ptr(), (8, BYTE)))

    def test_left(self):
        plain = options(c10d.AllreduceOptions)
        for other in (
            torch.ones(3, 2).t(),
            torch.view_as_complex(torch.ones(3, 2)).conj(),
            torch._neg_view(torch.ones(3)),
            torch.ones(3).to_sparse(),
            torch.ones(3, device="meta"),
            torch.ones(3).to(torch.float8_e5m2fnuz),  # has no code of DLPack that torch gives, or none of MPI
        ):
            self.assertIsNone(self.issue("allreduce", [other], plain, described=1), other)
        gather, exchange = options(c10d.AllgatherOptions), options(c10d.AllToAllOptions)
        self.assertIsNone(self.issue("_allgather_base", torch.ones(4), torch.ones(2).half(), gather, described=2))
        whole = torch.ones(4)
        self.assertIsNone(self.issue("_allgather_base", whole, whole[2:], gather, described=2))
        self.assertIsNone(
            self.issue("alltoall_base", torch.tensor(1.0), torch.tensor(1.0), [], [], exchange, described=2)
        )

    def test_other_types(self):
        """Subclasses of tensors may have no memory of their own: their methods are asked."""

        class Other(torch.Tensor):
            pass

        tensor = torch.ones(3).as_subclass(Other)
        arguments = self.issue("allreduce", [tensor], options(c10d.AllreduceOptions), described=0)
        self.assertEqual(arguments, (mpi.IN_PLACE, tensor.data_ptr(), 3, FLOAT, SUM))


def do_nothing(made):
    """Lets the kernels, and the driver, do nothing."""
    nothing = ctypes.pythonapi.PyGILState_Check  # returns 0 without Python's lock, whatever its arguments
    functions = {name: nothing for name in dir(Driver) if name.startswith("cu") and name != "cuEventCreate"}
    native.driver = lambda: types.SimpleNamespace(**functions, cuEventCreate=Driver.cuEventCreate)
    library = made.group.library
    for name in ("Allreduce", "Allgather", "Bcast"):
        setattr(library, f"{name}_enqueue_c", nothing)
    library.Stream_comm_redirect = nothing
    made.open()
    native.install(made, streams.StreamWork, streams.current_raw_stream)


def measure():
    made = kernels(-1)  # the GPU whose memory tensors of the host are in, as their numbers say
    do_nothing(made)
    tensor = torch.ones(2)

    def issue(function, asynchronous):
        wanted = c10d.AllreduceOptions()
        wanted.reduceOp, wanted.asyncOp = ReduceOp.SUM, asynchronous
        function([tensor], wanted)

    for name, function in (("options alone", lambda *_: None), ("issued", made.group.allreduce)):
        for asynchronous in (False, True):
            best, count = 1e9, 2000
            for _ in range(10):
                begin = time.thread_time()
                for _ in range(count):
                    issue(function, asynchronous)
                best = min(best, (time.thread_time() - begin) / count * 1e6)
                made.look(time.monotonic())
            print(f"{name}, asynchronous {asynchronous}: {best:.2f} us")


if __name__ == "__main__":
    if sys.argv[1:] == ["time"]:
        measure()
    else:
        unittest.main()
