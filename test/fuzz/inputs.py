#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random values of every setting, random command lines of mpiexec and weft, random replies of a PMI-1 launcher: each
run ends by itself, without a signal and without a traceback.

usage: inputs.py PROGRAM [--what settings|options|pmi|all] [--seconds N] [--runs N] [--seed N] [--workers N]
PROGRAM: an MPI program that ends (test/launch/ring.c)."""

import argparse
import concurrent.futures
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

PREFIX = os.environ["MPI_PREFIX"]
MPIEXEC, WEFT = (os.path.join(PREFIX, "bin", name) for name in ("mpiexec", "weft"))
SECONDS = 60  # a run that takes longer hangs
VALUES = ("", "0", "1", "-1", "2", "7", "64k", "1e9", "0x10", "99999999999999999999", "18446744073709551615", "on", "off",
          "auto", "ucx", "ofi", "none", "/nonexistent", "/dev/null", "/", ".", "x" * 5000, "\udcff\udcfe", "%s%n", "a\nb", "=",
          " 1", "1 ", "1,2", ":", "*")  # fmt: skip
OPTIONS = ("-n", "-np", "-c", "-x", "--memory-alloc-kinds", "--initial-errhandler", "--wdir", "--bind-to", "--map-by",
           "--report-bindings", "--oversubscribe", "--tag-output", "--labels",
           "-prepend-pattern", "-genv", "--env=A=1", "--cpu-bind", "--runtime-options",
           "--continue-on-failure", "--host", "-H", "--hostfile", "-f",
           "--gpu-bind", "--gpus-per-task", "--mps",
           "--launcher", "--version", "--help", "-V", "--", ":", "-", "--no-such-option")  # fmt: skip
ARGUMENTS = ("", "0", "1", "2", "3", "-1", "99999999999999999999", "core", "none", "gpu", "slot", "A=1", "=", "A", "localhost",
             "localhost:2", "localhost:-1", "a:b:c", ",", "/nonexistent", "/dev/null", "/", "weft", "slurm", "hydra",
             "mpi_errors_return", "system,mpi", "x" * 5000, "\udcff", "%s%n", "true", "false", "/bin/true",
             "single", "map_gpu:0*2,1", "mask_gpu:0x3", "list:0:1-2", "rotate", "per_task:1")  # fmt: skip
COMMANDS = ("info", "hang", "report", "explain", "no-such-command", "--help", "--version", "")
REPLIES = ("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024",
           "cmd=appnum appnum=0", "cmd=my_kvsname kvsname=job", "cmd=universe_size size=2", "cmd=put_result rc=0 msg=success",
           "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))", "cmd=get_result rc=-1 msg=key_not_found value=unknown",
           "cmd=barrier_out rc=0", "cmd=finalize_ack rc=0")  # fmt: skip
ANSWER = {"init": 0, "get_maxes": 1, "get_appnum": 2, "get_my_kvsname": 3, "get_universe_size": 4, "put": 5, "get": 6,
          "barrier_in": 8, "finalize": 9}  # fmt: skip


def environment(**more):
    launchers = ("PMI_", "PMIX_", "OMPI_", "SLURM_", "HYDI_", "MPI_LOCAL", "WEFT_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(launchers)}
    return {**clean, "XDG_CONFIG_HOME": "/nonexistent", **more}


def settings():
    """Names of all settings."""
    text = subprocess.run(
        [WEFT, "info", "--config", "--all"], env=environment(), capture_output=True, text=True, check=True
    )
    names = [line.split(" ")[0] for line in text.stdout.splitlines() if line.startswith("WEFT_")]
    assert len(names) > 10, text
    return names


def end_of(command, **options):
    """Runs a command; returns the text of a failure, or None."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False, **options
        )
    except subprocess.TimeoutExpired as error:
        return None if b"starting the job with" in (error.stderr or b"") else "does not end"
    text = (done.stdout + done.stderr).decode(errors="replace")
    if "starting the job with" in text:  # mpiexec has become the launcher of a cluster
        return None
    if done.returncode < 0 or 128 < done.returncode < 160:
        return f"ended with {done.returncode}: {text[-2000:]}"
    for mark in ("Traceback", "Sanitizer", "runtime error", "terminate called", "Assertion"):
        if mark in text:
            return text[-2000:]
    if done.returncode and not text.strip():
        return f"exit code {done.returncode} without a message"
    return None


class Inputs:
    def __init__(self, program):
        self.program, self.names = program, settings()

    def settings(self, draw):
        chosen = {draw.choice(self.names): draw.choice(VALUES) for _ in range(draw.choice((1, 1, 1, 3)))}
        command = [self.program, "2"] if draw.random() < 0.7 else [MPIEXEC, "-n", "2", self.program, "2"]
        failure = end_of(command, env=environment(**chosen))
        return failure and f"{chosen} {command}: {failure}"

    def options(self, draw):
        if draw.random() < 0.3:
            command = [WEFT, draw.choice(COMMANDS), *draw.choices(ARGUMENTS[:27], k=draw.choice((0, 1, 2)))]
        else:
            command = [MPIEXEC]
            for _ in range(draw.choice((0, 1, 2, 4))):
                command.append(draw.choice(OPTIONS))
                if draw.random() < 0.6:
                    command.append(draw.choice(ARGUMENTS))
            command += draw.choice(([], ["/bin/true"], [self.program, "1"]))
        command = [argument.replace("\0", "") for argument in command]
        with tempfile.TemporaryDirectory() as folder:
            failure = end_of(command, env=environment(), cwd=folder)
        # A program of the list that fails without a message.
        silent = failure and "without a message" in failure and ("false" in command or "true" not in failure)
        return failure and not silent and f"{command}: {failure}"

    def pmi(self, draw):
        """A launcher that answers one of the first commands, and perhaps all later ones, with something else."""
        ours, theirs = socket.socketpair()
        wrong, often = draw.randrange(12), draw.random() < 0.3

        def serve():
            lines = ours.makefile("r", errors="replace")
            for number, line in enumerate(lines):
                name = line.split("cmd=")[-1].split(" ")[0].strip()
                reply = REPLIES[ANSWER.get(name, 0)]
                if number == wrong or (often and number > wrong):
                    reply = draw.choice((
                        draw.choice(REPLIES), reply[: draw.randrange(len(reply))], reply.replace("0", draw.choice(VALUES[:9])),
                        "", "cmd=", "rc=0", "x" * 100000, "\x00\xff", reply + " rc=-1", reply.replace("=", " ")))  # fmt: skip
                try:
                    ours.sendall(reply.encode(errors="replace") + b"\n")
                    if draw.random() < 0.05:
                        ours.shutdown(socket.SHUT_RDWR)
                except OSError:
                    return
            ours.close()

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        variables = {
            "PMI_FD": str(theirs.fileno()),
            "PMI_RANK": "0",
            "PMI_SIZE": draw.choice(("1", "1", "1", "0", "x", "-1", "99999999999")),
        }
        failure = end_of([self.program, "1"], env=environment(**variables, WEFT_CUDA="off"), pass_fds=[theirs.fileno()])
        theirs.close()
        ours.close()
        server.join(1)
        return failure and f"{variables}, reply {wrong}, often {often}: {failure}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--what", default="all", choices=("settings", "options", "pmi", "all"))
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--runs", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    inputs, deadline = Inputs(os.path.abspath(options.program)), time.monotonic() + options.seconds
    kinds = ("settings", "options", "pmi") if options.what == "all" else (options.what,)
    done, failures = dict.fromkeys(kinds, 0), 0

    def one(seed):
        if time.monotonic() > deadline:
            return None
        draw = random.Random(seed)
        kind = draw.choice(kinds)
        try:
            return kind, seed, getattr(inputs, kind)(draw)
        except Exception as error:  # pylint: disable=broad-except
            return kind, seed, repr(error)

    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        seed = options.seed
        while time.monotonic() < deadline and seed < options.seed + options.runs:
            batch = range(seed, min(seed + 4 * options.workers, options.seed + options.runs))
            seed = batch.stop
            for result in pool.map(one, batch):
                if result is None:
                    continue
                done[result[0]] += 1
                if result[2]:
                    failures += 1
                    print(f"FAILED seed {result[1]} ({result[0]}): {result[2]}", flush=True)
    print(f"{done}, {failures} failures")
    return 1 if failures or not sum(done.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
