#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Programs that take device 0, LOCAL_RANK modulo the number of devices, or LOCAL_RANK, on four emulated GPUs under
# --gpu-bind: each rank uses the right GPU, or the job ends or begins with a clear line.
import json
import os
import subprocess
import sys
import time
import unittest

from gpu_lines import has_gpus, used_by_rank
from support import PEER as PROGRAM
from support import run, start, time_limit


def number(used):
    """The number of an emulated GPU, the last character of its UUID; -1: none."""
    return int(bytes.fromhex(used.uuid[-2:])) if used else -1


class GpuBind(unittest.TestCase):
    def job(self, bind, how, ranks=4, visible="0,1,2,3", **variables):
        """(exit code, GPU of each rank, standard error)"""
        arguments = ["-n", ranks, *(["--gpu-bind", bind] if bind else []), PROGRAM, how]
        return self.start(arguments, visible, variables)

    def variables(self, visible, **others):
        emulated = {"WEFT_CUDA_DRIVER": os.environ["WEFT_CUDA_DRIVER"], "EMUCUDA_DEVICES": "4", **others}
        return emulated if visible is None else {**emulated, "CUDA_VISIBLE_DEVICES": visible}

    def start(self, arguments, visible, variables):
        code, output, errors = run(*arguments, variables=self.variables(visible, **variables))
        return code, [number(used) for used in used_by_rank(output)], errors

    def expect(self, job, gpus):
        code, used, errors = job
        self.assertEqual((code, used), (0, gpus), errors)
        self.assertNotIn("--gpu-bind", errors)

    def refused(self, job, *parts):
        code, _, errors = job
        self.assertNotEqual(code, 0)
        for part in parts:
            self.assertIn(part, errors)

    def test_device_0(self):
        self.expect(self.job("single", "zero"), [0, 1, 2, 3])
        self.expect(self.job("map_gpu:3,0*2,1", "zero"), [3, 0, 0, 1])
        self.expect(self.job("rotate", "zero"), [0, 1, 2, 3])
        self.expect(self.job("per_task:2", "zero", ranks=2), [0, 2])

    def test_modulo(self):
        self.expect(self.job("single", "modulo"), [0, 1, 2, 3])
        self.expect(self.job("map_gpu:3,2,1,0", "modulo"), [3, 2, 1, 0])
        self.expect(self.job("per_task:2", "modulo", ranks=2), [0, 3])
        for bind in ("none", None):
            self.expect(self.job(bind, "modulo"), [0, 1, 2, 3])

    def test_raw_local_rank(self):
        self.expect(self.job("none", "raw"), [0, 1, 2, 3])
        for bind in ("single", "map_gpu:3,2,1,0"):
            job = self.job(bind, "raw")
            self.refused(job, "invalid device ordinal", "--gpu-bind shows it one GPU", "use --gpu-bind none")

    def test_rotate_and_a_program_that_selects_by_rank(self):
        for how in ("modulo", "raw"):
            code, used, errors = self.job("rotate", how)
            self.assertEqual((code, used), (0, [0, 2, 0, 2]))
            self.assertEqual(errors.count("selects its GPU by rank"), 1, errors)

    def test_idle_gpus(self):
        for bind in ("none", None):
            code, used, errors = self.job(bind, "zero", ranks=2)
            self.assertEqual((code, used), (0, [0, 0]))
            self.assertEqual(errors.count("2 ranks of this host share the GPU"), 1, errors)
            self.assertIn("3 other GPUs are idle", errors)
            self.assertIn("mpiexec --gpu-bind single", errors)
        self.expect(self.job(None, "zero", ranks=2, WEFT_LOG="error"), [0, 0])
        self.expect(self.job(None, "zero", ranks=2, visible="1"), [1, 1])  # no other GPU is visible
        self.expect(self.job(None, "modulo", visible="0,1"), [0, 1, 0, 1])
        self.expect(self.job("single:2", "zero"), [0, 0, 1, 1])
        self.expect(self.job(None, "zero", ranks=1), [0])

    def test_ranks_without_a_gpu(self):
        code, used, errors = self.start(["-n", 2, PROGRAM, "zero", ":", "-n", 1, PROGRAM, "none"], "0,1", {})
        self.assertEqual((code, used[:2]), (0, [0, 0]), errors)
        self.assertEqual(errors.count("share the GPU"), 1, errors)
        self.assertEqual(self.job("single", "none")[2], "")

    def test_only_visible_gpus(self):
        self.expect(self.job("single", "zero", ranks=2, visible="2,0"), [2, 0])
        self.expect(self.job("map_gpu:1", "zero", ranks=2, visible="2,0"), [0, 0])
        self.expect(self.job("single", "zero", visible="1,3"), [1, 1, 3, 3])

    def test_refusals(self):
        self.refused(self.job("per_task:2", "zero"), "4 ranks with 2 GPUs each, but 4 GPUs are visible here")
        self.refused(self.job("map_gpu:4", "zero"), "rank 0 gets GPU 4, but 4 GPUs are visible here")
        self.refused(self.job("closest", "zero"), "use --gpu-bind single")
        self.refused(self.job("single", "zero", visible=None), "no NVIDIA GPU is visible")
        self.refused(self.start(["-n", 1, "--gpu-bind=single", "-x", "CUDA_VISIBLE_DEVICES=1", PROGRAM], "0", {}),
                     "CUDA_VISIBLE_DEVICES=1 mpiexec")  # fmt: skip

    def test_watch(self):
        with start("-n", 2, "--gpu-bind", "map_gpu:3,2", PROGRAM, "zero", "wait", stdin=subprocess.PIPE,
                   variables=self.variables("0,1,2,3")) as job:  # fmt: skip
            gpus, until = [], time.monotonic() + time_limit(20)
            while not gpus and time.monotonic() < until:
                code, output, errors = run("--watch", f"{job.pid},0.2,1")
                gpus = json.loads(output)["ranks"][1]["gpus"] if code == 0 and output else []
            job.communicate(b"")
        self.assertEqual(len(gpus), 1, errors)
        self.assertEqual((gpus[0]["number"], gpus[0]["visible"], gpus[0]["numa_distance"]), (0, 1, -1))
        self.assertEqual(gpus[0]["uuid"], "GPU-656d756c-6174-6564-2047-505520202032")

    def test_report(self):
        code, _, errors = self.start(["-n", 2, "--gpu-bind=verbose,single", "--do-not-launch", PROGRAM], "2,0", {})
        self.assertEqual(code, 0)
        self.assertRegex(errors, "rank 0: .*; GPU 2, 1 GPU hidden\n")
        self.assertRegex(errors, "rank 1: .*; GPU 0, 1 GPU hidden\n")


if __name__ == "__main__":
    if has_gpus():
        print("skipped: the numbers of this machine's GPUs are not those of the emulated ones")
        sys.exit(77)
    unittest.main(verbosity=2)
