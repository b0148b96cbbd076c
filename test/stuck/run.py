#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Programs that are stuck, in C and mpi4py, with and without threads: `weft hang` names call, peer, tag, communicator and
# cause of each. Each job ends as soon as the expected text has appeared.
# usage: run.py PROGRAM FOLDER_OF_MPI4PY [--all]: without --all one case in each mode, and a few others.
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from cases import CASES, RANKS

PROGRAM, MPI4PY = sys.argv[1:3]
ALL = "--all" in sys.argv
HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 40  # in which the text must appear; mpi4py starts slowly on a busy machine

# Cases for a second thread of each rank: with `helper` it sleeps outside of MPI, with `pair` it waits, too.
POSSIBLE = r"\(unless another thread of ranks? 0"
QUICK = [("c", "multiple", "tags"), ("c", "single", "two_communicators"), ("c", "helper", "recv_recv"),
         ("c", "pair", "tags"), ("c", "multiple", "any_source_tags"), ("python", "multiple", "tags")]  # fmt: skip


def expected(mode, case):
    texts = CASES[case]
    if mode == "helper":
        texts = [text.replace(r"\ndeadlock:", r"\npossible deadlock:") for text in texts]
        if any("deadlock" in text for text in texts):
            texts.append(POSSIBLE)
    elif mode == "pair":
        texts = [
            r"one thread: MPI_\w+ on .*; another: MPI_\w+ on .*",
            r"receive from rank 1, tag 77",
            r"\ndeadlock: ranks 0[-,]",
        ]
    return texts


def command(language, mode, case, ranks):
    words = [PROGRAM] if language == "c" else [sys.executable, os.path.join(HERE, "programs.py"), MPI4PY]
    return ["mpiexec", "-n", str(ranks), *words, mode, case]


def look(language, mode, case):
    """Returns an error text, or None."""
    ranks, texts = RANKS.get(case, 2), expected(mode, case)
    if language == "python":  # calls the functions of large counts
        texts = [re.sub(r"\b(MPI_[A-Z][a-z]\w*)", r"\1(_c)?", text) for text in texts]
    name = f"{language} {mode} {case}"
    job = subprocess.Popen(
        command(language, mode, case, ranks), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        pid = job.stdout.readline().strip()
        if not pid:
            return f"{name}: does not start: {job.stderr.read()}"
        deadline = time.time() + SECONDS
        while True:
            found = subprocess.run(["mpiexec", "--waits", pid], capture_output=True, text=True, check=False).stdout
            missing = [text for text in texts if not re.search(text, found)]
            if not missing:
                return None
            if time.time() > deadline or job.poll() is not None:
                return f"{name}: lacks {missing} in\n{found}"
            time.sleep(0.1)
    finally:
        job.terminate()
        job.communicate()


def at_timeout():
    """The same texts at the end of --timeout."""
    words = ["mpiexec", "--timeout", "2", "-n", "2", PROGRAM, "multiple", "tags"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    missing = [text for text in CASES["tags"] if not re.search(text.replace(r"\n", r"\n  "), done.stderr)]
    if missing or done.returncode != 124:
        return f"--timeout: status {done.returncode}, lacks {missing} in\n{done.stderr}"
    return None


def jobs():
    if not ALL:
        return QUICK
    with_partner = [
        case for case in CASES if case in ("recv_recv", "tags", "barrier_recv", "any_source", "window_locks")
    ]
    found = [
        (language, mode, case)
        for language in ("c", "python")
        for mode in ("single", "multiple", "helper")
        for case in CASES
    ]
    return found + [(language, "pair", case) for language in ("c", "python") for case in with_partner]


def main():
    if not os.path.exists(os.path.join(MPI4PY, "stamp")):
        print("skipped: mpi4py was not built")
        return 77
    with ThreadPoolExecutor(2) as pool:
        last = pool.submit(at_timeout)
        errors = [error for error in [*pool.map(lambda job: look(*job), jobs()), last.result()] if error]
    print("\n".join(errors) or f"{len(jobs())} jobs: every cause is named")
    return len(errors) != 0


if __name__ == "__main__":
    sys.exit(main())
