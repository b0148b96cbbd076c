# SPDX-License-Identifier: BSD-3-Clause
# The texts by which `weft hang` names the cases of programs.c and programs.py.

WORLD = r" on MPI_COMM_WORLD since [\d.]+ s"
HALO = r' on "halo" \(\d ranks\) since [\d.]+ s'


def wait(rank, call, text):
    """The line of a rank that waits for something of another rank."""
    return rf"rank {rank} \(pid \d+\): {call}{WORLD}: {text}"


def arrived(rank, call, missing, on=WORLD):
    """The line of a rank that waits in a collective."""
    return rf"rank {rank} \(pid \d+\): {call}{on}; waits for rank {missing}"


def both(call, text):
    return [wait(rank, call, text % (1 - rank)) for rank in (0, 1)]


def dead(*calls, why=""):
    """A cycle: rank 0 waits in the first call for rank 1, ..., the last rank for rank 0."""
    waits = [f"rank {rank} waits in {call} for rank {(rank + 1) % len(calls)}" for rank, call in enumerate(calls)]
    return r"\ndeadlock: " + ", ".join(waits) + why


def meant(rank, tag, sent):
    return f"; rank {rank} receives tag {tag}, but rank {1 - rank} sent tag {sent}"


RANKS = {"source": 3, "any_source": 3, "chain": 4, "missing_rank": 3, "alltoall_recv": 3}  # the others: 2
# Texts that must appear in the modes single and multiple.
CASES = {
    "recv_recv": [*both("MPI_Recv", r"receive from rank %d, tag 1, count 2 \(8 bytes\)"),
                  dead("MPI_Recv", "MPI_Recv", why=": both receive, neither sends")],
    "ssend_ssend": [*both("MPI_Ssend", r"send to rank %d, tag 1, count 1 \(4 bytes\)"),
                    dead("MPI_Ssend", "MPI_Ssend", why=": both send, neither receives")],
    "large_sends": [*both("MPI_Send", "send to rank %d, tag 1, count 4194304"),
                    dead("MPI_Send", "MPI_Send", why=": both send, neither receives")],
    "tags": [wait(0, "MPI_Recv", r"receive from rank 1, tag 1, .*; rank 1 sent tag 2 \(unexpected, 4 bytes\)"),
             dead("MPI_Recv", "MPI_Finalize", why=meant(0, 1, 2))],
    "tags_ssend": [wait(0, "MPI_Ssend", "send to rank 1, tag 5"), wait(1, "MPI_Recv", "receive from rank 0, tag 6"),
                   dead("MPI_Ssend", "MPI_Recv", why=r": the tags differ \(5 and 6\)")],
    "communicators": [wait(0, "MPI_Recv", r'receive from rank 1, tag 1, .*; rank 1 sent tag 1 on "halo" \(2 ranks\)'),
                      dead("MPI_Recv", "MPI_Finalize", why=meant(0, 1, 1) + ' on "halo"')],
    "source": [wait(0, "MPI_Recv", "receive from rank 2, tag 1, .*; rank 1 sent tag 1"),
               r"\ndeadlock: rank 0 waits in MPI_Recv for rank 2, rank 2 waits in MPI_Finalize for rank 0" + meant(0, 1, 1)],
    "any_source": [rf"MPI_Recv{WORLD}: receive from any rank, tag 1",
                   r"\ndeadlock: ranks 0-2: rank 0 waits in MPI_Recv for any rank, rank 1 waits in MPI_Recv for any rank"],
    "any_source_tags": [wait(0, "MPI_Recv", "receive from any rank, tag 1, .*; rank 1 sent tag 2"),
                        r"\ndeadlock: ranks 0, 1: rank 0 waits in MPI_Recv for any rank, rank 1 waits in MPI_Finalize for rank 0"
                        + meant(0, 1, 2)],
    "chain": [wait(3, "MPI_Recv", "receive from rank 0, tag 1"), dead("MPI_Recv", "MPI_Recv", "MPI_Recv", "MPI_Recv")],
    "self": [wait(0, "MPI_Recv", "receive from rank 0, tag 9"), r"\ndeadlock: rank 0 waits in MPI_Recv for itself"],
    "sendrecv": [wait(0, "MPI_Sendrecv", "receive from rank 1, tag 0, .*; rank 1 sent tag 1"),
                 dead("MPI_Sendrecv", "MPI_Sendrecv", why=meant(0, 0, 1) + meant(1, 1, 0))],
    "send_into_barrier": [wait(0, "MPI_Ssend", "send to rank 1, tag 3"), dead("MPI_Ssend", "MPI_Barrier")],
    "probe": [wait(0, "MPI_Probe", "message from rank 1, tag 3; rank 1 sent tag 4"),
              dead("MPI_Probe", "MPI_Finalize", why=meant(0, 3, 4))],
    "mprobe": [wait(0, "MPI_Mprobe", "message from rank 1, tag 3; rank 1 sent tag 4"),
               dead("MPI_Mprobe", "MPI_Finalize", why=meant(0, 3, 4))],
    "wait": [wait(0, "MPI_Wait", "receive from rank 1, tag 9, count 1"), dead("MPI_Wait", "MPI_Finalize")],
    "waitall": [wait(0, "MPI_Waitall", "receive from rank 1, tag 9, count 1"), dead("MPI_Waitall", "MPI_Finalize")],
    "wait_send": [wait(0, "MPI_Wait", "send to rank 1, tag 2, count 4194304"), dead("MPI_Wait", "MPI_Barrier")],
    "persistent": [wait(0, "MPI_Wait", "receive from rank 1, tag 7"), dead("MPI_Wait", "MPI_Finalize")],
    "test_loop": [r"rank 0 .*: polls MPI_Test on MPI_COMM_WORLD for [\d.]+ s: receive from rank 1, tag 4",
                  wait(1, "MPI_Recv", "receive from rank 0, tag 5")],
    "iprobe_loop": [r"rank 0 .*: polls MPI_Iprobe on MPI_COMM_WORLD for [\d.]+ s: "
                    "message from rank 1, tag 1; rank 1 sent tag 2"],
    "bcast_reduce": [rf"MPI_Bcast{HALO}", rf"MPI_Reduce{HALO}",
                     r'mismatched collectives on "halo" \(2 ranks\): rank 0 in MPI_Bcast, rank 1 in MPI_Reduce'],
    "roots": [rf"MPI_Bcast{HALO}", r'all ranks of "halo" \(2 ranks\) are in MPI_Bcast: .* roots or counts differ'],
    "order": [r'mismatched collectives on "halo" \(2 ranks\): rank 1 in MPI_Gather, rank 0 in MPI_Reduce'],
    "barrier_recv": [arrived(0, "MPI_Barrier", 1), wait(1, "MPI_Recv", "receive from rank 0, tag 1"),
                     dead("MPI_Barrier", "MPI_Recv")],
    "two_communicators": [arrived(0, "MPI_Allreduce", 1, HALO), arrived(1, "MPI_Allreduce", 0),
                          dead("MPI_Allreduce", "MPI_Allreduce", why=r": on different communicators "
                               r'\("halo" \(2 ranks\) and MPI_COMM_WORLD\)')],
    "nonblocking": [wait(0, "MPI_Wait", "nonblocking allreduce; waits for rank 1"), dead("MPI_Wait", "MPI_Recv")],
    "split": [arrived(0, "MPI_Comm_split", 1), dead("MPI_Comm_split", "MPI_Recv")],
    "missing_rank": [rf"ranks 0, 2: MPI_Barrier{WORLD}; waits for rank 1",
                     r"rank 1 .*: outside MPI.*, not running; last call: MPI_Barrier"],
    "alltoall_recv": [rf"MPI_Alltoall{WORLD}; waits for rank 2", wait(2, "MPI_Recv", "receive from rank 0, tag 6"),
                      r"\ndeadlock: rank 0 waits in MPI_Alltoall for rank 2, rank 2 waits in MPI_Recv for rank 0"],
    "window_locks": [r"rank 0 .*: MPI_Win_lock on .*: lock of rank 1, held exclusively by rank 1",
                     dead("MPI_Win_lock", "MPI_Win_lock")],
    "window_fence": [r"rank 0 .*: MPI_Win_fence on .*; waits for rank 1",
                     wait(1, "MPI_Recv", "receive from rank 0, tag 1"), dead("MPI_Win_fence", "MPI_Recv")],
    "window_start": [r"rank 0 .*: MPI_Win_start on .*: MPI_Win_post of rank 1", dead("MPI_Win_start", "MPI_Win_start")],
}  # fmt: skip
