#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Programs that take device 0, LOCAL_RANK modulo the number of devices, or LOCAL_RANK (as PyTorch does), on the GPUs of
# this machine, two to four, under --gpu-bind: each rank uses the GPU that the binding promises (UUID and PCI address), and
# exchanges messages between GPUs; or the job is refused, or a line says so, as docs/launch.md promises.
# usage: gpu_bind_real.py PROGRAM [emulated N]: that of gpu_of_rank.c; on N emulated GPUs
import os
import subprocess
import sys
import unittest

from gpu_lines import has_gpus, listed, reported_by_rank, used_by_rank
from support import PEER as PROGRAM
from support import clean_environment, run

EMULATED = int(sys.argv[2]) if sys.argv[1:2] == ["emulated"] else 0
MAX_GPUS = 4
HOWS = ("zero", "modulo", "raw")


def variables():
    """What a job needs. The GPUs keep the names by which this process may select them."""
    given = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "WEFT_LOG": "warn"}
    if EMULATED:
        given |= {"WEFT_CUDA_DRIVER": os.environ["WEFT_CUDA_DRIVER"], "EMUCUDA_DEVICES": str(EMULATED)}
    return given


def list_gpus(**more):
    """(UUID, PCI address) of the GPUs that a process sees, in its order."""
    environment = clean_environment(**variables(), **more)
    done = subprocess.run([PROGRAM, "list"], env=environment, capture_output=True, text=True, check=False)
    return listed(done.stdout)


def visible():
    """The names of the GPUs for mpiexec, at most MAX_GPUS of the GPUs that this process may use."""
    inherited = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    found = inherited.split(",") if inherited else [str(gpu) for gpu in range(len(list_gpus()))]
    return found[:MAX_GPUS]


class GpuBindReal(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = visible()
        cls.count = len(cls.names)
        cls.variables = {**variables(), "CUDA_VISIBLE_DEVICES": ",".join(cls.names)}
        cls.gpus = list_gpus(CUDA_VISIBLE_DEVICES=",".join(cls.names))
        assert len(cls.gpus) == len(set(cls.gpus)) == cls.count, cls.gpus

    def job(self, bind, how):
        """(exit code, Used of each rank, standard error), one rank for each GPU."""
        code, output, errors = run(
            "-n", self.count, "--gpu-bind", bind, PROGRAM, how, variables=self.variables, timeout=120
        )
        return code, used_by_rank(output), errors

    def promised(self, bind):
        """The GPUs of each rank in the order in which it sees them, as numbers of self.gpus, by --report-bindings."""
        code, _, errors = run(
            "-n", self.count, "--report-bindings", "--do-not-launch", "--gpu-bind", bind, PROGRAM,
            variables=self.variables,
        )  # fmt: skip
        self.assertEqual(code, 0, errors)
        return [[self.names.index(name) for name in rank] for rank in reported_by_rank(errors)]

    def check(self, bind, how, lists):
        """The job uses the GPUs of the lists. Returns the standard error, and the numbers of the GPUs."""
        code, used, errors = self.job(bind, how)
        self.assertEqual((code, len(used)), (0, self.count), errors)
        numbers = []
        for rank, (one, gpus) in enumerate(zip(used, lists)):
            device = {"zero": 0, "modulo": rank % len(gpus), "raw": rank}[how]
            self.assertEqual((one.device, one.count), (device, len(gpus)), errors)
            self.assertEqual((one.uuid, one.pci), self.gpus[gpus[device]], f"rank {rank} under {bind}, {how}")
            numbers.append(gpus[device])
        return errors, numbers

    def test_one_gpu_each(self):
        reverse = list(reversed(range(self.count)))
        for bind, gpus in (("single", None), ("map_gpu:" + ",".join(map(str, reverse)), reverse)):
            lists = self.promised(bind)
            self.assertEqual([len(one) for one in lists], [1] * self.count)
            if gpus is not None:
                self.assertEqual(lists, [[gpu] for gpu in gpus])
            else:
                self.assertEqual(sorted(lists), [[gpu] for gpu in range(self.count)])
            for how in ("zero", "modulo"):
                errors, _ = self.check(bind, how, lists)
                self.assertNotIn("selects its GPU by rank", errors)
                self.assertNotIn("share the GPU", errors)
            code, _, errors = self.job(bind, "raw")
            self.assertNotEqual(code, 0)
            for part in ("invalid device ordinal", "--gpu-bind shows it one GPU", "use --gpu-bind none"):
                self.assertIn(part, errors)

    def test_shared_gpu(self):
        gpus = [self.count - 1] * 2 + list(range(1, self.count - 1))  # the first two ranks share one
        bind = "map_gpu:" + ",".join([f"{gpus[0]}*2", *map(str, gpus[2:])])
        lists = self.promised(bind)
        self.assertEqual(lists, [[gpu] for gpu in gpus])
        self.check(bind, "zero", lists)

    def test_rotate(self):
        lists = self.promised("rotate")
        self.assertEqual([sorted(one) for one in lists], [list(range(self.count))] * self.count)
        self.assertEqual(sorted(one[0] for one in lists), list(range(self.count)))
        errors, _ = self.check("rotate", "zero", lists)
        self.assertNotIn("selects its GPU by rank", errors)
        for how in ("modulo", "raw"):
            errors, _ = self.check("rotate", how, lists)
            self.assertEqual(errors.count("selects its GPU by rank"), 1, errors)

    def test_none(self):
        lists = [list(range(self.count))] * self.count
        for how in ("modulo", "raw"):
            errors, numbers = self.check("none", how, lists)
            self.assertEqual(numbers, list(range(self.count)))
            self.assertNotIn("share the GPU", errors)
        errors, numbers = self.check("none", "zero", lists)
        self.assertEqual(numbers, [0] * self.count)
        self.assertEqual(errors.count(f"{self.count} ranks of this host share the GPU"), 1, errors)
        self.assertIn(f"{self.count - 1} other GPU", errors)
        self.assertIn("mpiexec --gpu-bind single", errors)


if __name__ == "__main__":
    del sys.argv[1:]
    if EMULATED and has_gpus():
        print("skipped: mpiexec finds the GPUs of this machine")
        sys.exit(77)
    if len(visible()) < 2:
        print("skipped: needs two GPUs")
        sys.exit(77)
    unittest.main(verbosity=2)
