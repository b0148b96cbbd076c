# SPDX-License-Identifier: BSD-3-Clause
# ProcessGroup: a process group of torch.distributed, whose operations are those of one communicator. All are nonblocking calls
# of MPI, since those of MPI that block do not match them, and processes may differ in whether they wait. Collectives on tensors
# in GPU memory are kernels in streams, if there are kernels for them (streams.py); the current stream is synchronized before
# other operations on such tensors, or they follow it while a CUDA graph is captured.
from __future__ import annotations

import ctypes
import sys
import threading
import time
from datetime import timedelta

import torch
import torch._C._distributed_c10d as c10d
from torch.distributed import DistBackendError, PrefixStore, ProcessGroup

from weft_mpi import mpi
from weft_mpi.processes import Job
from weft_mpi.torch import capture, collectives, errors, monitored, native, sparse, streams
from weft_mpi.torch.collectives import Call
from weft_mpi.torch.options import one, outside_graphs, row, with_options, with_tensors
from weft_mpi.torch.work import NO_TIME, Work, Works, service, synchronize

ABORTED = "another process has aborted the group, e.g. since its time limit was over"
# Seconds that the end of a group waits for kernels, and in the handler of an exception, which others may not have, for others.
END_TIMEOUT, END_TIMEOUT_IN_HANDLER = 30.0, 5.0
MAX_TAG = 200  # below MPI_MAX_STRINGTAG_LEN
NONBLOCKING = {name: mpi.nonblocking(name) for name in (*mpi.COLLECTIVES, "Send_c", "Recv_c")}


class WeftGroup(ProcessGroup):
    """A process group. timeout: the time limit of an operation; comm: its communicator, which shutdown() frees."""

    DESTROYED = "the process group was destroyed while operations were in flight"
    # Backend.supports_*: a process group of weft is its own backend, for all devices.
    supports_coalescing = supports_shrinking = supports_window = False
    supports_splitting = True

    def __init__(self, job: Job, store, rank: int, size: int, timeout: timedelta, comm) -> None:
        super().__init__(rank, size)
        self.library, self.job, self.store = job.library, job, store
        self.number, self.processes = rank, size
        self.time_limit = timeout.total_seconds()
        self.comm = comm
        self.failure: str | None = None
        self.failure_lock, self.kernels_lock = threading.Lock(), threading.Lock()
        self.text_of_name, self.description = "", ""
        self.kernels: dict[int, streams.Kernels | None] = {}  # by GPU; None: the host executes its operations
        self.bracketed: list | None = None  # operations since _start_coalescing(); None: since none
        self.native_methods: dict = {}  # that are not used between _start_coalescing() and _end_coalescing()

    # Queries of torch.

    def getBackendName(self) -> str:
        return "weft"

    def name(self) -> str:
        return "weft"

    def getRank(self) -> int:
        return self.number

    def getSize(self) -> int:
        return self.processes

    rank, size = getRank, getSize

    def get_group_store(self):
        return self.store

    def setGroupName(self, name: str) -> None:
        self.text_of_name = name

    def getGroupName(self) -> str:
        return self.text_of_name

    def setGroupDesc(self, text: str) -> None:
        self.description = text

    def getGroupDesc(self) -> str:
        return self.description

    _set_group_name, _set_group_desc = setGroupName, setGroupDesc
    group_name, group_desc = property(getGroupName), property(getGroupDesc)

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu")] + ([torch.device("cuda")] if torch.cuda.is_available() else [])

    def _get_backend(self, _device):
        return self

    get_backend = _get_backend

    def supports_tensor_alloc(self, _device) -> bool:
        return False

    def set_timeout(self, timeout: timedelta) -> None:
        self.time_limit = timeout.total_seconds()

    _set_default_timeout = set_timeout

    # Splits.

    @outside_graphs
    def split_group(self, new_ranks, timeout=None, opts=None, group_name=None, group_desc=None, device_types=None):
        """Returns a group of the processes with these ranks, in this order; None if this process is not one of them. The
        others are not needed. It has all devices, whatever `device_types` says, and no options of its own."""
        if self.number not in new_ranks:
            return None
        store = PrefixStore(f"{group_name}/", self.store)
        limit = timedelta(seconds=self.time_limit) if timeout is None else timeout
        group = create(self.job, store, new_ranks.index(self.number), len(new_ranks), limit, group_name)
        group.setGroupName(group_name or "")
        group.setGroupDesc(group_desc or "")
        return group

    def eager_connect_single_device(self, _device) -> None:
        """torch calls this for backends that split. The communicator is there already."""

    # The brackets of torch's _coalescing_manager.

    def _start_coalescing(self, _device) -> None:
        self.bracketed = []
        self.native_methods |= {name: self.__dict__.pop(name) for name in native.METHODS if name in self.__dict__}

    def _end_coalescing(self, _device) -> Works:
        """Returns the operations since _start_coalescing(), which have begun, as one."""
        works, self.bracketed = self.bracketed or [], None
        self.__dict__.update(self.native_methods)
        self.native_methods = {}
        return Works(works)

    # Ends and failures.

    @outside_graphs
    def shutdown(self) -> None:
        """Frees the communicator. Operations in flight end with an exception, here and in the other processes."""
        for work in service.outstanding(self):
            self.revoke(self.DESTROYED)
            work.end()
        in_handler = sys.exc_info()[0] is not None
        made = [kernels for kernels in self.kernels.values() if kernels]
        for kernels in made:
            kernels.settle(END_TIMEOUT_IN_HANDLER if in_handler else END_TIMEOUT)
        if made and self.failure is None:
            self._meet(END_TIMEOUT_IN_HANDLER if in_handler else self.time_limit)
        native.uninstall(self)
        for kernels in made:
            kernels.end()
        self.kernels = {}
        with self.failure_lock:
            comm, self.comm = self.comm, None
        if comm is not None:
            self.job.free(comm)

    def _meet(self, limit: float) -> None:
        """Waits until all processes end the group, whose communicators of kernels they free together. After the time limit they
        are revoked, and each process frees them alone; not later, since nothing can be revoked that may be free."""
        service.begin_wait(Work(self, "destroy_process_group"), time.monotonic() + limit)
        try:
            code = self.library.Barrier(self.comm)
        finally:
            service.end_wait()
        if code and self.failure is None:
            self.revoked_by_others()

    @outside_graphs
    def abort(self) -> None:
        self.revoke("it was aborted by this process")

    def expire(self, name: str) -> None:
        """Ends all operations of the group, in all its processes, because one takes too long."""
        self.revoke(f"Timed out in {name}: another process did not take part in it within the time limit")

    def revoke(self, why: str) -> None:
        """Ends all operations of the group, now and later, in all its processes. why: for the errors in this one."""
        with self.failure_lock:
            if self.failure is None and self.comm is not None:
                self.failure = why
                self.library.Comm_revoke(self.comm)
                for kernels in filter(None, list(self.kernels.values())):
                    if kernels.comm.value:
                        self.library.Comm_revoke(kernels.comm)

    def failed(self, name: str, code: int) -> Exception:
        """Returns the exception for a failed call of this thread. Other processes learn of the failure."""
        error = self.job.error(code)
        if error.error_class not in mpi.FAILURES:
            return errors.of_mpi(name, error)
        self.look_for_ended()
        return DistBackendError(f"weft: {name}: {self.failure or ABORTED}")

    def revoked_by_others(self) -> None:
        """A communicator of the group is revoked: ends the operations on the others."""
        if not self.look_for_ended():
            self.revoke(ABORTED)

    def look_for_ended(self) -> bool:
        """Ends the group if one of its processes has ended. Returns whether one has."""
        ended = self._ended_ranks()
        if ended:
            self.revoke(f"rank {', '.join(map(str, ended))} of the group has ended")
        return bool(ended)

    def _ended_ranks(self) -> list[int]:
        """Returns the ranks in this group of the processes that are known to have ended."""
        library, group, own, count = self.library, ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        with self.failure_lock:  # shutdown() frees the communicator
            if self.comm is None or library.Comm_get_failed(self.comm, ctypes.byref(group)):
                return []
            library.Comm_group(self.comm, ctypes.byref(own))
        library.Group_size(group, ctypes.byref(count))
        numbers, ranks = (ctypes.c_int * count.value)(*range(count.value)), (ctypes.c_int * count.value)()
        library.Group_translate_ranks(group, count.value, numbers, own, ranks)
        for handle in (group, own):
            library.Group_free(ctypes.byref(handle))
        return sorted(ranks)

    # Calls of MPI.

    def run(self, name: str, calls: list[Call], options=None, result=()) -> Work:
        """Starts the nonblocking forms of the calls, and waits for them if the program does."""
        work = self.begin(name, calls, options, result)
        if self.bracketed is not None:
            self.bracketed.append(work)
        return work

    def begin(self, name: str, calls: list[Call], options, result) -> Work:
        if self.comm is None:
            raise DistBackendError(f"weft: {name}: the process group was destroyed")
        keep = calls[0].keep if calls else ()
        if keep and keep[0].is_cuda:
            kernels = self.kernels.get(keep[0].device.index, False)
            kernels = kernels or self.kernels_for(keep[0].device, name, calls, getattr(options, "timeout", NO_TIME))
            if kernels and kernels.supports(calls):
                return kernels.run(name, calls, options, result)
        device = capture.device_of(calls)
        if device is not None:
            return capture.run(self, name, calls, result, device)
        for call in calls:
            synchronize(call.keep)
        blocking = not getattr(options, "asyncOp", True)
        deadline = self.deadline(getattr(options, "timeout", NO_TIME))
        requests: list[ctypes.c_void_p] = []
        for call in calls:
            request = ctypes.c_void_p()
            function = getattr(self.library, NONBLOCKING[call.function])
            code = function(*call.arguments, self.comm, ctypes.byref(request))
            if code:
                try:
                    raise self.failed(name, code)
                finally:  # the tensors of the calls that have begun live until these are complete
                    Work(self, name, requests, calls, deadline=deadline).watch()
            requests.append(request)
        work = Work(self, name, requests, calls, result, [call.finish for call in calls if call.finish], deadline)
        if blocking:
            work.await_end()
        else:
            work.watch()
        return work

    def kernels_for(
        self, device: torch.device, name: str, calls: list[Call], timeout: timedelta = NO_TIME
    ) -> streams.Kernels | None:
        """Returns what executes collectives on tensors of the GPU. Collective over the group at the first such call, which must
        not be captured. timeout: of the call; NO_TIME: that of the group."""
        if device.index in self.kernels:
            return self.kernels[device.index]
        if calls[0].function not in mpi.ENQUEUED or capture.is_capturing(device):
            return None
        with self.kernels_lock, torch.cuda.device(device):
            if device.index not in self.kernels:
                made = streams.make(self, device, name, timeout)
                with self.failure_lock:
                    self.kernels[device.index] = made
                    if made is not None and self.failure is not None:  # revoke() has not seen the communicator
                        self.library.Comm_revoke(made.comm)
            return self.kernels[device.index]

    def deadline(self, timeout: timedelta) -> float:
        """Returns the end (time.monotonic()) of an operation that begins now; without a time limit of its own: the group's."""
        return time.monotonic() + (timeout.total_seconds() if timeout > NO_TIME else self.time_limit)

    # Collective operations.

    @with_options(c10d.BroadcastOptions, 1)
    def broadcast(self, tensors, opts):
        tensor = one(tensors)
        return self.run("broadcast", [collectives.broadcast(tensor, opts.rootRank)], opts, [tensor])

    @with_options(c10d.AllreduceOptions, 1)
    def allreduce(self, tensors, opts):
        tensor = one(tensors)
        if tensor.is_sparse:
            return sparse.allreduce(self, tensor, opts)
        return self.run(
            "all_reduce", [collectives.allreduce(tensor, opts.reduceOp, self.processes, self.library)], opts, [tensor]
        )

    @with_options(c10d.AllreduceCoalescedOptions, 1)
    def allreduce_coalesced(self, tensors, opts):
        calls = [collectives.allreduce(tensor, opts.reduceOp, self.processes, self.library) for tensor in tensors]
        return self.run("all_reduce_coalesced", calls, opts, tensors)

    @with_options(c10d.ReduceOptions, 1)
    def reduce(self, tensors, opts):
        tensor = one(tensors)
        call = collectives.reduce(tensor, opts.reduceOp, opts.rootRank, self.number, self.processes, self.library)
        return self.run("reduce", [call], opts, [tensor])

    @with_options(c10d.AllgatherOptions, 2)
    def allgather(self, output_tensors, input_tensors, opts):
        outputs, source = row(output_tensors), one(input_tensors)
        call = collectives.allgather_list(outputs, source, self.number, self.processes)
        return self.run("all_gather", [call], opts, outputs)

    @with_options(c10d.AllgatherOptions, 2)
    def allgather_coalesced(self, output_lists, input_tensors, opts):
        # output_lists[i][j]: tensor j of process i.
        calls = [
            collectives.allgather_list([outputs[j] for outputs in output_lists], source, self.number, self.processes)
            for j, source in enumerate(input_tensors)
        ]
        return self.run("all_gather_coalesced", calls, opts, [t for outputs in output_lists for t in outputs])

    @with_options(c10d.AllgatherOptions, 2)
    def all_gather_single(self, output, source, opts):
        call = collectives.allgather(output, source, self.processes)
        return self.run("all_gather_into_tensor", [call], opts, [output])

    @with_options(c10d.AllgatherOptions, 2)
    def all_gather_single_coalesced(self, outputs, sources, opts):
        calls = [collectives.allgather(output, source, self.processes) for output, source in zip(outputs, sources)]
        return self.run("all_gather_into_tensor_coalesced", calls, opts, outputs)

    @with_options(c10d.GatherOptions, 2)
    def gather(self, output_tensors, input_tensors, opts):
        outputs, source = row(output_tensors), one(input_tensors)
        call = collectives.gather(outputs, source, opts.rootRank, self.number, self.processes)
        return self.run("gather", [call], opts, outputs)

    @with_options(c10d.GatherOptions, 2)
    def gather_single(self, output, source, opts):
        outputs = list(output.chunk(self.processes)) if self.number == opts.rootRank else []
        call = collectives.gather(outputs, source, opts.rootRank, self.number, self.processes)
        return self.run("gather_into_tensor", [call], opts, [output] if outputs else [])

    @with_options(c10d.ScatterOptions, 2)
    def scatter(self, output_tensors, input_tensors, opts):
        output, sources = one(output_tensors), row(input_tensors)
        call = collectives.scatter(output, sources, opts.rootRank, self.number, self.processes)
        return self.run("scatter", [call], opts, [output])

    @with_options(c10d.ReduceScatterOptions, 2)
    def reduce_scatter(self, output_tensors, input_tensors, opts):
        output, sources = one(output_tensors), row(input_tensors)
        call = collectives.reduce_scatter_list(
            output, sources, opts.reduceOp, self.number, self.processes, self.library
        )
        return self.run("reduce_scatter", [call], opts, [output])

    @with_options(c10d.ReduceScatterOptions, 2)
    def reduce_scatter_single(self, output, source, opts):
        call = collectives.reduce_scatter(output, source, opts.reduceOp, self.processes, self.library)
        return self.run("reduce_scatter_tensor", [call], opts, [output])

    @with_options(c10d.ReduceScatterOptions, 2)
    def reduce_scatter_single_coalesced(self, outputs, sources, opts):
        calls = [
            collectives.reduce_scatter(output, source, opts.reduceOp, self.processes, self.library)
            for output, source in zip(outputs, sources)
        ]
        return self.run("reduce_scatter_tensor_coalesced", calls, opts, outputs)

    @with_options(c10d.AllToAllOptions, 4)
    def all_to_all_single(self, output, source, output_sizes, input_sizes, opts):
        call = collectives.alltoall(output, source, output_sizes, input_sizes, self.processes)
        return self.run("all_to_all_single", [call], opts, [output])

    @with_options(c10d.AllToAllOptions, 2)
    def alltoall(self, outputs, sources, opts):
        return self.run("all_to_all", [collectives.alltoall_list(outputs, sources, self.processes)], opts, outputs)

    @with_options(c10d.BarrierOptions, 0)
    def barrier(self, opts):
        if torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
            torch.cuda.current_stream().synchronize()
        return self.run("barrier", [Call("Barrier", (), ())], opts)

    @outside_graphs
    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        monitored.barrier(self, timedelta(seconds=self.time_limit) if timeout is None else timeout, wait_all_ranks)

    # Their names before torch 2.15.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    gather_into_tensor = gather_single
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # Sends and receives.

    @with_tensors(1)
    def send(self, tensors, destination: int, tag: int):
        tensor = one(tensors)
        return self.run(f"send to rank {destination}", [collectives.send(tensor, destination, tag)], None, [tensor])

    @with_tensors(1)
    def recv(self, tensors, source: int, tag: int):
        tensor = one(tensors)
        return self.run(f"recv from rank {source}", [collectives.receive(tensor, source, tag)], None, [tensor])

    @with_tensors(1)
    def recv_anysource(self, tensors, tag: int):
        tensor = one(tensors)
        return self.run("recv from any rank", [collectives.receive(tensor, mpi.ANY_SOURCE, tag)], None, [tensor])

    recvAnysource = recv_anysource


def create(job: Job, store, rank: int, size: int, timeout: timedelta, name: str) -> WeftGroup:
    """Returns a process group. Collective over its processes, which meet by its store."""
    try:
        job.connect(store, rank, size)
        ranks = job.places(store, rank, size)
        comm = job.create(ranks, f"torch/{name}"[-MAX_TAG:])
        job.check(job.library.Barrier(comm))  # a process that serves the store may end it after this call
    except mpi.MpiError as error:
        raise errors.of_mpi("the start of a process group", error) from error
    return WeftGroup(job, store, rank, size, timeout, comm)
