#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Typical mistakes in mpi4py programs: the text of each exception names the call, the values and the remedy.
# usage: mistakes.py FOLDER [rank]; status 77 if mpi4py is not built. Starts itself with 2 ranks.
import os
import subprocess
import sys

SKIPPED = 77


def mistakes(MPI):
    """Yields (call that raises MPI.Exception, parts of its text)."""
    world = MPI.COMM_WORLD
    other = 1 - world.rank
    small, large = bytearray(8), bytearray(16)

    def truncated(receive):
        request = world.Isend([large, 4, MPI.INT], other, 3)
        try:
            receive()
        finally:
            request.Wait()

    def of_freed():
        comm = world.Dup()
        comm.Free()
        comm.Barrier()

    sizes = ["16 bytes", "source %d, tag 3" % other, "the receive buffer 8: receive with a larger count"]
    uncommitted = MPI.INT.Create_vector(2, 1, 2)
    two_ints = [small, 2, MPI.INT]
    yield lambda: world.Send(small, 5), ["MPI_Send", "dest = 5 (communicator has 2 ranks): use 0 to 1"]
    yield lambda: world.Send(small, other, -3), ["MPI_Send", "tag = -3: use 0 to"]
    yield lambda: world.Recv(small, 9), ["MPI_Recv", "source = 9 (communicator has 2 ranks): use 0 to 1"]
    yield lambda: truncated(lambda: world.Recv(two_ints, other, 3)), ["MPI_Recv"] + sizes
    yield lambda: truncated(world.Irecv(two_ints, other, 3).Wait), ["MPI_Wait"] + sizes
    yield lambda: truncated(lambda: MPI.Request.Waitall([world.Irecv(two_ints, other, 3)])), ["MPI_Waitall"] + sizes
    yield lambda: world.Bcast(small, 7), ["MPI_Bcast", "root = 7 (communicator has 2 ranks): use 0 to 1"]
    yield (lambda: world.Allreduce([small, 1, MPI.DOUBLE], [large, 1, MPI.DOUBLE], MPI.BAND),
           ["MPI_Allreduce", "op = MPI_BAND is not defined for MPI_DOUBLE", "use another datatype"])  # fmt: skip
    yield lambda: world.Allreduce(two_ints, two_ints), ["MPI_Allreduce", "MPI_IN_PLACE"]
    yield of_freed, ["MPI_Barrier", "comm is MPI_COMM_NULL: pass"]
    yield lambda: world.Send([large, 1, uncommitted], other), ["MPI_Send", "is not committed", "call MPI_Type_commit"]
    yield lambda: world.Create_cart([3, 3]), ["MPI_Cart_create", "9", "2"]
    yield lambda: world.Get_group().Incl([0, 5]), ["MPI_Group_incl", "5", "use 0 to 1"]
    yield lambda: world.Split(-7), ["MPI_Comm_split", "color = -7: use 0 or more, or MPI_UNDEFINED"]
    yield lambda: world.Bsend(small, other), ["MPI_Bsend", "MPI_Buffer_attach"]
    yield lambda: MPI.Info.Create().Set("k" * 300, "v"), ["MPI_Info_set", "MPI_MAX_INFO_KEY"]
    yield lambda: MPI.Compute_dims(7, [2, 0]), ["MPI_Dims_create", "7"]


def rank(folder):
    sys.path.insert(0, folder)
    from mpi4py import MPI

    failures = 0
    for number, (call, parts) in enumerate(mistakes(MPI)):
        try:
            call()
            text = "no exception"
        except MPI.Exception as error:
            text = str(error)
        missing = [part for part in parts if part not in text]
        if missing:
            failures += 1
            print("rank %d, mistake %d: %r lacks %s" % (MPI.COMM_WORLD.rank, number + 1, text, missing), flush=True)
        MPI.COMM_WORLD.Barrier()
    return failures != 0


def main():
    folder = sys.argv[1]
    if len(sys.argv) > 2:
        return rank(folder)
    if not os.path.exists(os.path.join(folder, "stamp")):
        print("skipped: mpi4py was not built")
        return SKIPPED
    mpiexec = os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec")
    return subprocess.run([mpiexec, "-n", "2", sys.executable, __file__, folder, "rank"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
