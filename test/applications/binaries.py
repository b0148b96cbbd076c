#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Programs of Debian, built for Open MPI or MPICH and not changed, give the same results on Weft as on their own MPI.
# Exit status 77: the packages cannot be fetched.
#
# Usage: binaries.py WORK_FOLDER [--only NAME,...] [--ranks N] [--limit SECONDS] [--markdown]
# Each program runs with 4 ranks (NetPIPE: 2) in two folders, once with each MPI; its kept lines must be equal (order of
# lines apart), words with a point or an exponent within the tolerance.
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import time

import simulations
from debian import LIBRARIES, OPENMPI, OPENMPI_OPTIONS, Missing, Program, fetch, openmpi_variables, skip
from run import equal

MPI_PREFIX = os.environ.get("MPI_PREFIX", "")
PYTHON = """
from mpi4py import MPI
import math
comm = MPI.COMM_WORLD
total = comm.allreduce(sum(math.sqrt(i) for i in range(comm.rank, 10000, comm.size)))
words = comm.gather({"rank": comm.rank, "of": comm.size})
ring = comm.sendrecv([comm.rank] * 3, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
window = MPI.Win.Allocate(8, 8, comm=comm)
window.Fence()
window.Put([bytearray([comm.rank] * 8), MPI.BYTE], (comm.rank + 1) % comm.size)
window.Fence()
print("result %.9f" % total, words, ring, bytes(window.tomemory()).hex())
window.Free()
"""
# Eigenvalues by SLEPc, and linear systems by PETSc with its own solvers and those of other packages.
SLEPC = """
import sys, petsc4py, slepc4py
slepc4py.init(sys.argv)
from petsc4py import PETSc
from slepc4py import SLEPc
m = 30
A = PETSc.Mat().createAIJ([m * m, m * m], nnz=5, comm=PETSc.COMM_WORLD)
for row in range(*A.getOwnershipRange()):
    i, j = divmod(row, m)
    A[row, row] = 4.0 + 0.01 * (row % 7)
    for other, inside in ((row - m, i > 0), (row + m, i < m - 1), (row - 1, j > 0), (row + 1, j < m - 1)):
        if inside:
            A[row, other] = -1.0
A.assemble()
for kind in ("krylovschur", "lobpcg", "arpack"):
    E = SLEPc.EPS().create()
    E.setOperators(A)
    E.setProblemType(SLEPc.EPS.ProblemType.HEP)
    E.setType(kind)
    E.setWhichEigenpairs(SLEPc.EPS.Which.SMALLEST_REAL)
    E.setDimensions(4)
    E.setTolerances(1e-9, 2000)
    E.solve()
    PETSc.Sys.Print("result", kind, " ".join("%.7f" % E.getEigenvalue(i).real for i in range(4)))
x, b = A.createVecs()
x.set(1.0)
A.mult(x, b)
for solver, preconditioner, package in (
    ("cg", "bjacobi", ""), ("cg", "hypre", ""), ("cg", "gamg", ""), ("cg", "ml", ""), ("gmres", "asm", ""), ("bcgs", "jacobi", ""),
    ("preonly", "lu", "mumps"), ("preonly", "cholesky", "mumps"), ("preonly", "lu", "superlu_dist"),
):
    K = PETSc.KSP().create()
    K.setOperators(A)
    K.setType(solver)
    P = K.getPC()
    P.setType(preconditioner)
    if package:
        P.setFactorSolverType(package)
    K.setTolerances(rtol=1e-10)
    y = b.duplicate()
    K.solve(b, y)
    y.axpy(-1.0, x)
    PETSc.Sys.Print("result", solver, preconditioner, package, "converged", K.getConvergedReason() > 0, "error %.9f" % y.norm())
"""
# The closure of python3-slepc4py-real3.18.
SLEPC_PACKAGES = """python3-slepc4py-real3.18 libaec0 libsuitesparseconfig5 libamd2 libarpack2 libbtf1 libcamd2 libccolamd2 libcolamd2 libmetis5 libcholmod3
  libcombblas1.16.0 libfftw3-double3 libfftw3-long3 libfftw3-single3 libfftw3-mpi3 libsz2 libhdf5-openmpi-103-1 libptscotch-7.0
  libsuperlu-dist8 libhypre-2.26.0 libklu1 libscalapack-openmpi2.2 libmumps-5.5 libparpack2 libspqr2 libsuperlu5 libscotch-7.0
  libtrilinos-kokkos-13.2 libtrilinos-teuchos-13.2 libtrilinos-epetra-13.2 libtrilinos-triutils-13.2 libtrilinos-epetraext-13.2
  libtrilinos-trilinosss-13.2 libtrilinos-amesos-13.2 libtrilinos-aztecoo-13.2 libtrilinos-galeri-13.2 libtrilinos-ifpack-13.2
  libtrilinos-zoltan-13.2 libtrilinos-ml-13.2 libumfpack5 libpetsc-real3.18 libslepc-real3.18 python3-numpy
  python3-petsc4py-real3.18"""
LAMMPS = """
units lj
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
fix 1 all nve
thermo 20
run 100
"""
FORM = """Symbols x, y, z, u;
Local F = (x + 2*y - 3*z + 5*u)^14;
.sort
id x = y - z;
Print +s;
.end
"""
CUBE = "H-representation\nbegin\n10 6 integer\n%send\n" % "".join(
    "1 %s\n" % " ".join(str(sign * (column == row)) for column in range(5)) for row in range(5) for sign in (1, -1)
)
CDL = "netcdf %s {\ndimensions: x = 6;\nvariables: int v(x);\ndata: v = 1, 2, 3, %d, 5, 6;\n}\n"


# Each driver of SuperLU_DIST on a 2 by 2 grid, then its tests (factorisations of a matrix with several options). The
# drivers of three-dimensional grids (p?drive3d*) are left out: on their own MPI they end with a zero diagonal, too.
SUPERLU = """
cd $LIB/superlu-dist/tests/EXAMPLE
solve() { echo "run $1"; $RUN ./$1 -r 2 -c 2 $2; }
for d in pddrive1 pddrive2 pddrive3 pddrive1_ABglobal pddrive2_ABglobal pddrive3_ABglobal psdrive1 psdrive2 psdrive3; do
  solve $d g20.rua || exit 1
done
for d in pzdrive pzdrive1 pzdrive2 pzdrive3; do solve $d cg20.cua || exit 1; done
cd ../TEST
for s in 1 3; do $RUN ./pdtest -r 2 -c 2 -s $s -b 2 -x 8 -m 20 -f ../EXAMPLE/g20.rua; done
true
"""


PROGRAMS = {
    "hpcc": Program("hpcc", "sed 's/^1000 .*Ns$/120 Ns/' $ROOT/usr/share/doc/hpcc/examples/_hpccinf.txt > hpccinf.txt; "
                    "$RUN hpcc && cat hpccoutf.txt", r"\|\|.*(PASSED|FAILED)|^Success=|Found \d+ errors|^PTRANS_residual", 1e-9),
    "phyml-mpi": Program("phyml", "$RUN phyml-mpi -i s.phy -b 4 --r_seed 1 -d nt && cat s.phy_phyml_stats*",
                         r"Log-likelihood:|Parsimony:|Tree size:|Gamma shape", 1e-5),
    "tree-ppuzzle": Program("tree-ppuzzle libsprng2", "echo y | $RUN tree-ppuzzle s.phy && cat s.phy.puzzle",
                            r"^log L:|Number of (constant|site)|^Expected", 1e-5),
    "mplrs": Program("mplrs", "$RUN mplrs cube.ine out && sort out", r"^ *\d+( +-?\d+)+ *$"),
    "ffindex": Program("ffindex libffindex0", "rm -f d d.i o o.i; ffindex_build -s d d.i input && "
                       "$RUN ffindex_apply_mpi -d o -i o.i d d.i -- sort && cat o*", r"[a-z]"),
    "NPopenmpi": Program("netpipe-openmpi", "$RUN -np 2 NPopenmpi -n 100 -u 20000 -I -o np.out && cut -c1-8 np.out", r"^ *\d+ *$"),
    "NPmpich2": Program("netpipe-mpich2", "$RUN -np 2 NPmpich2 -n 100 -u 20000 -I -o np.out && cut -c1-8 np.out", r"^ *\d+ *$", 0, "mpich"),
    "lmp (LAMMPS)": Program("lammps liblammps0 libkim-api2 libvoro++1 libfftw3-double3", "$RUN lmp -in in.melt",
                   r"^ *\d+( +-?[\d.]+){5} *$|^Created|Neighs:", 1e-6),
    "ncmpidiff (PnetCDF)": Program("pnetcdf-bin", "$RUN ncmpigen -v 5 -o a.nc a.cdl && $RUN ncmpigen -v 5 -o b.nc b.cdl && "
                                   "$RUN ncmpidump a.nc; $RUN ncmpidiff a.nc a.nc; $RUN ncmpidiff a.nc b.nc; true",
                                   r"v = |[Nn]umber of differences|DIFF|same|SUCCESS"),
    "iqtree2-mpi (IQ-TREE)": Program("iqtree libgomp1", "$RUN iqtree2-mpi -s s.phy -m HKY -n 0 -seed 1 -nt 1 -redo && cat s.phy.iqtree",
                                     r"^Log-likelihood of the tree|^Total tree length|^ +[ACG]-[CGT]: ", 1e-4),
    "parform (ParFORM)": Program("form", "$RUN parform cube.frm", r"^ *\+ |^ +F = |Terms in output"),
    "pddrive (SuperLU_DIST)": Program("libsuperlu-dist-dev libsuperlu-dist8 libcombblas1.16.0 libmetis5 libptscotch-7.0 libscotch-7.0",
                                      SUPERLU, r"^run p|Sol |^DGS driver|^All tests|test\(\d\)=", 1e-6),
    "slepc4py (PETSc, SLEPc)": Program(SLEPC_PACKAGES, "PYTHONPATH=$(echo $ROOT/usr/lib/*dir/*/*/lib/python3/dist-packages "
                                       "$ROOT/usr/lib/python3/dist-packages | tr ' ' :) $RUN /usr/bin/python3 s.py", "^result", 1e-6),
    # Partitions depend on the order of messages, on their own MPI, too: counts of vertices per part are within the limit.
    "dgpart (PT-Scotch)": Program("ptscotch scotch libptscotch-7.0 libscotch-7.0", "gmk_m2 40 30 > m2.grf && $RUN dgtst m2.grf && "
                                  "$RUN dgpart 5 m2.grf m2.map && sed 1d m2.map | cut -f2 | sort | uniq -c | awk '$1 > 226 && $1 < 254 "
                                  "{print \"part\", $2}' && $RUN dgord m2.grf m2.ord && sed 1d m2.ord | cut -f2 | sort -n | uniq | wc -l",
                                  r"^S\t|^part|^\d+$"),
    "Global Arrays": Program("libglobalarrays-dev libarmci-mpi-dev libscalapack-openmpi2.2 libopenmpi-dev",
                             "cc -w -I$ROOT/usr/include -I$OPENMPI/include $HERE/global_arrays.c -o ga $LIB/libga-openmpi.a "
                             "$LIB/libarmci-openmpi.a $LIB/libscalapack-openmpi.so.2.2 $LIB/libmpi.so.40 -llapack -lblas "
                             "-lgfortran -lm -Wl,--allow-shlib-undefined && $RUN ./ga", r"^ga "),
    "C++ bindings (Open MPI)": Program("libopenmpi-dev", "c++ -w -I$OPENMPI/include/openmpi -I$OPENMPI/include $HERE/cxx_bindings.cpp "
                            "-o cxx $ROOT/%s/libmpi_cxx.so.40 $ROOT/%s/libmpi.so.40 -Wl,--allow-shlib-undefined && $RUN ./cxx"
                            % (LIBRARIES, LIBRARIES), r"^cxx "),
    "C++ bindings (MPICH)": Program("libmpich-dev libmpich12", "c++ -w -I$ROOT/usr/include/x86_64-linux-gnu/mpich $HERE/cxx_bindings.cpp -o cxx "
                                    "$LIB/libmpichcxx.so.12 $LIB/libmpich.so.12 -Wl,--allow-shlib-undefined && $RUN ./cxx", r"^cxx ", 0, "mpich"),
    "python3-mpi4py": Program("python3-mpi4py", "PYTHONPATH=$ROOT/usr/lib/python3/dist-packages $RUN /usr/bin/python3 p.py",
                              r"^result", 1e-12),
    **simulations.PROGRAMS,
}  # fmt: skip


def write_inputs(folder):
    """Writes the input files of all programs; the same in each call."""
    chance = random.Random(1)
    ancestor = [chance.choice("ACGT") for _ in range(300)]
    species = []
    for _ in range(8):
        parent = chance.choice(species) if species else ancestor
        species.append([chance.choice("ACGT") if chance.random() < 0.1 else site for site in parent])
    files = {"s.phy": "8 300\n" + "".join("species%d  %s\n" % (i, "".join(one)) for i, one in enumerate(species))}
    files.update({"in.melt": LAMMPS, "cube.ine": CUBE, "p.py": PYTHON, "s.py": SLEPC, "cube.frm": FORM})
    files.update(simulations.INPUTS)
    files.update({"a.cdl": CDL % ("a", 4), "b.cdl": CDL % ("b", 7)})
    for name, text in files.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(text)
    os.makedirs(os.path.join(folder, "input"))
    for i in range(6):
        with open(os.path.join(folder, "input", "file%d" % i), "w", encoding="utf-8") as file:
            file.write("".join("line %s of %d\n" % (chance.random(), i) for _ in range(5)))


def execute(program, folder, root, launcher, variables, limit):
    """Runs the commands in a new folder; returns the kept lines, sorted. Raises RuntimeError."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    write_inputs(folder)
    libraries = ":".join([root + "/" + LIBRARIES, root + "/usr/lib"])
    environment = dict(os.environ, ROOT=root, RUN=launcher, LD_LIBRARY_PATH=libraries, **variables)
    environment.update(HERE=os.path.dirname(os.path.abspath(__file__)), OPENMPI=f"{root}/{LIBRARIES}/openmpi")
    environment["LIB"] = root + "/" + LIBRARIES
    environment["PATH"] = "%s/usr/bin:%s" % (root, environment["PATH"])
    with open(folder + "/log", "w+", encoding="utf-8", errors="replace") as log:
        command = ["timeout", str(limit), "sh", "-c", program.run]
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        log.seek(0)
        text = log.read()
    kept = sorted(line.rstrip() for line in text.splitlines() if re.search(program.keep, line))
    if done.returncode != 0 or not kept:
        raise RuntimeError("status %d, %d lines kept of\n%s" % (done.returncode, len(kept), text[-2000:]))
    return kept


def compare(program, work, root, ranks, limit):
    """Returns the number of equal lines and seconds on Weft. Raises RuntimeError."""
    count = "" if "-np" in program.run else " -n %d" % ranks
    if program.mpi == "openmpi":
        own = " ".join([root + "/usr/bin/mpirun.openmpi", *OPENMPI_OPTIONS])
        variables = openmpi_variables(root)
    else:
        own, variables = "mpirun.mpich", {}
    wanted = execute(program, work + "/own", root, own + count, variables, limit)
    begin = time.monotonic()
    got = execute(program, work + "/weft", root, os.path.join(MPI_PREFIX, "bin", "mpiexec") + count, {}, limit)
    if len(got) != len(wanted) or not all(equal(a, b, program.tolerance) for a, b in zip(got, wanted)):
        raise RuntimeError("results differ:\n--- its own MPI\n%s\n--- Weft\n%s" % ("\n".join(wanted), "\n".join(got)))
    return len(got), time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--ranks", type=int, default=4, help="some programs need 4 (default: %(default)s)")
    parser.add_argument("--limit", type=int, default=600, help="time limit of a program in s (default: %(default)s)")
    parser.add_argument("--markdown", action="store_true", help="print a table")
    chosen = parser.parse_args()
    work = os.path.abspath(chosen.folder)
    root = work + "/root"
    failed = []
    try:
        fetch(root, OPENMPI)
    except Missing as error:
        skip(str(error))
    for name, program in PROGRAMS.items():
        if chosen.only and name not in chosen.only.split(",") and name.split()[0] not in chosen.only.split(","):
            continue
        try:
            fetch(root, program.packages.split())
            lines, seconds = compare(program, work, root, chosen.ranks, chosen.limit)
        except (Missing, RuntimeError) as error:
            failed.append(name)
            print(f"{name}: FAILED: {error}", flush=True)
            continue
        form = "| %s | %s | %d | %.1f s |" if chosen.markdown else "%s (%s): %d lines are equal, %.1f s"
        print(form % (name, program.packages.split()[0], lines, seconds), flush=True)
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
