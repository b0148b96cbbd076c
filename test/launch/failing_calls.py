#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Makes each system call of the launcher fail once: mpiexec ends, prints the error unless the job succeeded, and leaves
# no process. The same for each call of the start-up of a rank. Prints how the jobs ended.
# usage: failing_calls.py PEER FAIL_CALL_LIBRARY RING
import collections
import errno
import os
import subprocess
import sys
import tempfile
import unittest

RING = os.path.abspath(sys.argv.pop(3))
FAIL_CALL = os.path.abspath(sys.argv.pop(2))
from support import PEER, Mark, run, shell  # noqa: E402

LIMIT = 15  # seconds that a run may take
MAX_CALLS = 12  # calls of one function that fail, one per run
CALLS = {
    "epoll_create1": errno.EMFILE,
    "epoll_ctl": errno.ENOMEM,
    "epoll_wait": errno.ENOMEM,
    "eventfd": errno.EMFILE,
    "signalfd": errno.EMFILE,
    "pipe2": errno.EMFILE,
    "socketpair": errno.EMFILE,
    "fork": errno.EAGAIN,
    "pthread_create": errno.EAGAIN,
    "open": errno.EMFILE,
    "dup2": errno.EBUSY,
    "setsid": errno.EPERM,
    "poll": errno.ENOMEM,
    "read": errno.EIO,
    "write": errno.EIO,
    "recv": errno.ENOMEM,
    "recvmsg": errno.ENOMEM,
    "send": errno.ENOBUFS,
    "socket": errno.EMFILE,
    "bind": errno.EADDRINUSE,
    "listen": errno.EADDRINUSE,
    "getrandom": errno.EAGAIN,
    "waitpid": errno.EINTR,
    "prctl": errno.EPERM,
}
START_CALLS = {
    "socket": errno.EMFILE,
    "bind": errno.EADDRINUSE,
    "listen": errno.EADDRINUSE,
    "accept4": errno.EMFILE,
    "connect": errno.ECONNREFUSED,
    "sendmsg": errno.ENOBUFS,
    "recvmsg": errno.ENOMEM,
    "memfd_create": errno.EMFILE,
    "ftruncate": errno.ENOSPC,
    "getrandom": errno.EAGAIN,
    "sched_getaffinity": errno.EINVAL,
    "mmap": errno.ENOMEM,
    "open": errno.EMFILE,
    "read": errno.EIO,
    "write": errno.EIO,
    "recv": errno.ECONNRESET,
    "send": errno.EPIPE,
    "poll": errno.ENOMEM,
    "prctl": errno.EPERM,
}
MAX_START_CALLS = 4
SCRIPT = PEER + " fences 3 > /dev/null && echo rank $PMI_RANK; echo error $PMI_RANK >&2"


class FailingCalls(unittest.TestCase):
    outcomes = collections.defaultdict(list)  # by process and call: the exit codes of the runs in which it failed

    @classmethod
    def tearDownClass(cls):
        for (process, name), codes in cls.outcomes.items():
            good, bad = codes.count(0), sorted({code for code in codes if code})
            print(
                "%s, %s: %d failed, %d jobs succeeded, the others ended with %s"
                % (process, name, len(codes), good, bad or "-")
            )

    def note(self, process, name, made, status):
        if os.path.exists(made):
            self.outcomes[process, name].append(status)
        return os.path.exists(made)

    def fail_once(self, folder, name, at):
        """False when the run makes fewer calls of the function."""
        made = os.path.join(folder, "%s.%d" % (name, at))
        mark = Mark()
        variables = {"LD_PRELOAD": FAIL_CALL, "FAIL_CALL": name, "FAIL_AT": str(at), "FAIL_MARK": made,
                     "FAIL_ERRNO": str(CALLS[name]), **mark.variables}  # fmt: skip
        try:
            status, output, errors = run("-n", 2, *shell(SCRIPT), variables=variables, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.fail("mpiexec hangs")
        mark.wait_until_gone(2)
        if status == 0:  # the call did not matter
            self.assertEqual(sorted(output.split("\n")), ["", "rank 0", "rank 1"], errors)
        else:
            self.assertGreater(status, 0, errors)
            if name != "write":  # of the message itself
                self.assertIn("mpiexec: ", errors)
        return self.note("launcher", name, made, status)

    def fail_in_rank(self, folder, name, at):
        """False when rank 1 makes fewer calls of the function."""
        made = os.path.join(folder, "rank.%s.%d" % (name, at))
        mark = Mark()
        variables = {"LD_PRELOAD": FAIL_CALL, "FAIL_CALL": name, "FAIL_AT": str(at), "FAIL_MARK": made,
                     "FAIL_ERRNO": str(START_CALLS[name]), "FAIL_PROGRAM": os.path.basename(RING), "WEFT_CUDA": "off",
                     **mark.variables}  # fmt: skip
        try:
            status, _, errors = run("-n", 2, RING, 1, variables=variables, timeout=4 * LIMIT)
        except subprocess.TimeoutExpired:
            self.fail("the job hangs")
        mark.wait_until_gone(2)
        self.assertIn(status, range(128), errors)
        if status:
            self.assertIn("mpiexec: rank ", errors)
        return self.note("rank", name, made, status)

    def test_each_call_of_start_up(self):
        made = set()
        with tempfile.TemporaryDirectory() as folder:
            for name in START_CALLS:
                for at in range(1, MAX_START_CALLS + 1):
                    with self.subTest(call=name, at=at):
                        if not self.fail_in_rank(folder, name, at):
                            break
                        made.add(name)
        self.assertGreater(len(made), 5, made)

    def test_each_call(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in CALLS:
                for at in range(1, MAX_CALLS + 1):
                    with self.subTest(call=name, at=at):
                        made = self.fail_once(folder, name, at)
                        self.assertTrue(made or at > 1, "the function is not called, or not intercepted")
                        if not made:
                            break


if __name__ == "__main__":
    unittest.main(verbosity=2)
