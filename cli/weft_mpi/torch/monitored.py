# SPDX-License-Identifier: BSD-3-Clause
# Monitored barrier: a barrier of torch by which rank 0 names the processes that do not reach it. A failed one ends the group.
from __future__ import annotations

import time
from datetime import timedelta

import torch
from torch.distributed import DistBackendError

TAG = 0x3FFFFFFF  # the largest of MPI (MPI_TAG_UB of Weft)
POLL = 1e-3  # seconds


def barrier(group, timeout: timedelta, wait_all_ranks: bool) -> None:
    """Raises DistBackendError if not all processes reach it within the time; with wait_all_ranks it names all that do not,
    otherwise the first."""
    deadline = time.monotonic() + timeout.total_seconds()
    limit = f"{timeout.total_seconds() * 1000:g} ms"
    if group.rank() == 0:
        await_others(group, deadline, limit, wait_all_ranks)
    else:
        await_rank_0(group, deadline, limit)


def await_others(group, deadline: float, limit: str, wait_all_ranks: bool) -> None:
    if time.monotonic() >= deadline:
        raise DistBackendError(f"weft: Rank 0 timed out in monitoredBarrier after {limit}")
    nothing = torch.empty(0)
    arrivals = [group.recv([nothing], rank, TAG) for rank in range(1, group.size())]
    missing = [rank for rank, work in enumerate(arrivals, 1) if not completes(work, deadline)]
    if missing:
        named = missing if wait_all_ranks else missing[:1]
        text = f"Rank{'s' if len(named) > 1 else ''} {', '.join(map(str, named))} failed to pass monitoredBarrier in {limit}"
        group.revoke(text)
        raise DistBackendError(f"weft: {text}")
    for work in [group.send([nothing], rank, TAG) for rank in range(1, group.size())]:
        work.wait()


def await_rank_0(group, deadline: float, limit: str) -> None:
    nothing = torch.empty(0)
    works = [group.send([nothing], 0, TAG), group.recv([nothing], 0, TAG)]
    reached = f"weft: Rank {group.rank()} successfully reached monitoredBarrier, but received errors while waiting for send/recv"
    for work in works:
        if not completes(work, deadline + 1):  # rank 0, which names the missing process, may have begun later
            raise DistBackendError(f"{reached} from rank 0: it did not answer within {limit}")


def completes(work, deadline: float) -> bool:
    """Returns whether an operation succeeds before the deadline."""
    while not work.is_completed() and time.monotonic() < deadline:
        time.sleep(POLL)
    return work.is_success()
