#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# A rank of a job is killed. By default the launcher ends the job and names it; with --continue-on-failure the other
# ranks get errors and go on. usage: process_failure.py PROGRAM [RUNS PER OPERATION]
import os
import random
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
RUNS = int(sys.argv.pop(2)) if len(sys.argv) > 2 else 1
from support import PEER as PROGRAM  # noqa: E402
from support import Mark, run, time_limit  # noqa: E402

RANKS = 4
POINT_TO_POINT = ("send", "ssend", "receive", "any_source", "probe", "test")
COLLECTIVES = ("barrier", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "alltoall")
BY_MESSAGES = ("barrier", "bcast", "allreduce", "alltoall", "reduce_scatter", "scan")
LARGE = (
    "bcast_large",
    "allreduce_large",
    "alltoall_large",
    "iallreduce",
    "iallreduce_large",
    "ialltoall",
    "persistent",
)
# On GPU memory: protocols LL, Simple and direct buffers, and order slots.
KERNELS = (
    "bcast",
    "reduce",
    "allreduce",
    "allgather",
    "alltoall",
    "reduce_scatter",
    "scan",
    "barrier",
    "iallreduce",
    "ialltoall",
    "persistent",
    "allreduce_large",
    "alltoall_large",
    "bcast_large",
    "iallreduce_large",
)
ON_GPU = {
    "TEST_MEMORY": "device",
    "WEFT_CUDA_DRIVER": os.environ.get("TEST_EMULATED_DRIVER", ""),
    "EMUCUDA_STRICT": "1",
    "EMUCUDA_DEVICES": "4",
    "WEFT_COLL_SHARED_MIN_CALLS": "0",
}
ENQUEUED = ("send_enqueue", "recv_enqueue", "irecv_enqueue", "allreduce_enqueue", "alltoall_enqueue")
DIRECT = {"WEFT_COLL_GPU_DIRECT_MIN_BYTES": "0", "WEFT_COLL_GPU_DIRECT_REDUCE_MIN_BYTES": "0"}
LATE_READ = os.environ.get("TEST_LATE_READ", "")
QUEUE_RUNS = 3 * RUNS
SURVIVE_KILL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "network", "survive_kill.sh")


def some(operations):
    """All operations in long runs, every third one in the quick suite."""
    return operations if RUNS > 1 else operations[::3]


class ProcessFailure(unittest.TestCase):
    def setUp(self):
        self.mark = Mark()
        self.jobs = 0  # half of the lives, the even ones, begin when the operation has run
        self.kernels = 0  # survivors on whose GPU collective kernels have run

    def run_job(self, *arguments, **variables):
        begin = time.monotonic()
        result = run("-n", RANKS, *arguments, variables={**self.mark.variables, **variables}, timeout=30)
        self.assertEqual(self.mark.processes(), [])
        return *result, time.monotonic() - begin

    def check_survivors(self, operation, **variables):
        for _ in range(RUNS):
            victim, lifetime = random.randrange(RANKS), random.randrange(500, 30000) * 2 + self.jobs % 2
            self.jobs += 1
            command = ["--continue-on-failure", PROGRAM, operation, victim, lifetime]
            status, output, errors, _ = self.run_job(*command, **variables)
            context = f"{operation}, victim {victim}, {lifetime} us: {output}{errors}"
            self.assertEqual(output.count("good rank"), RANKS - 1, context)
            self.assertEqual(status, 137, context)
            self.assertIn(f"rank {victim} (pid", errors, context)
            self.kernels += output.count("kernels have run")

    def test_messages(self):
        for operation in some(POINT_TO_POINT):
            with self.subTest(operation):
                self.check_survivors(operation)

    def test_collectives_in_shared_memory(self):
        for operation in some(COLLECTIVES):
            with self.subTest(operation):
                self.check_survivors(operation)

    def test_collectives_by_messages(self):
        for operation in some(BY_MESSAGES):
            with self.subTest(operation):
                self.check_survivors(operation, WEFT_COLL_SHARED="off")
        for operation in some(LARGE):
            with self.subTest(operation):
                self.check_survivors(operation)

    def test_messages_of_gpu_memory(self):
        for operation in some(POINT_TO_POINT):
            with self.subTest(operation):
                self.check_survivors(operation, **ON_GPU)

    def test_collectives_by_kernels(self):
        for operation in some(KERNELS):
            with self.subTest(operation):
                self.check_survivors(operation, **ON_GPU)
        self.assertGreater(self.kernels, 0)

    def test_collectives_by_kernels_on_buffers_of_other_ranks(self):
        for operation in ("allreduce_large", "alltoall_large", "bcast_large"):
            with self.subTest(operation):
                self.check_survivors(operation, **ON_GPU, **DIRECT)
        self.assertGreater(self.kernels, 0)

    def test_collectives_of_gpu_memory_by_messages(self):
        for operation in ("allreduce", "alltoall_large", "iallreduce"):
            with self.subTest(operation):
                self.check_survivors(operation, **{**ON_GPU, "WEFT_COLL_SHARED": "off"})
        self.assertEqual(self.kernels, 0)

    def test_enqueued_operations(self):
        for operation in some(ENQUEUED):
            with self.subTest(operation):
                self.check_survivors(operation, **ON_GPU)

    def test_killed_while_it_writes_into_a_queue(self):
        for _ in range(QUEUE_RUNS):
            self.check_survivors("stream", WEFT_SHM_RING_AFTER_MESSAGES="1000000")

    def check_late(self, when, sender, receiver, *handler):
        variables = {**ON_GPU, "TEST_MEMORY": ""} if "device" in (sender, receiver) else {}
        return run(
            "-n",
            2,
            *handler,
            LATE_READ,
            when,
            sender,
            receiver,
            variables={**self.mark.variables, **variables},
            timeout=60,
        )

    def test_late_reads_of_its_memory(self):
        for case in (
            ("late", "host", "host"),
            ("middle", "host", "host"),
            ("late", "host", "device"),
            ("middle", "host", "device"),
            ("late", "device", "host"),
            ("middle", "device", "host"),
        ):
            with self.subTest(case):
                status, output, errors = self.check_late(*case, "--continue-on-failure")
                self.assertIn("good", output, errors)
                self.assertEqual(status, 137, errors)
                for path in ("p2p.single_copy_failed", "p2p.no_single_copy", "p2p.device_chunk_unreadable"):
                    self.assertNotIn(path, errors)

    def test_late_reads_leave_the_end_of_the_job_to_the_launcher(self):
        status, output, errors = self.check_late("late", "host", "host")
        self.assertEqual(status, 137, errors)
        self.assertIn("rank 1 (pid", errors)
        self.assertNotIn("weft[", errors)
        self.assertEqual(output, "")

    def check_ended(self, handler):
        victim = random.randrange(RANKS)
        status, output, errors, seconds = self.run_job(PROGRAM, "receive", victim, 50000, *handler)
        self.assertEqual(status, 137, errors)
        self.assertIn(f"rank {victim} (pid", errors)
        self.assertIn("was killed by signal 9", errors)
        self.assertNotIn("weft[", errors)  # a survivor's message
        self.assertEqual(output, "")
        self.assertLess(seconds, time_limit(4))  # start-up included

    def test_by_default_the_launcher_ends_the_job(self):
        for _ in range(RUNS):
            self.check_ended(())
            self.check_ended(("fatal",))

    def test_survivors_abort_if_the_launcher_does_not_end_the_job(self):
        command = ["sh", SURVIVE_KILL, PROGRAM, "receive", 1, 50000, "fatal"]
        status, _, errors, seconds = self.run_job(*command)
        self.assertGreater(seconds, 2)
        self.assertIn("MPI_Recv failed: process 1 has failed (pid", errors)
        self.assertNotIn(status, (0, 137))


if __name__ == "__main__":
    unittest.main(verbosity=2)
