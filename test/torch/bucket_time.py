#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Time of the host for one bucket of DistributedDataParallel, without a GPU: CUDA and MPI do nothing, and results of futures
# without devices are examined once, not twice. Prints the smallest of several alternating runs, less a step in
# no_sync(): with works that have been made before, with Weft's, and with Weft's while torch examines results (extraction.py).
# No test; usage: bucket_time.py [ROUNDS]
import sys
import time

import issued
import recorded_streams
import torch
import torch._C._distributed_c10d as c10d
from stream_order import kernels
from torch.nn.parallel import DistributedDataParallel, distributed
from weft_mpi.torch import extraction, streams

BUCKETS, WIDTH, STEPS = 24, 16, 20


class Made:
    """A method of a process group that does nothing: its works are complete futures of torch."""

    def __init__(self):
        self.works = {}

    def __call__(self, tensors, _options):
        address = tensors[0].data_ptr()
        if address not in self.works:
            future = torch._C.fork(lambda: [tensors[0]])
            self.works[address] = c10d._create_work_from_future(future)
        return self.works[address]


def group_with(method=None):
    made = kernels(-1)  # the GPU whose memory tensors of the host are in, as their numbers say
    made.devices = []
    issued.do_nothing(made)
    if method is not None:
        made.group.allreduce = method
    return made


def model_on(group):
    torch.manual_seed(1)
    layers = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(BUCKETS)))
    model = DistributedDataParallel(layers, process_group=group, bucket_cap_mb=WIDTH * WIDTH * 4 / (1 << 20))
    data = torch.randn(4, WIDTH)
    return model, lambda: model(data).square().mean().backward()


def without_communication(model, step):
    def run():
        with model.no_sync():
            step()

    return run


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    torch.set_num_threads(1)
    streams.Future, streams.current_device = recorded_streams.BareFuture, lambda: -1
    for exchange in ("_verify_param_shape_across_processes", "_sync_module_states"):  # when a model is made
        setattr(distributed, exchange, lambda *_arguments, **_words: None)
    watched, works = group_with(), group_with(Made())
    model, step = model_on(watched.group)
    _, floor = model_on(works.group)
    alone = "no communication"
    runs = {
        alone: (without_communication(model, step), extraction.general),
        "works made before": (floor, extraction.general),
        "Weft": (step, extraction.Extractor),
        "Weft, results examined by torch": (step, extraction.general),
    }
    best = dict.fromkeys(runs, 1e9)
    for _ in range(rounds):
        for name, (run, extractor) in runs.items():
            torch._jit_internal._TensorExtractor = extractor
            run()
            begin = time.process_time()
            for _ in range(STEPS):
                run()
            best[name] = min(best[name], (time.process_time() - begin) / STEPS * 1e6)
            watched.look(time.monotonic())
    for name, microseconds in best.items():
        print(f"{name}: {(microseconds - best[alone]) / BUCKETS:.1f} us for a bucket")


if __name__ == "__main__":
    main()
