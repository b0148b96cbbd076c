# SPDX-License-Identifier: BSD-3-Clause
# weft_mpi.torch: the backend "weft" of torch.distributed. torch loads it by an entry point of the group torch.backends, where
# Weft is installed by pip; elsewhere the program imports it. It loads nothing else before the first process group.
"""The backend "weft" of torch.distributed: `import weft_mpi.torch; torch.distributed.init_process_group("weft")`."""

import importlib
import os
import urllib.parse

BACKEND = "weft"
LAUNCHER_VARIABLES = ("PMI_RANK", "PMI_FD", "PMIX_RANK")


def register() -> None:
    """Registers the backend, and the rank and size of an MPI launcher for init_method="env://". May be called again."""
    import torch.distributed as distributed

    if not distributed.is_available() or hasattr(distributed.Backend, BACKEND.upper()):
        return
    distributed.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu", "cuda"])
    # torch's flight recorder attaches to backends in C++ only, and fails for other process groups that it does not know.
    getattr(distributed.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", set()).add(BACKEND)
    rendezvous = importlib.import_module("torch.distributed.rendezvous")
    rendezvous.register_rendezvous_handler(BACKEND, _meet)
    handlers = getattr(rendezvous, "_rendezvous_handlers", {})
    if "env" in handlers:
        by_variables = handlers["env"]
        handlers["env"] = lambda url, **options: (_meet if _only_mpi_numbers(url) else by_variables)(url, **options)


def _create(options, _backend_options):
    from weft_mpi.torch import start

    return start.create(options)


def _meet(url, **options):
    from weft_mpi.torch import start

    return start.rendezvous(**options)


def _only_mpi_numbers(url: str) -> bool:
    """Returns whether only an MPI launcher has numbered the processes. torchrun, and programs, set variables, or pass rank= and
    world_size=, which torch appends to the URL."""
    if "RANK" in os.environ or "MASTER_ADDR" in os.environ:
        return False
    if {"rank", "world_size"} & urllib.parse.parse_qs(urllib.parse.urlsplit(url).query).keys():
        return False
    if any(variable in os.environ for variable in LAUNCHER_VARIABLES):
        return True
    from weft_mpi import processes as job

    return job.started_by_launcher()  # MPI removes the launcher's variables


register()
