# SPDX-License-Identifier: BSD-3-Clause
# Start: process groups of torch from its store, and the store of a job that an MPI launcher has started.
from __future__ import annotations

import ctypes
import socket
from datetime import timedelta

from torch.distributed import TCPStore, default_pg_timeout

from weft_mpi import processes as jobs
from weft_mpi.torch import group
from weft_mpi.torch.group import WeftGroup
from weft_mpi.torch.reduction import BYTE

ADDRESS_BYTES = 256


def create(options) -> WeftGroup:
    """Returns the process group for the options of torch. Collective over its processes."""
    job, rank, size = jobs.current(), options.group_rank, options.group_size
    return group.create(job, options.store, rank, size, options.timeout, options.group_id)


def rendezvous(timeout: timedelta = default_pg_timeout, **_options):
    """A rendezvous of torch, by which rank and size come from the MPI launcher: rank 0 serves a store on any free port."""
    job = jobs.current()
    if not job.running:
        job.open()
    comm = job.create(range(job.size), "torch/rendezvous")
    address = ctypes.create_string_buffer(ADDRESS_BYTES)
    store = None
    if job.rank == 0:
        host = "127.0.0.1" if job.on_one_host() else socket.gethostname()
        store = TCPStore(host, 0, job.size, True, timeout, wait_for_workers=False)
        address.value = f"{host} {store.port}".encode()
    job.check(job.library.Bcast_c(address, ADDRESS_BYTES, BYTE, 0, comm))
    job.free(comm)
    if store is None:
        host, port = address.value.decode().split()
        store = TCPStore(host, int(port), job.size, False, timeout)
    yield store, job.rank, job.size
