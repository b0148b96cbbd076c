#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Weft's wheel with torch of PyPI in a new environment, without a compiler and a GPU: the backend under torchrun and mpiexec,
# four ways to train, the page docs/pytorch.md, and torch's own suite beside gloo.
# usage: run.py FOLDER [TEST ...]; an environment that is there already is used again, as torch and CUDA are 5 GB. Status 77 if
# torch can't be installed.
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tools", "docs"))
import blocks

SKIPPED = 77
PACKAGES = ["torch==2.15.0", "numpy", "expecttest", "mpi4py==4.1.2"]
FOLDER = os.path.abspath(sys.argv[1])
CHECKS = ["reductions", "special_types", "movements", "messages", "groups", "again", "mpi4py", "time_limit", "death"]
OTHER_JOB = {"PMI_RANK": "0", "PMI_SIZE": "9", "PMI_FD": "99", "PMIX_RANK": "0", "PMIX_NAMESPACE": "none",
             "SLURM_STEP_NUM_TASKS": "9", "SLURM_PROCID": "0", "SLURM_NTASKS": "9"}  # fmt: skip
# Tests of torch's suite that gloo passes and Weft does not, each with its reason.
KNOWN = {}


def program(name):
    return os.path.join(FOLDER, "bin", name)


class Torch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        if not os.path.exists(program("pip")):
            subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True)
        install = [program("pip"), "install", "-q", "--disable-pip-version-check"]
        done = subprocess.run([*install, *PACKAGES], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise unittest.SkipTest(f"torch can't be installed: {done.stderr.strip()[-300:]}")
        if "TEST_WHEEL" in os.environ:
            wheel = os.environ["TEST_WHEEL"]
        else:
            command = [sys.executable, "tools/setup/wheel.py", "--to", cls.folder]
            subprocess.run(command, cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
            (wheel,) = [os.path.join(cls.folder, name) for name in os.listdir(cls.folder) if name.endswith(".whl")]
        subprocess.run([*install, "--force-reinstall", "--no-deps", wheel], check=True)
        subprocess.run([*install, wheel], check=True)  # its dependencies

    def run_in(self, *command, status=0, **variables):
        """Runs a command of the environment; returns its output."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment.update(
            {"PATH": os.path.join(FOLDER, "bin") + ":/usr/bin:/bin", "OMP_NUM_THREADS": "1"}, **variables
        )
        done = subprocess.run([program(command[0]), *command[1:]], env=environment, cwd=self.folder, timeout=1500, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
        self.assertEqual(done.returncode, status, "%s:\n%s" % (" ".join(command), done.stdout))
        return done.stdout

    def torchrun(self, processes, name, *arguments, **variables):
        command = ["torchrun", "--nproc-per-node", str(processes), os.path.join(HERE, name), *arguments]
        return self.run_in(*command, **variables)

    def test_process_group(self):
        for check in CHECKS:
            with self.subTest(check=check), tempfile.TemporaryDirectory() as folder:
                processes = 4 if check == "death" else 3
                printed = self.torchrun(processes, "process_group.py", check, TEST_FOLDER=folder)
                if check == "death":
                    self.assertEqual(printed.count("named"), 3, printed)
                if check == "time_limit":
                    self.assertEqual((printed.count("timed out"), printed.count("aborted")), (1, 2), printed)

    def test_edges(self):
        for check in ("mixed", "arguments", "half_begun", "callbacks", "own_limit", "destroyed"):
            with self.subTest(check=check):
                self.torchrun(3, "edges.py", check)
        self.torchrun(4, "edges.py", "contacts", WEFT_FAKE_HOSTS="2")
        command = [
            "torchrun",
            "--nproc-per-node",
            "2",
            "--max-restarts",
            "1",
            os.path.join(HERE, "edges.py"),
            "attempts",
        ]
        printed = self.run_in(*command, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
        self.assertEqual(printed.count("second attempt"), 2, printed)
        self.assertIn("an earlier process with rank", self.run_in(*command, status=1))
        edges = os.path.join(HERE, "edges.py")
        self.run_in("python", edges, "store")
        self.run_in(
            "mpiexec", "-n", "2", "python", edges, "other_backend", MASTER_ADDR="127.0.0.1", MASTER_PORT="29533"
        )

    def test_compiled(self):
        for check in ("tensors", "functions", "data_parallel"):
            with self.subTest(check=check):
                self.torchrun(2, "compiled.py", check)

    def test_stream_order(self):
        for program in ("stream_order.py", "issued.py"):
            self.run_in("python", os.path.join(HERE, program))

    def test_emulated(self):
        if "TEST_CUDA_DRIVER" in os.environ:
            variables = {"WEFT_CUDA_DRIVER": os.environ["TEST_CUDA_DRIVER"], "EMUCUDA_DEVICES": "3"}
            for check in ("together", "graphs", "death", "handler", "time_limit"):
                with self.subTest(check=check):
                    self.torchrun(3, "emulated.py", check, **variables)

    def test_store_before_launchers(self):
        """The variables of another launcher, as of a job of Slurm in which torchrun runs, do not matter."""
        self.torchrun(2, "process_group.py", "messages", **OTHER_JOB)

    def test_mpiexec(self):
        for check in ("messages", "groups", "mpi4py"):
            self.run_in("mpiexec", "-n", "3", "python", os.path.join(HERE, "process_group.py"), check)
        with tempfile.TemporaryDirectory() as folder:
            command = ["mpiexec", "-n", "2", "python", os.path.join(HERE, "process_group.py"), "again"]
            self.run_in(*command, TEST_FOLDER=folder)

    def test_training(self):
        for way in ("data_parallel", "fully_sharded", "tensor_parallel", "pipeline"):
            with self.subTest(way=way):
                self.assertIn(f"{way} as on one process", self.torchrun(2, "training.py", "weft", way))

    def test_page(self):
        """The blocks of docs/pytorch.md."""
        for line in blocks.lines_of("test/torch/run.py", SOURCE, "docs/pytorch.md", self.folder):
            if not line.startswith("pip "):
                with self.subTest(command=line):
                    self.run_in(*line.split("#")[0].split())

    def test_own_suite(self):
        """Nothing fails that gloo passes, without a reason."""
        outcomes = {}
        for backend in ("gloo", "weft"):
            results = os.path.join(self.folder, backend + ".json")
            self.run_in(
                "python", os.path.join(HERE, "suite.py"), backend, results, TEMP_DIR=self.folder, TMPDIR=self.folder
            )
            with open(results, encoding="utf-8") as file:
                outcomes[backend] = json.load(file)
        for backend, found in outcomes.items():
            counts = {word: sum(1 for outcome, *_ in found.values() if outcome == word)
                      for word in ("passed", "failed", "skipped")}  # fmt: skip
            print(f"{backend}: {counts}")
        passed = {name for name, (outcome, *_) in outcomes["gloo"].items() if outcome == "passed"}
        self.assertGreater(len(passed), 80)
        worse = {name: outcomes["weft"][name] for name in passed if outcomes["weft"][name][0] != "passed"}
        self.assertEqual(set(worse), set(KNOWN), json.dumps(worse, indent=1))


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False, argv=[sys.argv[0], *sys.argv[2:]]).result
    if result.skipped:
        print("skipped: " + "; ".join(sorted({reason for _, reason in result.skipped})))
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if result.skipped else 0)
