# SPDX-License-Identifier: BSD-3-Clause
# Tests whether processes can pass file descriptors, by which ranks share cuMemMap memory.
from __future__ import annotations

import array
import ctypes
import os
import socket
import subprocess
import sys

from weft_mpi import children

PIDFD_OPEN, PIDFD_GETFD = 434, 438  # the same on all architectures
PR_SET_PTRACER, PR_SET_PTRACER_ANY = 0x59616D61, -1  # sys/prctl.h


def call(number: int, *arguments: int) -> tuple[int, str]:
    """Returns (result, error text)."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(value) for value in arguments])
    return result, os.strerror(ctypes.get_errno()) if result < 0 else ""


def why_not_taken() -> str:
    """Returns "" if a process can duplicate a descriptor of another process of this user; else the reason."""
    words = children.python("weft_mpi.machine.descriptors")
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, env=children.clean_environment()) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process, why = call(PIDFD_OPEN, child.pid, 0)
        if process < 0:
            return f"pidfd_open: {why}"
        taken, why = call(PIDFD_GETFD, process, 1, 0)
        os.close(process)
        if taken < 0:
            return f"pidfd_getfd: {why}"
        os.close(taken)
        return ""


def why_not_sent() -> str:
    """Returns "" if descriptors can be sent through a socket with an abstract name; else the reason."""
    name = f"\x00weft-doctor-{os.getpid()}"
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with receiver, sender:
        try:
            receiver.bind(name)
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [sender.fileno()]))
            sender.sendmsg([b"x"], [rights], 0, name)
            received = receiver.recvmsg(1, socket.CMSG_SPACE(4))[1]
        except OSError as problem:
            return problem.strerror or str(problem)
    descriptors = array.array("i")
    for _, _, data in received:
        descriptors.frombytes(data)
    for descriptor in descriptors:
        os.close(descriptor)
    return "" if descriptors else "no descriptor received"


def wait_for_end_of_input() -> None:
    """Child of why_not_taken(): permits ptrace by other processes of this user (Yama), like MPI_Init, and waits."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(PR_SET_PTRACER_ANY), 0, 0, 0)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    wait_for_end_of_input()
