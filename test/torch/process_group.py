#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Operations of a process group, compared with torch's own arithmetic on the data of all processes. Run by torchrun or mpiexec.
# usage: process_group.py CHECK [CHECK ...]; environment: TEST_DEVICE=cuda for tensors in GPU memory
import os
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

NUMBERS = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
           torch.int64]  # fmt: skip
FP8 = [torch.float8_e4m3fn, torch.float8_e5m2]
REDUCTIONS = {
    ReduceOp.SUM: lambda x: x.sum(0),
    ReduceOp.PRODUCT: lambda x: x.prod(0),
    ReduceOp.MIN: lambda x: x.amin(0),
    ReduceOp.MAX: lambda x: x.amax(0),
}
BITS = {ReduceOp.BAND: torch.bitwise_and, ReduceOp.BOR: torch.bitwise_or, ReduceOp.BXOR: torch.bitwise_xor}


def start(**options):
    if not hasattr(dist.Backend, "WEFT"):  # of a prefix, not of a wheel
        import weft_mpi.torch  # noqa: F401
    if os.environ.get("TEST_DEVICE") == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        torch.set_default_device(device)
    dist.init_process_group("weft", **options)
    return dist.get_rank(), dist.get_world_size()


def contributions(dtype, size, shape=(7, 3)):
    """Returns the tensors of all processes, stacked; small integers, which all types can add exactly."""
    torch.manual_seed(3)
    values = torch.randint(0, 3, (size, *shape))
    if dtype.is_complex:
        return torch.complex(values.double(), values.flip(0).double()).to(dtype)
    return values.to(dtype)


def same(result, expected):
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


def reductions():
    rank, size = start()
    for dtype in NUMBERS:
        every = contributions(dtype, size)
        wide = every.double() if dtype.is_floating_point else every.long()
        for operation, oracle in REDUCTIONS.items():
            tensor = every[rank].clone()
            dist.all_reduce(tensor, operation)
            same(tensor, oracle(wide).to(dtype))
            tensor = every[rank].clone()
            dist.reduce(tensor, size - 1, operation)
            same(tensor, oracle(wide).to(dtype) if rank == size - 1 else every[rank])
            out = torch.empty_like(every[rank])
            dist.reduce_scatter_tensor(out, every.roll(rank, 0), operation)
            rows = torch.stack([wide.roll(r, 0)[rank] for r in range(size)])
            same(out, oracle(rows).to(dtype))
        if not dtype.is_floating_point:
            for operation, oracle in BITS.items():
                tensor, expected = every[rank].clone(), every[0]
                for r in range(1, size):
                    expected = oracle(expected, every[r])
                dist.all_reduce(tensor, operation)
                same(tensor, expected)
    dist.destroy_process_group()


def allreduce_options(operation):
    options = dist.AllreduceOptions()
    options.reduceOp = operation
    return options


def special_types():
    """bool, complex, FP8, and sums that are scaled."""
    rank, size = start()
    every = contributions(torch.bool, size)
    for operation, expected in ((ReduceOp.SUM, every.any(0)), (ReduceOp.MAX, every.any(0)), (ReduceOp.BOR, every.any(0)),
                                (ReduceOp.PRODUCT, every.all(0)), (ReduceOp.MIN, every.all(0))):  # fmt: skip
        tensor = every[rank].clone()
        dist.all_reduce(tensor, operation)
        same(tensor, expected)
    for dtype in (torch.complex64, torch.complex128):
        tensor = contributions(dtype, size)[rank].clone()
        dist.all_reduce(tensor)
        same(tensor, contributions(dtype, size).sum(0))
    for dtype in FP8:
        tensor = contributions(dtype, size)[rank].clone()
        dist.group.WORLD.allreduce([tensor]).wait()  # dist.all_reduce refuses these types
        same(tensor.float(), contributions(torch.float32, size).sum(0))
        gathered = torch.empty((size, 7, 3), dtype=dtype)
        dist.group.WORLD._allgather_base(gathered, contributions(dtype, size)[rank]).wait()
        same(gathered.float(), contributions(torch.float32, size))
    tensor = torch.full((5,), float(rank + 1))
    dist.all_reduce(tensor, ReduceOp.AVG)
    same(tensor, torch.full((5,), (size + 1) / 2))
    out = torch.empty(1)
    dist.reduce_scatter_tensor(out, torch.full((size,), float(rank)), ReduceOp.AVG)
    same(out, torch.tensor([(size - 1) / 2]))
    make = torch._C._distributed_c10d._make_nccl_premul_sum
    for factor in (0.5, torch.tensor([0.5])):
        tensor = torch.full((5,), float(rank + 1))
        dist.all_reduce(tensor, make(factor))
        same(tensor, torch.full((5,), size * (size + 1) / 4))
        half = torch.full((size,), float(rank + 1), dtype=torch.float16)
        scattered = torch.empty(1, dtype=torch.float16)
        dist.reduce_scatter_tensor(scattered, half, make(factor))
        same(scattered.float(), torch.tensor([size * (size + 1) / 4]))
        strided = torch.ones(4, 3).t()
        dist.reduce(strided, 0, make(factor))
        same(strided, torch.full((3, 4), size / 2 if rank == 0 else 1.0))
    half = torch.full((3,), 60000.0, dtype=torch.float16)  # whose sum is no number of this type
    dist.all_reduce(half, ReduceOp.AVG)
    assert (half - 60000).abs().max() <= 64, half
    for dtype in FP8:
        tensor = torch.full((3,), 2.0 * (rank + 1)).to(dtype)
        dist.group.WORLD.allreduce([tensor], allreduce_options(ReduceOp.AVG)).wait()
        same(tensor.float(), torch.full((3,), size + 1.0))
    pairs = torch.ones(4, dtype=torch.complex32) * (1 + 2j)
    dist.group.WORLD.allreduce([pairs]).wait()
    same(pairs.to(torch.complex64), torch.full((4,), size * (1 + 2j), dtype=torch.complex64))
    sparse = torch.sparse_coo_tensor([[rank, size]], [1.0, 2.0], (size + 1,))
    dist.all_reduce(sparse)
    same(sparse.to_dense(), torch.tensor([1.0] * size + [2.0 * size]))
    dist.destroy_process_group()


def movements():
    """Collectives that move data, of all types, also of tensors that are not contiguous, and of different sizes."""
    rank, size = start()
    for dtype in (*NUMBERS, torch.bool, torch.complex64):
        every = contributions(dtype, size, (6, 4))
        mine = every[rank]
        for tensor in (torch.zeros(6, 4, dtype=dtype), torch.zeros(4, 6, dtype=dtype).t()):
            tensor.copy_(mine)
            dist.broadcast(tensor, size - 1)
            same(tensor, every[size - 1])
            tensor.copy_(mine)
            outputs = [torch.zeros(6, 4, dtype=dtype) for _ in range(size)]
            dist.all_gather(outputs, tensor)
            same(torch.stack(outputs), every)
            whole = torch.zeros(size * 6, 4, dtype=dtype)
            dist.all_gather_into_tensor(whole, tensor)
            same(whole, every.reshape(-1, 4))
            outputs = [torch.zeros(6, 4, dtype=dtype) for _ in range(size)] if rank == 0 else None
            dist.gather(tensor, outputs, 0)
            if rank == 0:
                same(torch.stack(outputs), every)
            tensor.zero_()
            dist.scatter(tensor, list(every) if rank == 0 else None, 0)
            same(tensor, mine)
        source, out = every.roll(rank, 0).reshape(-1, 4), torch.zeros(size * 6, 4, dtype=dtype)
        dist.all_to_all_single(out, source)
        same(out, torch.cat([every.roll(r, 0)[rank] for r in range(size)]))
    whole = torch.zeros(size * 3)
    whole.view(size, 3)[rank] = rank + 1.0
    dist.all_gather_into_tensor(whole, whole.view(size, 3)[rank])  # in place
    same(whole, torch.arange(1.0, size + 1).repeat_interleave(3))
    sizes = [2 * r + 1 for r in range(size)]
    outputs = [torch.zeros(n) for n in sizes]
    dist.all_gather(outputs, torch.full((sizes[rank],), float(rank)))
    same(torch.cat(outputs), torch.cat([torch.full((n,), float(r)) for r, n in enumerate(sizes)]))
    source = torch.cat([torch.full((rank + r, 2), float(10 * rank + r)) for r in range(size)])
    out = torch.zeros(sum(r + rank for r in range(size)), 2)
    splits = [r + rank for r in range(size)]
    dist.all_to_all_single(out, source, splits, splits)
    same(out, torch.cat([torch.full((rank + r, 2), float(10 * r + rank)) for r in range(size)]))
    outputs = [torch.zeros(r + rank) for r in range(size)]
    dist.all_to_all(outputs, [torch.full((rank + r,), float(10 * rank + r)) for r in range(size)])
    same(torch.cat(outputs), torch.cat([torch.full((rank + r,), float(10 * r + rank)) for r in range(size)]))
    out, sources = torch.zeros(sizes[rank]), [torch.full((n,), 1.0 + rank) for n in sizes]
    dist.group.WORLD.reduce_scatter([out], [sources]).wait()
    same(out, torch.full((sizes[rank],), size * (size + 1) / 2))
    dist.destroy_process_group()


def messages():
    rank, size = start()
    right, left = (rank + 1) % size, (rank - 1) % size
    got = torch.zeros(1000)
    operations = [dist.P2POp(dist.isend, torch.full((1000,), float(rank)), right), dist.P2POp(dist.irecv, got, left)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    same(got, torch.full((1000,), float(left)))
    if rank == 0:
        sources = {dist.recv(got, None, tag=5) for _ in range(size - 1)}
        assert sources == set(range(1, size)), sources
    else:
        dist.send(torch.zeros(1000), 0, tag=5)
    first, second = torch.zeros(2), torch.zeros(2)
    if rank == 0:
        dist.isend(torch.ones(2), 1, tag=1).wait()
        dist.isend(torch.full((2,), 2.0), 1, tag=2).wait()
    elif rank == 1:
        works = [dist.irecv(second, 0, tag=2), dist.irecv(first, 0, tag=1)]
        for work in works:
            work.wait()
        assert works[0].is_completed() and works[0].source_rank() == 0
        same(torch.stack([first, second]), torch.tensor([[1.0, 1.0], [2.0, 2.0]]))
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    dist.destroy_process_group()


def splits():
    """Parts of a group, in the order of the program; of their processes alone."""
    if torch.__version__ < "2.15":  # older ones split groups of NCCL only
        return
    rank, size = dist.get_rank(), dist.get_world_size()
    for parts in ([[size - 1, 0], list(range(1, size - 1)) or [1]], [[1, 0]], [[1, 0]]):
        mine = [part for part in parts if rank in part]
        group = dist.split_group(split_ranks=parts)
        assert (group is dist.GroupMember.NON_GROUP_MEMBER) == (not mine)
        if mine:
            tensor = torch.tensor([float(rank)])
            dist.all_reduce(tensor, group=group)
            same(tensor, torch.tensor([float(sum(mine[0]))]))
            assert dist.get_process_group_ranks(group) == mine[0]
            assert dist.get_group_rank(group, rank) == group.rank() == mine[0].index(rank)
            dist.destroy_process_group(group)


def brackets():
    """The brackets around operations by which DeepSpeed gathers parameters, and around messages."""
    rank, size = dist.get_rank(), dist.get_world_size()
    sums = [torch.full((3,), float(rank + i)) for i in range(3)]
    parts = [(torch.zeros(size), torch.full((1,), float(rank * i))) for i in (1, 2)]
    got = torch.zeros(5000)
    for _ in range(2):
        with dist._coalescing_manager(device=got.device, async_ops=True) as first:
            for out, part in parts:
                dist.all_gather_into_tensor(out, part)
        with dist._coalescing_manager(device=got.device, async_ops=True) as second:
            dist.isend(torch.full((5000,), float(rank)), (rank + 1) % size)
            dist.irecv(got, (rank - 1) % size)
        second.wait()
        first.wait()
    with dist._coalescing_manager(device=got.device):
        for tensor in sums:
            dist.all_reduce(tensor)
    same(torch.cat(sums), torch.cat([torch.full((3,), size * (size - 1) / 2 + size * i) for i in range(3)]))
    same(parts[1][0], 2 * torch.arange(float(size)))
    same(got, torch.full((5000,), float((rank - 1) % size)))


def groups():
    """Subgroups, operations in flight, futures, and threads."""
    rank, size = start()
    last_two = dist.new_group([size - 1, size - 2])
    if rank >= size - 2:
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=last_two)
        same(tensor, torch.full((3,), 2.0))
        assert dist.get_rank(last_two) == (0 if rank == size - 2 else 1)
        dist.destroy_process_group(last_two)
    splits()
    brackets()
    tensors = [torch.full((100,), float(i)) for i in range(50)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in reversed(works):
        work.wait()
    same(torch.stack(tensors)[:, 0], torch.arange(50.0) * size)
    # A process whose main thread does not wait takes part all the same.
    tensor, event = torch.ones(1 << 20), threading.Event()
    future = dist.all_reduce(tensor, async_op=True).get_future().then(lambda done: done.value()[0].div_(size))
    future.add_done_callback(lambda done: event.set())
    assert event.wait(60)
    future.wait()  # on GPUs the callback is in another stream
    same(tensor, torch.ones(1 << 20))
    # A callback of a future may wait for another operation.
    chain = (
        dist.all_reduce(tensor, async_op=True)
        .get_future()
        .then(lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0])
    )
    same(chain.wait(), torch.full((1 << 20,), float(size * size)))
    group = dist.new_group()
    results, device = {}, tensor.device

    def reduce(of, key):
        # Operations of two groups in one stream would need one order on all processes.
        stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        with torch.cuda.stream(stream):
            for _ in range(20):
                tensor = torch.ones(10, device=device)  # the default device is that of the main thread
                dist.all_reduce(tensor, group=of)
        if stream is not None:
            stream.synchronize()
        results[key] = tensor

    threads = [threading.Thread(target=reduce, args=(of, key)) for key, of in enumerate((None, group))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for key in (0, 1):
        same(results[key], torch.full((10,), float(size)))
    dist.destroy_process_group()


def again():
    """Process groups one after the other, each with another store; in the second one the ranks are reversed."""
    rank, size = start()
    dist.destroy_process_group()
    folder = os.environ["TEST_FOLDER"]
    dist.init_process_group("weft", init_method=f"file://{folder}/store", rank=size - 1 - rank, world_size=size)
    tensor = torch.tensor([float(rank)])
    dist.broadcast(tensor, 0)
    same(tensor, torch.tensor([size - 1.0]))
    dist.destroy_process_group()
    start()
    dist.barrier()
    dist.destroy_process_group()


def time_limit():
    """An operation beyond the time limit of one process ends those of all. The others begin theirs after that."""
    rank, size = start()
    dist.barrier()
    store = dist.distributed_c10d._get_default_store()
    others = [f"aborted{other}" for other in range(1, size)]
    if rank == 0:
        dist.group.WORLD.set_timeout(timedelta(seconds=2))
        begin = time.monotonic()
        try:
            dist.all_reduce(torch.ones(3))
        except dist.DistBackendError as error:
            assert "Timed out in all_reduce" in str(error), error
            assert time.monotonic() - begin > 1.9
            print("timed out", flush=True)
        else:
            raise AssertionError("no exception")
        store.set("timed out", "")
        store.wait(others)
        return
    store.wait(["timed out"])
    try:
        dist.barrier()
    except dist.DistBackendError as error:
        assert "another process has aborted the group" in str(error), error
        print("aborted", flush=True)
    store.set(f"aborted{rank}", "")
    store.wait(others)


def death():
    """The last process ends: the others get an exception that names it, whatever they wait for."""
    rank, size = start()
    dist.barrier()
    if rank == size - 1:
        os._exit(0)
    begin = time.monotonic()
    try:
        if rank == 0:
            dist.all_reduce(torch.ones(1 << 20))
        elif rank == 1:
            dist.recv(torch.ones(1), 0)  # whose process waits for the dead one
        else:
            dist.recv(torch.ones(1))
    except dist.DistBackendError as error:
        assert f"rank {size - 1} of the group has ended" in str(error), error
        assert time.monotonic() - begin < 5
        print("named", flush=True)
    else:
        raise AssertionError("no exception")


def mpi4py():
    """mpi4py, imported later, has the same job."""
    rank, size = start()
    from mpi4py import MPI

    assert (MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size) == (rank, size)
    tensor = torch.full((4,), float(rank))
    MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, tensor.numpy())
    dist.all_reduce(tensor)
    same(tensor, torch.full((4,), size * sum(range(size)) / 1.0))
    dist.destroy_process_group()


if __name__ == "__main__":
    import stream_checks  # imports this file

    for check in sys.argv[1:]:
        {**globals(), **vars(stream_checks)}[check]()
        print(f"passed: {check}", flush=True)
