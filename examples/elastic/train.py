#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training that loses workers and goes on.

Each worker computes the gradient of its part of each batch; an allreduce adds them. All have the same parameters, so
that nothing is lost with a worker: the survivors shrink the communicator, share the batch anew and repeat the step.

mpiexec --continue-on-failure -n 4 python3 train.py [--steps 300]
Needs NumPy, and mpi4py built with CFLAGS="-include weft.h" (docs/fault-tolerance.md).
"""

import argparse

import numpy as np
from mpi4py import MPI


class Model:
    """A network with one hidden layer that learns a function of two variables."""

    def __init__(self, hidden=32):
        draw = np.random.default_rng(0)  # the same parameters everywhere
        self.parameters = [
            draw.normal(size=(2, hidden)), np.zeros(hidden), draw.normal(size=(hidden, 1)) / hidden, np.zeros(1),
        ]  # fmt: skip

    def gradient(self, x, y):
        """Returns the gradients of the summed squared error, and that error, as one array."""
        w1, b1, w2, b2 = self.parameters
        h = np.tanh(x @ w1 + b1)
        error = h @ w2 + b2 - y
        back = (2 * error @ w2.T) * (1 - h * h)
        parts = [x.T @ back, back.sum(0), 2 * h.T @ error, 2 * error.sum(0), (error * error).sum()]
        return np.concatenate([np.ravel(part) for part in parts])

    def step(self, gradient, rate):
        at = 0
        for parameter in self.parameters:
            parameter -= rate * gradient[at : at + parameter.size].reshape(parameter.shape)
            at += parameter.size


def batch_of(step, size, rank, workers):
    """Returns this worker's part of a batch, which depends on the step only."""
    x = np.random.default_rng(step).uniform(-1, 1, (size, 2))
    y = np.sin(3 * x[:, :1]) * x[:, 1:]
    mine = slice(size * rank // workers, size * (rank + 1) // workers)
    return x[mine], y[mine]


def summed(comm, model, step, size):
    """Returns the gradient of the whole batch, the same on all workers; None: a worker has died."""
    total, good = None, 1
    try:
        own = model.gradient(*batch_of(step, size, comm.rank, comm.size))
        total = np.empty_like(own)
        comm.Allreduce(own, total)
    except MPI.Exception:
        comm.Revoke()  # other workers may wait for this one
        good = 0
    try:
        good = comm.Agree(good)
    except MPI.Exception:  # a death that is not acknowledged
        return None
    return total if good else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=1024)
    chosen = parser.parse_args()
    MPI.COMM_WORLD.Set_errhandler(MPI.ERRORS_RETURN)
    comm = MPI.COMM_WORLD.Dup()
    model, step, loss = Model(), 0, 0.0
    while step < chosen.steps:
        total = summed(comm, model, step, chosen.batch)
        if total is None:
            smaller = comm.Shrink()
            comm.Free()
            comm = smaller
            if comm.rank == 0:
                print(f"step {step}: {comm.size} workers go on", flush=True)
            continue
        loss = total[-1] / chosen.batch
        model.step(total[:-1] / chosen.batch, 0.1)
        step += 1
        if comm.rank == 0 and step % 100 == 0:
            print(f"step {step}: loss {loss:.5f}", flush=True)
    if comm.rank == 0:
        print(f"finished with {comm.size} workers, loss {loss:.5f}", flush=True)


if __name__ == "__main__":
    main()
