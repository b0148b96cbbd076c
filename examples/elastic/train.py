#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training that loses workers and goes on.

Each worker computes the gradient of its part of each batch; an allreduce adds them. All have the same parameters, so
that nothing is lost with a worker: the survivors shrink the communicator, share the batch anew and repeat the step.
With --respawn they first start new workers in place of the dead ones, which get the parameters from the others.

mpiexec --continue-on-failure -n 4 python3 train.py [--steps 300] [--respawn]
Needs NumPy, and mpi4py built with CFLAGS="-include weft.h" (docs/fault-tolerance.md).
"""

import argparse
import sys

import numpy as np
from mpi4py import MPI


class Model:
    """A network with one hidden layer that learns a function of two variables."""

    def __init__(self, hidden=32):
        draw = np.random.default_rng(0)  # the same parameters everywhere
        parts = [draw.normal(size=(2, hidden)), np.zeros(hidden), draw.normal(size=(hidden, 1)) / hidden, np.zeros(1)]
        self.values = np.concatenate([part.ravel() for part in parts])
        ends = np.cumsum([part.size for part in parts])
        self.parameters = [
            self.values[end - part.size : end].reshape(part.shape) for part, end in zip(parts, ends, strict=True)
        ]

    def gradient(self, x, y):
        """Returns the gradients of the summed squared error, and that error, as one array."""
        w1, b1, w2, b2 = self.parameters
        h = np.tanh(x @ w1 + b1)
        error = h @ w2 + b2 - y
        back = (2 * error @ w2.T) * (1 - h * h)
        parts = [x.T @ back, back.sum(0), 2 * h.T @ error, 2 * error.sum(0), (error * error).sum()]
        return np.concatenate([np.ravel(part) for part in parts])


def batch_of(step, size, rank, workers):
    """Returns this worker's part of a batch, which depends on the step only."""
    x = np.random.default_rng(step).uniform(-1, 1, (size, 2))
    y = np.sin(3 * x[:, :1]) * x[:, 1:]
    mine = slice(size * rank // workers, size * (rank + 1) // workers)
    return x[mine], y[mine]


def agreed(comm, good):
    """Returns whether all workers are alive and say that it is good; the same at all of them."""
    try:
        return bool(comm.Agree(int(good)))
    except MPI.Exception:  # a death that is not acknowledged
        return False


def attempt(comm, work):
    """Returns the result of work(); None at all workers if one of them has died."""
    try:
        result = work()
    except MPI.Exception:
        comm.Revoke()  # other workers may wait for this one
        result = None
    return result if agreed(comm, result is not None) else None


def summed(comm, model, step, size):
    """Returns the gradient of the whole batch, the same on all workers."""
    own = model.gradient(*batch_of(step, size, comm.rank, comm.size))
    total = np.empty_like(own)
    comm.Allreduce(own, total)
    return total


def caught_up(comm, model, step):
    """Takes over the parameters of the worker that is furthest; returns its step."""
    step, source = comm.allreduce((step, comm.rank), MPI.MAXLOC)
    comm.Bcast(model.values, root=source)
    return step


def merged(between, *, high):
    """Returns the communicator of the survivors and the new workers; None: a worker has died meanwhile."""
    between.Set_errhandler(MPI.ERRORS_RETURN)
    both = None
    try:
        both = between.Merge(high=high)
    except MPI.Exception:
        between.Revoke()
    good = agreed(between, both is not None)
    between.Free()
    if both is not None and not good:
        both.Free()
    return both if good else None


def regained(comm, workers):
    """Starts new workers until there are `workers` again. Returns the communicator of all, or, if a worker has died
    meanwhile, `comm`."""
    between = None
    try:
        between = comm.Spawn(sys.executable, sys.argv, maxprocs=workers - comm.size)
    except MPI.Exception:
        pass
    if not agreed(comm, between is not None):  # or some have the new workers
        if between is not None:
            between.Set_errhandler(MPI.ERRORS_RETURN)
            between.Revoke()
            between.Free()
        return comm
    both = merged(between, high=False)
    if both is None:
        return comm
    comm.Free()
    return both


def repaired(comm, workers, step, *, respawn):
    """Returns the communicator of the survivors, and of new workers in place of the dead ones with `respawn`."""
    while True:
        smaller = comm.Shrink()
        comm.Free()
        comm = smaller
        if comm.rank == 0:
            print(f"step {step}: {comm.size} workers go on", flush=True)
        if respawn and comm.size < workers:
            comm = regained(comm, workers)
        if not respawn or comm.size == workers:
            return comm


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--respawn", action="store_true", help="start new workers in place of dead ones")
    chosen = parser.parse_args()
    MPI.COMM_WORLD.Set_errhandler(MPI.ERRORS_RETURN)
    parents = MPI.Comm.Get_parent()
    comm = MPI.COMM_WORLD.Dup() if parents == MPI.COMM_NULL else merged(parents, high=True)
    if comm is None:
        return  # the survivors try again
    workers, equal = comm.size, parents == MPI.COMM_NULL  # equal: all workers have the same parameters
    model, step, loss = Model(), 0, 0.0
    while step < chosen.steps:
        if equal:
            total = attempt(comm, lambda: summed(comm, model, step, chosen.batch))  # noqa: B023
            good = total is not None
        else:
            furthest = attempt(comm, lambda: caught_up(comm, model, step))  # noqa: B023
            good = equal = furthest is not None
            if good:
                step = furthest
                if comm.rank == 0:
                    print(f"step {step}: {comm.size} workers are back", flush=True)
                continue
        if not good:
            comm = repaired(comm, workers, step, respawn=chosen.respawn)
            equal = not chosen.respawn
            continue
        loss = total[-1] / chosen.batch
        model.values -= 0.1 * total[:-1] / chosen.batch
        step += 1
        if comm.rank == 0 and step % 100 == 0:
            print(f"step {step}: loss {loss:.5f}", flush=True)
    if comm.rank == 0:
        print(f"finished with {comm.size} workers, loss {loss:.5f}", flush=True)


if __name__ == "__main__":
    main()
