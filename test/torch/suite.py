#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# torch's own suite of torch.distributed (torch.testing._internal.distributed.distributed_test) on a backend. Without a GPU it
# runs the tests of gloo, and of MPI where gloo has none. Processes are forked, with GPUs by a server.
# usage: suite.py BACKEND RESULTS.json [SECONDS] [TEST ...]; SECONDS: after which no further test begins; environment: WORLD_SIZE;
# TEST_LIKE=nccl: the tests of NCCL, on as many GPUs; TEST_PART=I/N: every N-th test from the I-th on
import importlib.util
import json
import multiprocessing
import os
import sys
import time
import types
import unittest

MODULE = "torch.testing._internal.distributed.distributed_test"
OTHER_NAMES = tuple(os.environ.get("TEST_LIKE", "gloo,mpi").split(","))  # of the backends whose tests are run
# How processes start: a process that has used CUDA must not fork others that use it.
START = "forkserver" if "nccl" in OTHER_NAMES else "fork"


class Name(str):
    """The name of a backend that the suite takes for any of several: it skips tests by comparing names, and by sets with gloo."""

    def __eq__(self, other):
        return str.__eq__(self, other) or other in OTHER_NAMES

    def __ne__(self, other):
        return not self == other

    def __hash__(self):
        return hash(OTHER_NAMES[0])


def load(backend):
    """Returns the module of the suite, whose constant BACKEND is a Name."""
    import torch.distributed  # noqa: F401
    from torch.testing._internal.common_distributed import DistTestCases

    features = ("plugin", "gpu", "cuda", "ddp", "subgroup") if "nccl" in OTHER_NAMES else ("plugin",)
    for feature in features:
        DistTestCases.backend_feature.setdefault(feature, set()).add(backend)
    os.environ["BACKEND"] = backend
    spec = importlib.util.find_spec(MODULE)
    with open(spec.origin, encoding="utf-8") as file:
        text = file.read()
    changed = text.replace('BACKEND = os.environ["BACKEND"]', "BACKEND = Name(os.environ['BACKEND'])", 1)
    if changed == text:
        raise RuntimeError(f"{spec.origin} does not read BACKEND as expected")
    module = types.ModuleType(MODULE)
    module.__file__, module.Name = spec.origin, Name
    sys.modules[MODULE] = module
    exec(compile(changed, spec.origin, "exec"), module.__dict__)
    os.environ["BACKEND"] = "mpi"  # tests of groups need eight processes of any other backend
    return module


class Results(unittest.TextTestResult):
    """Writes what became of each test to a file at once. A test that does not begin in time is not run."""

    end = float("inf")
    expected: list[str] = []

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.found, self.begin = {name: ["not run", "", 0.0] for name in self.expected}, 0.0

    def startTest(self, test):
        super().startTest(test)
        self.begin = time.monotonic()

    def note(self, test, outcome, text=""):
        name = test.id().rsplit(".", 1)[-1]
        self.found[name] = [outcome, text.strip()[-2000:], round(time.monotonic() - self.begin, 1)]
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            json.dump(self.found, file, indent=1)

    def stopTest(self, test):
        super().stopTest(test)
        if time.monotonic() > self.end:
            self.stop()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.note(test, "failed", self.failures[-1][1])

    def addError(self, test, error):
        super().addError(test, error)
        self.note(test, "failed", self.errors[-1][1])


def run_with(environment, target, *arguments, **options):
    """Calls `target` with these variables: a server's process has those of the server's start, before the test's setUp."""
    os.environ.update(environment)
    target(*arguments, **options)


def make_suite(backend):
    """Returns the class of the tests."""
    os.environ.setdefault("WORLD_SIZE", "4")
    os.environ.setdefault("TEMP_DIR", "/tmp")
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # torch uses CUDA at its import otherwise
    import torch.multiprocessing

    module = load(backend)
    if backend == "weft":
        import weft_mpi.torch  # noqa: F401

    make = torch.multiprocessing.get_context(START).Process

    def process(target, args=(), **options):
        return make(target=run_with, args=(dict(os.environ), target, *args), **options)

    class Suite(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(process)

    Suite.__module__, Suite.__qualname__ = "suite", "Suite"  # by which the server finds it
    return Suite


def main():
    multiprocessing.set_forkserver_preload(["suite"])
    names = sys.argv[3:]
    if names and names[0].isdigit():
        Results.end = time.monotonic() + int(names.pop(0))
    first, parts = map(int, os.environ.get("TEST_PART", "0/1").split("/"))
    Results.expected = (names or unittest.defaultTestLoader.getTestCaseNames(Suite))[first::parts]
    tests = unittest.TestSuite(map(Suite, Results.expected))
    print(f"{len(Results.expected)} tests", flush=True)
    unittest.TextTestRunner(resultclass=Results, verbosity=2).run(tests)


if __name__ == "suite":  # also in the server
    Suite = make_suite(os.environ["TEST_BACKEND"])
elif __name__ == "__main__":
    os.environ["TEST_BACKEND"] = sys.argv[1]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (sys.path[0], os.environ.get("PYTHONPATH"))))
    import suite

    suite.main()
