#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Time of torch's calls without communication: all_reduce of 8 bytes by one process, with Weft, with gloo, and with torch's fake
# process group, which does nothing. Prints the smallest of several alternating runs in microseconds.
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

ROUNDS, CALLS = 20, 500


def start(backend):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    store = FakeStore() if backend == "fake" else dist.HashStore()
    dist.init_process_group(backend, store=store, rank=0, world_size=1)


def measure(asynchronous):
    tensor = torch.ones(2)
    begin = time.perf_counter()
    for _ in range(CALLS):
        work = dist.all_reduce(tensor, async_op=asynchronous)
        if asynchronous:
            work.wait()
    return (time.perf_counter() - begin) / CALLS * 1e6


def main():
    if not hasattr(dist.Backend, "WEFT"):
        import weft_mpi.torch  # noqa: F401
    best = {}
    for _ in range(ROUNDS):
        for backend in sys.argv[1:] or ("fake", "weft", "gloo"):
            start(backend)
            for asynchronous in (False, True):
                measure(asynchronous)
                key = (backend, "async" if asynchronous else "blocking")
                best[key] = min(best.get(key, 1e9), measure(asynchronous))
            dist.destroy_process_group()
    for (backend, kind), microseconds in best.items():
        print(f"{backend} {kind}: {microseconds:.1f} us")


if __name__ == "__main__":
    main()
