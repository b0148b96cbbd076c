# SPDX-License-Identifier: BSD-3-Clause
# Rank 0 ends before the others, without destroy_process_group. usage: leaving.py HOW
import os
import sys
import time

import torch
import torch.distributed as dist

LATE, LONG = 1.0, 120.0  # seconds that the others run after rank 0
FAILURES = ("status", "raised", "immediate", "unfinalized")  # which end the job


def leave(how):
    if how == "status":
        sys.exit(3)
    if how == "raised":
        raise ValueError("a failed step")
    if how == "immediate":
        os._exit(0)
    sys.exit(0)


def go_on(how, rank):
    time.sleep(LONG if how in FAILURES else LATE)
    if how == "needed":
        begin = time.monotonic()
        try:
            dist.all_reduce(torch.ones(4))
        except dist.DistBackendError as error:
            assert "rank 0 of the group has ended" in str(error), error
            assert time.monotonic() - begin < 5
            print("named", flush=True)
        return
    dist.broadcast(torch.ones(4), 1, group=others)
    print(f"rank {rank} has saved a checkpoint", flush=True)
    if how == "destroyed":
        dist.destroy_process_group()


if __name__ == "__main__":
    how = sys.argv[1]
    if how in ("mpi4py", "unfinalized"):
        import mpi4py

        mpi4py.rc.finalize = how == "mpi4py"
        from mpi4py import MPI  # noqa: F401  calls MPI_Init
    dist.init_process_group("weft")
    others = dist.new_group(range(1, dist.get_world_size()))
    total = torch.ones(4)
    dist.all_reduce(total)
    assert total.sum() == 4 * dist.get_world_size()
    if dist.get_rank() == 0:
        leave(how)
    go_on(how, dist.get_rank())
