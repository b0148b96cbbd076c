#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# libweft_torch.so without torch and a GPU: the lifetime of what operations refer to, and the end of Python beside threads that
# are in the module. usage: module.py LIBRARY
import ctypes
import gc
import subprocess
import sys
import threading
import time
import unittest
import weakref

LIBRARY = sys.argv[1]
NOT_READY = 600
state = {"event": 0}
POINTER = ctypes.c_void_p


def load():
    module = ctypes.PyDLL(LIBRARY)
    module.weft_torch_types.restype = module.weft_torch_functions.restype = ctypes.py_object
    module.weft_torch_watch.argtypes, module.weft_torch_watch.restype = [ctypes.py_object, *[ctypes.c_double] * 2], None
    return module


class Kept:
    """What an operation uses."""


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(POINTER), ctypes.c_uint)
def create_event(event, _flags):
    event[0] = 1000
    return 0


@ctypes.CFUNCTYPE(ctypes.c_int, POINTER)
def query_event(_event):
    return state["event"]


@ctypes.CFUNCTYPE(ctypes.c_int)
def succeed():
    return 0


class Lifetimes(unittest.TestCase):
    """Of operations by functions of CUDA and MPI that do nothing."""

    def setUp(self):
        self.module = load()
        own = {"cuEventCreate": create_event, "cuEventQuery": query_event}
        names = self.module.weft_torch_functions().split()
        addresses = tuple(ctypes.cast(own.get(name, succeed), POINTER).value for name in names)
        self.queue = self.module.weft_torch_types()[0](addresses, 1, 2)

    def issue(self):
        """Issues an operation; returns a reference to what it uses."""
        kept = Kept()
        self.assertEqual(self.queue.begin(3, True, [(1, (1, 1, 4, 528, 33))]), (0, False, True))
        self.queue.end("all_reduce", [kept], 60.0)
        return weakref.ref(kept)

    def test_complete(self):
        for state["event"] in (NOT_READY, 0):
            reference = self.issue()
            self.queue.retire()
            self.assertEqual(reference() is None, state["event"] == 0)

    def test_queue_that_ends_first(self):
        """After an error of CUDA no operation is known to be complete."""
        for state["event"] in (NOT_READY, 700):
            self.setUp()
            reference = self.issue()
            if state["event"] == 700:
                self.assertRaisesRegex(RuntimeError, "error 700 of CUDA", self.queue.retire)
            self.assertIsNotNone(reference())
            self.queue.acquire()
            self.queue.close()
            self.queue.release()
            del self.queue
            gc.collect()
            self.assertIsNone(reference())

    def test_queue_that_ends_after_a_look(self):
        """The watching thread has found operations complete, and nobody has collected them."""
        state["event"] = 0
        reference = self.issue()
        self.module.weft_torch_watch([self.queue], 1e-3, 1e-2)
        self.assertEqual(self.queue.watched(), 0)
        self.assertIsNotNone(reference())
        del self.queue
        self.assertIsNone(reference())


class End(unittest.TestCase):
    def test_thread_that_comes_back_late(self):
        """A thread needs Python's lock while Python ends: the process ends as without the thread."""
        done = subprocess.run([sys.executable, __file__, LIBRARY, "late"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "late\n"), done.stderr)


class Late:
    """Ends with the module `late`, after threads have lost Python's lock, and gives them time to ask for it."""

    def __del__(self, sleep=time.sleep, print_=print):
        sleep(0.5)
        print_("late", flush=True)


def end_beside_thread():
    module, entered = load(), threading.Event()

    def watch():
        entered.set()
        module.weft_torch_watch([], 1e-3, 0.2)

    threading.Thread(target=watch, daemon=True).start()
    entered.wait()
    late = type(sys)("late")
    late.object = Late()
    sys.modules["late"] = late


if __name__ == "__main__":
    if sys.argv[2:] == ["late"]:
        end_beside_thread()
    else:
        unittest.main(argv=sys.argv[:1], verbosity=2)
