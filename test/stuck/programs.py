# SPDX-License-Identifier: BSD-3-Clause
# The cases of programs.c for mpi4py.
# usage: programs.py FOLDER_OF_MPI4PY single|multiple|helper|pair CASE
import os
import signal
import sys
import threading

FOLDER, MODE, CASE = sys.argv[1:]
sys.path.insert(0, FOLDER)
import mpi4py

if MODE == "single":
    mpi4py.rc.thread_level = "single"
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
peer = (rank + 1) % size
small, large, ints = bytearray(4), bytearray(1 << 22), bytearray(256)


def receive(source, tag):
    world.Recv([bytearray(8), 2, MPI.INT], source, tag)


def send(dest, tag):
    world.Send([small, 1, MPI.INT], dest, tag)


def messages(halo):
    if CASE == "recv_recv":
        receive(peer, 1)
    elif CASE == "ssend_ssend":
        world.Ssend([small, 1, MPI.INT], peer, 1)
    elif CASE == "large_sends":
        world.Send([large, MPI.CHAR], peer, 1)
    elif CASE == "tags":
        receive(1, 1) if rank == 0 else send(0, 2)
    elif CASE == "tags_ssend":
        world.Ssend([small, 1, MPI.INT], 1, 5) if rank == 0 else receive(0, 6)
    elif CASE == "communicators":
        receive(1, 1) if rank == 0 else halo.Send([small, 1, MPI.INT], 0, 1)
    elif CASE == "source":
        if rank == 0:
            receive(2, 1)
        elif rank == 1:
            send(0, 1)
    elif CASE == "any_source":
        receive(MPI.ANY_SOURCE, 1)
    elif CASE == "any_source_tags":
        receive(MPI.ANY_SOURCE, 1) if rank == 0 else send(0, 2)
    elif CASE == "chain":
        receive((rank + 1) % size, 1)
    elif CASE == "self" and rank == 0:
        receive(0, 9)
    elif CASE == "sendrecv":
        world.Sendrecv([small, 1, MPI.INT], peer, rank, [bytearray(4), 1, MPI.INT], peer, rank)
    elif CASE == "send_into_barrier":
        if rank == 0:
            world.Ssend([small, 1, MPI.INT], 1, 3)
        world.Barrier()


def requests():
    if CASE == "probe":
        world.Probe(1, 3) if rank == 0 else send(0, 4)
    elif CASE == "mprobe":
        world.recv(source=1, tag=3) if rank == 0 else world.send("text", 0, 4)
    elif CASE in ("wait", "waitall"):
        if rank == 1:
            send(0, 8)
        else:
            pair = [world.Irecv([bytearray(4), 1, MPI.INT], 1, tag) for tag in (8, 9)]
            pair[1].Wait() if CASE == "wait" else MPI.Request.Waitall(pair)
    elif CASE == "wait_send":
        if rank == 0:
            world.Isend([large, MPI.CHAR], 1, 2).Wait()
        world.Barrier()
    elif CASE == "persistent" and rank == 0:
        request = world.Recv_init([bytearray(4), 1, MPI.INT], 1, 7)
        request.Start()
        request.Wait()
    elif CASE == "test_loop":
        if rank == 1:
            receive(0, 5)
        request = world.Irecv([bytearray(4), 1, MPI.INT], 1, 4)
        while not request.Test():
            pass
    elif CASE == "iprobe_loop":
        if rank == 1:
            send(0, 2)
        while rank == 0 and not world.Iprobe(1, 1):
            pass


def collectives(halo):
    one, all_of = [small, 1, MPI.INT], [ints, 1, MPI.INT]
    if CASE == "bcast_reduce":
        halo.Bcast(one, 1) if rank == 0 else halo.Reduce(one, all_of, MPI.SUM, 1)
    elif CASE == "roots":
        halo.Bcast(one, 1 - rank)
    elif CASE == "order":
        if rank == 0:
            halo.Reduce(one, all_of, MPI.SUM, 0)
        halo.Gather(one, all_of, 1)
        halo.Reduce(one, all_of, MPI.SUM, 0)
    elif CASE == "barrier_recv":
        world.Barrier() if rank == 0 else receive(0, 1)
    elif CASE == "two_communicators":
        (halo if rank == 0 else world).Allreduce(one, all_of, MPI.SUM)
    elif CASE == "nonblocking":
        if rank == 1:
            receive(0, 1)
        world.Iallreduce(one, all_of, MPI.SUM).Wait()
    elif CASE == "split":
        if rank == 1:
            receive(0, 1)
        world.Split(0, 0)
    elif CASE == "missing_rank":
        if rank == 1:
            signal.pause()
        world.Barrier()
    elif CASE == "alltoall_recv":
        if rank == 2:
            receive(0, 6)
        world.Alltoall(one, all_of)


def windows():
    if not CASE.startswith("window"):
        return
    win = MPI.Win.Allocate(8, 1, comm=world)
    if CASE == "window_locks":
        win.Lock(rank, MPI.LOCK_EXCLUSIVE)
        world.Barrier()
        win.Lock(peer, MPI.LOCK_EXCLUSIVE)
    elif CASE == "window_fence":
        if rank == 1:
            receive(0, 1)
        win.Fence()
    elif CASE == "window_start":
        win.Start(world.Get_group().Incl([peer]))


def second():
    world.Get_rank()
    if MODE == "pair":
        world.Recv([bytearray(4), 1, MPI.INT], peer, 77)
    threading.Event().wait()


def main():
    halo = world.Dup()
    halo.Set_name("halo")
    for _ in range(20):
        halo.Barrier()
    if MODE in ("helper", "pair"):
        threading.Thread(target=second, daemon=True).start()
    world.Barrier()
    if rank == 0:
        print(os.getpid(), flush=True)
    messages(halo)
    requests()
    collectives(halo)
    windows()
    MPI.Finalize()


main()
