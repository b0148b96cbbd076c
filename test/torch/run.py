#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Weft's wheel with torch of PyPI in a new environment, without a compiler and a GPU: the backend under torchrun and mpiexec,
# four ways to train, the page docs/pytorch.md, and torch's own suite beside gloo.
# usage: run.py FOLDER [prepare | Torch.test_PART ...]; FOLDER: an environment, which is used again, as torch and CUDA are 5 GB.
# `prepare` installs it, which parts do otherwise. Status 77 if torch can't be installed, or a part has skipped something.
# Environment: TEST_WHEEL: a wheel in place of a new one; TEST_PREFIX: a prefix of `make` in place of a wheel; TEST_PREPARED: the
# environment is prepared; TEST_CUDA_DRIVER: the emulated driver; TEST_RESULTS: a folder that keeps results of torch's suite.
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tools", "docs"))
import blocks

SKIPPED = 77
PACKAGES = ["torch==2.15.0", "numpy", "expecttest", "mpi4py==4.1.2"]
FOLDER = os.path.abspath(sys.argv[1])
CHECKS = ["reductions", "special_types", "movements", "messages", "groups", "mpi4py"]  # any number of processes
OTHER_JOB = {"PMI_RANK": "0", "PMI_SIZE": "9", "PMI_FD": "99", "PMIX_RANK": "0", "PMIX_NAMESPACE": "none",
             "SLURM_STEP_NUM_TASKS": "9", "SLURM_PROCID": "0", "SLURM_NTASKS": "9"}  # fmt: skip
# Tests of torch's suite that gloo passes and Weft does not, each with its reason.
KNOWN = {}


LIMIT, LIMIT_OF_SUITE = 300, 1500  # seconds of one command, on a machine that runs other tests too
NETWORKS = ("libucp.so.0", "libfabric.so.1")


def program(name):
    return os.path.join(FOLDER, "bin", name)


def is_loadable(library):
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def install_prefix(prefix):
    """Lets the environment use an installation as if it were a wheel's: its modules, what runs when Python starts, the backend,
    and the commands."""
    command = [program("python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    information = os.path.join(packages, "weft_mpi-0.dist-info")
    os.makedirs(information, exist_ok=True)
    for path, text in (
        (os.path.join(packages, "weft_mpi.pth"), f"{prefix}/share/weft/python\nimport weft_mpi.site_hook\n"),
        (os.path.join(information, "METADATA"), "Metadata-Version: 2.1\nName: weft-mpi\nVersion: 0\n"),
        (os.path.join(information, "entry_points.txt"), "[torch.backends]\nweft = weft_mpi.torch:register\n"),
    ):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    for command in ("mpiexec", "weft"):
        if not os.path.lexists(program(command)):
            os.symlink(os.path.join(prefix, "bin", command), program(command))


def prepare():
    """Installs torch and Weft in the environment. Returns the reason if torch can't be installed."""
    if not os.path.exists(program("pip")):
        subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True)
    install = [program("pip"), "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run([*install, *PACKAGES], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return f"torch can't be installed: {done.stderr.strip()[-300:]}"
    if "TEST_PREFIX" in os.environ:
        install_prefix(os.path.abspath(os.environ["TEST_PREFIX"]))
        return ""
    with tempfile.TemporaryDirectory() as folder:
        wheel = os.environ.get("TEST_WHEEL")
        if wheel is None:
            command = [sys.executable, "tools/setup/wheel.py", "--to", folder]
            subprocess.run(command, cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
            (wheel,) = [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".whl")]
        subprocess.run([*install, "--force-reinstall", "--no-deps", wheel], check=True)
        subprocess.run([*install, wheel], check=True)  # its dependencies
    return ""


class Torch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        reason = "" if "TEST_PREPARED" in os.environ else prepare()
        if not reason and not os.path.exists(program("torchrun")):
            reason = "the environment has no torch"
        if reason:
            raise unittest.SkipTest(reason)
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)

    def setUp(self):
        begin = time.monotonic()
        self.addCleanup(lambda: print(f"{self.id()}: {time.monotonic() - begin:.0f} s", flush=True))

    def run_in(self, *command, status=0, limit=LIMIT, **variables):
        """Runs a command of the environment, for `limit` seconds at most; returns its output."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment.update(
            {"PATH": os.path.join(FOLDER, "bin") + ":/usr/bin:/bin", "OMP_NUM_THREADS": "1"}, **variables
        )
        try:
            done = subprocess.run([program(command[0]), *command[1:]], env=environment, cwd=self.folder, timeout=limit, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
        except subprocess.TimeoutExpired as late:
            self.fail(f"{' '.join(command)} takes more than {limit} s:\n{(late.stdout or b'').decode()[-2000:]}")
        self.assertEqual(done.returncode, status, "%s:\n%s" % (" ".join(command), done.stdout))
        return done.stdout

    def torchrun(self, processes, name, *arguments, **variables):
        command = ["torchrun", "--nproc-per-node", str(processes), os.path.join(HERE, name), *arguments]
        return self.run_in(*command, **variables)

    def passed(self, printed, checks, processes):
        for check in checks:
            self.assertEqual(printed.count(f"passed: {check}"), processes, printed)

    # Checks that leave a process as it was share a start, which takes some seconds of the processor for each process.

    def test_process_group(self):
        self.passed(self.torchrun(3, "process_group.py", *CHECKS), CHECKS, 3)
        for check in ("again", "time_limit", "death"):
            with self.subTest(check=check), tempfile.TemporaryDirectory() as folder:
                processes = 4 if check == "death" else 3
                printed = self.torchrun(processes, "process_group.py", check, TEST_FOLDER=folder)
                if check == "death":
                    self.assertEqual(printed.count("named"), 3, printed)
                if check == "time_limit":
                    self.assertEqual((printed.count("timed out"), printed.count("aborted")), (1, 2), printed)

    def test_edges(self):
        checks = ("mixed", "arguments", "half_begun", "callbacks", "regrouped", "own_limit", "destroyed")
        self.passed(self.torchrun(3, "edges.py", *checks), checks, 3)
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
        for check in ("store", "store_of_torch"):
            self.run_in("python", edges, check)
        self.run_in(
            "mpiexec", "-n", "2", "python", edges, "other_backend", MASTER_ADDR="127.0.0.1", MASTER_PORT="29533"
        )

    @unittest.skipUnless(any(map(is_loadable, NETWORKS)), "two simulated hosts need UCX or libfabric")
    def test_contacts(self):
        self.torchrun(4, "edges.py", "contacts", WEFT_FAKE_HOSTS="2")

    def test_exceptions(self):
        """What programs catch with gloo they catch with weft; and sizes that do not fit are ValueError, as with NCCL."""
        found = {}
        for backend in ("gloo", "weft"):
            alone = self.run_in("python", os.path.join(HERE, "exceptions.py"), backend)
            printed = self.torchrun(2, "exceptions.py", backend) + alone
            found[backend] = {}
            for line in printed.splitlines():
                if line.startswith("{"):
                    found[backend].update(json.loads(line))
        self.assertGreater(len(found["gloo"]), 25)
        self.assertEqual(found["gloo"].keys(), found["weft"].keys())
        for case, kinds in found["gloo"].items():
            with self.subTest(case=case):
                if kinds:  # gloo takes some mistakes for calls without a tensor
                    self.assertIn(kinds[0], found["weft"][case])
                if "size" in case or "too few" in case or "other type" in case:
                    self.assertIn("ValueError", found["weft"][case])

    def test_compiled(self):
        checks = ("tensors", "functions", "data_parallel")
        self.passed(self.torchrun(2, "compiled.py", *checks), checks, 2)

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
        checks = ("messages", "groups", "mpi4py")
        self.passed(
            self.run_in("mpiexec", "-n", "3", "python", os.path.join(HERE, "process_group.py"), *checks), checks, 3
        )
        with tempfile.TemporaryDirectory() as folder:
            command = ["mpiexec", "-n", "2", "python", os.path.join(HERE, "process_group.py"), "again"]
            self.run_in(*command, TEST_FOLDER=folder)

    def test_leaving(self):
        """Processes end one by one without destroy_process_group; who needs a process that has left gets an exception."""
        leaving = os.path.join(HERE, "leaving.py")
        for launcher in (["mpiexec", "-n", "3", "python"], ["torchrun", "--nproc-per-node", "3"]):
            for how, word in (("early", "saved"), ("needed", "named"), ("destroyed", "saved")):
                with self.subTest(launcher=launcher[0], how=how):
                    printed = self.run_in(*launcher, leaving, how)
                    self.assertEqual(printed.count(word), 2, printed)
                    self.assertNotIn("Traceback", printed)
        mpiexec = ["mpiexec", "-n", "3", "python", leaving]
        self.assertEqual(self.run_in(*mpiexec, "mpi4py").count("saved"), 2)
        for how, status in (("status", 3), ("raised", 1), ("immediate", 1), ("unfinalized", 1)):
            with self.subTest(how=how):
                begin = time.monotonic()
                self.assertNotIn("saved", self.run_in(*mpiexec, how, status=status))
                self.assertLess(time.monotonic() - begin, 60)  # the others would sleep longer

    def test_training(self):
        ways = ("data_parallel", "fully_sharded", "tensor_parallel", "pipeline")
        printed = self.torchrun(2, "training.py", "weft", *ways)
        for way in ways:
            self.assertIn(f"{way} as on one process", printed)

    def test_bench(self):
        program, file = os.path.join(SOURCE, "bench", "torch_collectives.py"), os.path.join(self.folder, "bench.json")
        prefix = self.run_in("python", "-c", "from weft_mpi import prefix; print(prefix.find())").strip()
        self.run_in("python", program, "--memory", "H", "--trial", "--weft", prefix, "--json", file)
        with open(file, encoding="utf-8") as written:
            found = json.load(written)
        self.assertEqual((found["ranks"], len(found["rows"])), (2, 2 * 5 + 5 + 1))
        for row in found["rows"]:
            values = row["figures"]
            self.assertTrue(values["Weft"] > 0 and values["gloo"] > 0, row)
            self.assertEqual(row["ratio"], round(values["Weft"] / values["gloo"], 3))

    def test_page(self):
        """The blocks of docs/pytorch.md."""
        for line in blocks.lines_of("test/torch/run.py", SOURCE, "docs/pytorch.md", self.folder):
            if not line.startswith("pip "):
                with self.subTest(command=line):
                    self.run_in(*line.split("#")[0].split())

    def suite_of(self, backend):
        """Runs torch's suite; returns what became of each test, also if it does not end in time."""
        folder = os.path.abspath(os.environ.get("TEST_RESULTS", self.folder))
        os.makedirs(folder, exist_ok=True)
        results = os.path.join(folder, backend + ".json")
        if not os.path.exists(results) or "TEST_RESULTS" not in os.environ:
            command = ["python", os.path.join(HERE, "suite.py"), backend, results, str(LIMIT_OF_SUITE)]
            self.run_in(*command, limit=LIMIT_OF_SUITE + LIMIT, TEMP_DIR=self.folder, TMPDIR=self.folder)
        with open(results, encoding="utf-8") as file:
            found = json.load(file)
        counts = {word: sum(1 for outcome, *_ in found.values() if outcome == word)
                  for word in ("passed", "failed", "skipped", "not run")}  # fmt: skip
        slowest = sorted(((seconds, name) for name, (_, _, seconds) in found.items()), reverse=True)[:5]
        print(
            f"{backend}: {counts}, {sum(seconds for _, _, seconds in found.values()):.0f} s; slowest: {slowest}",
            flush=True,
        )
        return found

    def test_own_suite(self):
        """Nothing fails that gloo passes, without a reason."""
        outcomes = {backend: self.suite_of(backend) for backend in ("gloo", "weft")}
        passed = {name for name, (outcome, *_) in outcomes["gloo"].items() if outcome == "passed"}
        self.assertGreater(len(passed), 80)
        worse = {name: outcomes["weft"][name] for name in passed if outcomes["weft"][name][0] != "passed"}
        self.assertEqual(set(worse), set(KNOWN), json.dumps(worse, indent=1))


if __name__ == "__main__":
    if sys.argv[2:] == ["prepare"]:
        missing = prepare()
        print(f"skipped: {missing}" if missing else "prepared")
        sys.exit(SKIPPED if missing else 0)
    result = unittest.main(verbosity=2, exit=False, argv=[sys.argv[0], *sys.argv[2:]]).result
    if result.skipped:
        print("skipped: " + "; ".join(sorted({reason for _, reason in result.skipped})))
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if result.skipped else 0)
