#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Another user attacks running jobs: connects to every socket, opens files of the processes, reads and writes their
memory, sends signals. Nothing is granted, no job fails, and the flood of connections slows no job by more than the
limit. Needs root, to run the job and the attacker as two users without privileges.

usage: other_user.py RING [--seconds N] [--limit FACTOR]"""

import argparse
import array
import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import time

MPIEXEC = os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec")
VICTIM_USER, ATTACKER_USER = 65532, 65534
ROUNDS = "40"


def become(user):
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)


def start_job(ring, **variables):
    names = ("PMI_", "PMIX_", "OMPI_", "SLURM_", "WEFT_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    return subprocess.Popen([MPIEXEC, "-n", "3", ring, ROUNDS], env={**environment, "WEFT_CUDA": "off", **variables},
                            preexec_fn=lambda: become(VICTIM_USER), stderr=subprocess.PIPE)  # fmt: skip


def run_job(ring):
    """Seconds of one job, and its errors."""
    begin = time.monotonic()
    with start_job(ring) as job:
        errors = job.stderr.read().decode()
        status = job.wait(300)
    return time.monotonic() - begin, f"exit code {status}: {errors}" if status or errors else ""


def sockets():
    """Abstract names of Weft's sockets, which every user of the host sees."""
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        return {line.split("@", 1)[1].strip() for line in file if "@weft" in line}


def connect(name):
    """Number of file descriptors received from a socket."""
    received = 0
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with socket.socket(socket.AF_UNIX, kind) as connection:
            connection.settimeout(0.05)
            try:
                connection.connect("\0" + name)
                connection.send(b"\1" * 32)
                _, control, _, _ = connection.recvmsg(64, socket.CMSG_SPACE(64))
                received += sum(len(array.array("i", data)) for _, _, data in control)
            except OSError:
                pass
    return received


class Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def attack_process(pid):
    """Names of the accesses to a process that were granted."""
    granted = []
    for path in ("fd", "cwd/."):
        try:
            os.listdir(f"/proc/{pid}/{path}")
            granted.append(path)
        except OSError:
            pass
    for path in ("mem", "environ", "maps"):
        try:
            with open(f"/proc/{pid}/{path}", "rb") as file:
                if path == "mem" or file.read(1):  # a process that exits has no map: empty
                    granted.append(path)
        except OSError:
            pass
    libc, word = ctypes.CDLL(None, use_errno=True), ctypes.c_uint64(0)
    local = Vector(ctypes.addressof(word), 8)
    for call in ("process_vm_readv", "process_vm_writev"):
        if getattr(libc, call)(pid, ctypes.byref(local), 1, ctypes.byref(Vector(0x400000, 8)), 1, 0) > 0:
            granted.append(call)
    try:
        os.kill(pid, 0)
        granted.append("kill")
    except OSError:
        pass
    return granted


def attack(stop):
    """Until the file `stop` exists; prints what was granted."""
    become(ATTACKER_USER)
    attempts, own = 0, os.getpid()
    while not os.path.exists(stop):
        for name in sockets():
            attempts += 1
            if connect(name):
                print("descriptors received from", name)
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{pid}").st_uid != VICTIM_USER or int(pid) == own:
                    continue
            except OSError:
                continue
            attempts += 1
            granted = attack_process(int(pid))
            if granted:
                print(f"process {pid}: {granted}")
        time.sleep(0.001)
    print(f"attempts {attempts}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ring")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--limit", type=float, default=0, help="largest slow-down of a job; 0: not checked")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("skipped: needs root")
        return 77
    quiet = sorted(run_job(options.ring) for _ in range(3))
    problems = [errors for _, errors in quiet if errors]
    times = []
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        stop = os.path.join(folder, "stop")
        with tempfile.TemporaryFile("w+") as output:
            attacker = os.fork()
            if attacker == 0:
                os.dup2(output.fileno(), 1)
                try:
                    attack(stop)
                finally:
                    sys.stdout.flush()
                    os._exit(0)
            end = time.monotonic() + options.seconds
            while time.monotonic() < end:
                seconds, errors = run_job(options.ring)
                times.append(seconds)
                problems += [errors] if errors else []
            open(stop, "w", encoding="utf-8").close()
            os.waitpid(attacker, 0)
            output.seek(0)
            lines = output.read().splitlines()
    problems += lines[:-1] if lines and lines[-1].startswith("attempts") else [*lines, "the attacker failed"]
    slower = sorted(times)[len(times) // 2] / quiet[1][0]
    print(f"{len(times)} jobs under attack, {lines[-1:]}; median {slower:.2f} times that of quiet jobs")
    if options.limit and slower > options.limit:
        problems.append(f"slower by {slower:.2f}")
    for problem in problems:
        print("FAILED:", problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
