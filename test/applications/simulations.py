# SPDX-License-Identifier: BSD-3-Clause
# Programs of Debian for simulations, with small inputs; run by binaries.py.
from debian import Program

MD = """integrator = md
nsteps = 40
dt = 0.001
nstenergy = 20
nstlog = 20
nstcalcenergy = 20
cutoff-scheme = Verlet
verlet-buffer-tolerance = -1
rlist = 0.95
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
fourierspacing = 0.15
tcoupl = no
constraints = none
gen-vel = yes
gen-temp = 300
gen-seed = 1
"""
# Water of the simple point charge model. $RUN comes from the test.
GROMACS = """
export GMXDATA=$ROOT/usr/share/gromacs GMXLIB=$ROOT/usr/share/gromacs/top OMP_NUM_THREADS=1
rm -f \\#*
printf '#include "amber99sb.ff/forcefield.itp"\\n#include "amber99sb.ff/spce.itp"\\n[ system ]\\nwater\\n[ molecules ]\\n' > topol.top
gmx -quiet solvate -cs spc216.gro -box 2.5 2.5 2.5 -o water.gro -p topol.top || exit 1
gmx -quiet grompp -maxwarn 2 -f md.mdp -c water.gro -p topol.top -o md.tpr || exit 1
$RUN gmx_mpi -quiet mdrun -s md.tpr -deffnm md -reprod -npme 0 -ntomp 1 -notunepme && cat md.log
"""
NWCHEM = """start water
geometry units angstroms noautosym
 O 0.0 0.0 0.1173
 H 0.0 0.7572 -0.4692
 H 0.0 -0.7572 -0.4692
end
basis
 * library 6-31g*
end
task scf energy
task mp2 energy
dft
 xc b3lyp
end
task dft gradient
"""
ESPRESSO = """&control
 calculation='scf', pseudo_dir='.', outdir='out', prefix='si', tprnfor=.true., tstress=.true.
/
&system
 ibrav=2, celldm(1)=10.2, nat=2, ntyp=1, ecutwfc=16
/
&electrons
 conv_thr=1d-7
/
ATOMIC_SPECIES
Si 28.086 Si.UPF
ATOMIC_POSITIONS alat
Si 0.0 0.0 0.0
Si 0.26 0.25 0.24
K_POINTS automatic
1 1 3 0 0 0
"""
CP2K = """&GLOBAL
  PROJECT w
  RUN_TYPE ENERGY_FORCE
  PRINT_LEVEL LOW
&END GLOBAL
&FORCE_EVAL
  METHOD Quickstep
  &DFT
    BASIS_SET_FILE_NAME GTH_BASIS_SETS
    POTENTIAL_FILE_NAME GTH_POTENTIALS
    &MGRID
      CUTOFF 120
    &END MGRID
    &SCF
      SCF_GUESS ATOMIC
      EPS_SCF 1.0E-7
    &END SCF
    &XC
      &XC_FUNCTIONAL PADE
      &END XC_FUNCTIONAL
    &END XC
  &END DFT
  &PRINT
    &FORCES
    &END FORCES
  &END PRINT
  &SUBSYS
    &CELL
      ABC 5.0 5.0 5.0
    &END CELL
    &COORD
      O 0.0 0.0 0.1173
      H 0.0 0.7572 -0.4692
      H 0.0 -0.7572 -0.4692
    &END COORD
    &KIND H
      BASIS_SET DZVP-GTH
      POTENTIAL GTH-PADE-q1
    &END KIND
    &KIND O
      BASIS_SET DZVP-GTH
      POTENTIAL GTH-PADE-q6
    &END KIND
  &END SUBSYS
&END FORCE_EVAL
"""
ELK = """tasks
 0

sppath
 '%s/usr/share/elk-lapw/species/'

avec
 3.8267 3.8267 0.0
 3.8267 0.0 3.8267
 0.0 3.8267 3.8267

atoms
 1
 'Al.in'
 1
 0.0 0.0 0.0  0.0 0.0 0.0

ngridk
 3 3 3

"""
ABINIT = """ecut 8
acell 3*10.2
rprim 0 .5 .5 .5 0 .5 .5 .5 0
ntypat 1
znucl 14
natom 2
typat 1 1
xred 0 0 0 .26 .25 .24
ngkpt 2 2 2
nshiftk 1
shiftk 0 0 0
chksymbreak 0
chksymtnons 0
nstep 20
toldfe 1e-9
pp_dirpath "."
pseudos "Si.UPF"
"""
BANDS = """(set! geometry-lattice (make lattice (size 1 1 no-size)))
(set! geometry (list (make cylinder (center 0 0) (radius 0.2) (height infinity) (material (make dielectric (epsilon 12))))))
(set! k-points (interpolate 2 (list (vector3 0 0 0) (vector3 0.5 0 0) (vector3 0.5 0.5 0))))
(set! resolution 16)
(set! num-bands 4)
(run-tm)
"""
# Eight cells in a ring excite each other; spikes cross the ranks.
NEURON = """load_file("stdrun.hoc")
objref nil, pc, cell, times, ids, stim, con, list, cons
begintemplate Cell
public soma, syn
create soma
objref syn
proc init() {
  soma { L = 30 diam = 30 insert hh }
  soma syn = new ExpSyn(0.5)
  syn.tau = 2
}
endtemplate Cell
pc = new ParallelContext()
n = 8
list = new List()
cons = new List()
times = new Vector()
ids = new Vector()
for (i = pc.id(); i < n; i += pc.nhost()) {
  cell = new Cell()
  list.append(cell)
  pc.set_gid2node(i, pc.id())
  cell.soma con = new NetCon(&v(0.5), nil)
  pc.cell(i, con)
  if (i == 0) {
    stim = new NetStim()
    stim.number = 1
    stim.start = 1
    con = new NetCon(stim, cell.syn)
    con.weight = 0.05
    cons.append(con)
  }
}
for (k = 0; k < list.count(); k += 1) {
  i = pc.id() + k * pc.nhost()
  con = pc.gid_connect((i + n - 1) % n, list.object(k).syn)
  con.weight = 0.05
  con.delay = 2
  cons.append(con)
}
pc.spike_record(-1, times, ids)
pc.set_maxstep(10)
stdinit()
pc.psolve(60)
pc.barrier()
for (k = 0; k < times.size(); k += 1) printf("spike %d at %.6f\\n", ids.x[k], times.x[k])
pc.runworker()
pc.done()
quit()
"""
# Views of a ball, of which the program finds the directions and the volume. $RUN comes from the test.
RELION = """
relion_mask_create --denovo --box_size 32 --inner_radius 3 --outer_radius 8 --angpix 4 --width_soft_edge 3 --o ball.mrc &&
relion_project --i ball.mrc --o views --ang views_in.star --angpix 4 && mkdir out &&
$RUN relion_refine_mpi --i views.star --o out/run --ref ball.mrc --ini_high 30 --particle_diameter 100 --iter 2 --K 1 --tau2_fudge 2 \\
  --healpix_order 1 --offset_range 2 --offset_step 2 --norm --scale --sym C1 --pad 1 --random_seed 1 --j 1 \\
  --dont_combine_weights_via_disc && cat out/run_it002_model.star
"""
VIEWS = """data_optics

loop_
_rlnOpticsGroup #1
_rlnOpticsGroupName #2
_rlnVoltage #3
_rlnSphericalAberration #4
_rlnImagePixelSize #5
_rlnImageSize #6
_rlnImageDimensionality #7
1 optics1 300 2.7 4 32 2

data_particles

loop_
_rlnAngleRot #1
_rlnAngleTilt #2
_rlnAnglePsi #3
_rlnOriginXAngst #4
_rlnOriginYAngst #5
_rlnOpticsGroup #6
_rlnImageName #7
""" + "".join(
    "%.1f %.1f %.1f 0 0 1 %06d@views.mrcs\n" % (i * 137.5 % 360, i * 37.3 % 180, i * 91.7 % 360, i + 1)
    for i in range(60)
)
H5PY = """
import numpy, sys
from mpi4py import MPI
import h5py
comm = MPI.COMM_WORLD
with h5py.File("parallel.h5", "w", driver="mpio", comm=comm) as file:
    data = file.create_dataset("data", (comm.size * 4, 1000), dtype="f8")
    with data.collective:
        data[comm.rank * 4 : comm.rank * 4 + 4, :] = numpy.sqrt(numpy.arange(4000.0) + comm.rank).reshape(4, 1000)
    file.attrs["ranks"] = comm.size
with h5py.File("parallel.h5", "r", driver="mpio", comm=comm) as file:
    part = file["data"][:, comm.rank :: comm.size]
    print("result", comm.rank, "%.10f" % part.sum(), file.attrs["ranks"])
"""
RMPI = """
library(Rmpi, lib.loc = paste0(Sys.getenv("ROOT"), "/usr/lib/R/site-library"))
rank <- mpi.comm.rank(0)
ranks <- mpi.comm.size(0)
total <- mpi.allreduce(sqrt(rank + 1), type = 2, op = "sum", comm = 0)
names <- mpi.allgather.Robj(letters[rank + 1], comm = 0)
cat(sprintf("result %d of %d %.9f %s\\n", rank, ranks, total, paste(unlist(names), collapse = "")))
mpi.quit(save = "no")
"""
SILICON = "zcat $ROOT/usr/share/doc/quantum-espresso/examples/atomic/pseudo-LDA-0.5/Si.pz-vbc.UPF.gz > Si.UPF && "

PROGRAMS = {
    "gmx_mpi (GROMACS)": Program("gromacs gromacs-data libgromacs7 libmuparser2v5 libfftw3-double3 libfftw3-single3", GROMACS,
                                 r"^( +-?\d\.\d{5}e[+-]\d\d)+ *$", 1e-4),
    "nwchem (NWChem)": Program("nwchem-openmpi nwchem-data libscalapack-openmpi2.2",
                               "NWCHEM_BASIS_LIBRARY=$ROOT/usr/share/nwchem/libraries/ $RUN nwchem.openmpi water.nw",
                               r"Total (SCF|DFT|MP2) energy|^ +\d+ +[OH]( +-?\d+\.\d+){6}", 1e-5),
    "pw.x (Quantum ESPRESSO)": Program("quantum-espresso quantum-espresso-data libscalapack-openmpi2.2 libfftw3-double3",
                                       SILICON + "$RUN pw.x -in si.in && $RUN pw.x -nk 2 -in si.in && $RUN pw.x -ndiag 4 -in si.in",
                                       r"^!|Total force|total   stress|convergence has been", 1e-5),
    "cp2k (CP2K)": Program("cp2k cp2k-data libelpa19 libint2-2 libsymspg1 libxc9 libscalapack-openmpi2.2 libfftw3-double3",
                           "CP2K_DATA_DIR=$ROOT/usr/share/cp2k OMP_NUM_THREADS=1 $RUN cp2k.psmp -i w.inp",
                           r"ENERGY\| Total|^ +\d+ +\d+ +[OH]( +-?\d+\.\d+){3}", 1e-5),
    "abinit (ABINIT)": Program("abinit libxc9 libnetcdff7 libnetcdf19 libhdf5-103-1 libhdf5-hl-100 libaec0 libsz2 quantum-espresso",
                               SILICON + "rm -f si.abo*; $RUN abinit si.abi && cat si.abo", r"etotal|^ +cartesian forces|sigma\(", 1e-5),
    "elk-lapw (Elk)": Program("elk-lapw libxc9 libfftw3-double3", "sed -i s,%s,$ROOT, elk.in; OMP_NUM_THREADS=1 $RUN elk-lapw && cat INFO.OUT",
                              r"^ (total energy|Fermi|sum of eigenvalues) ", 1e-5),
    "mb-mpi (MrBayes)": Program("mrbayes-mpi libhmsbeagle1v5", "(echo '#NEXUS\nbegin mrbayes;\nset autoclose=yes nowarn=yes seed=1 swapseed=2;\nend;\n"
                                "begin data;\ndimensions ntax=8 nchar=300;\nformat datatype=dna;\nmatrix'; sed 1d s.phy; echo ';\nend;\nbegin mrbayes;\n"
                                "mcmc ngen=2000 nruns=2 nchains=4 samplefreq=100 printfreq=100 diagnfreq=1000;\nend;') > s.nex; "
                                "$RUN $ROOT/usr/lib/mrbayes-mpi/mb-mpi s.nex && cat s.nex.run1.p s.nex.run2.p", r"^\d+\t-", 1e-5),
    # It reads Scheme files by absolute paths: the packages' /usr/share takes the place of the system's in its own namespace.
    "mpb-mpi (MPB)": Program("mpb-mpi mpb-scm guile-3.0-libs libctl7 libfftw3-double3 libfftw3-mpi3 libhdf5-openmpi-103-1 libaec0 libsz2",
                             "export GUILE_LOAD_PATH=$ROOT/usr/share/guile/3.0 GUILE_LOAD_COMPILED_PATH=$LIB/guile/3.0/ccache GUILE_AUTO_COMPILE=0 "
                             "GUILE_SYSTEM_EXTENSIONS_PATH=$LIB/guile/3.0/extensions; "
                             "unshare -rm sh -c 'mount --bind $ROOT/usr/share /usr/share && $RUN mpb-mpi bands.ctl'", "freqs:", 1e-4),
    "dsimpletest (MUMPS)": Program("mumps-test libmumps-5.5 libscalapack-openmpi2.2 libscotch-7.0 libptscotch-7.0 libmetis5",
                                   "for t in s d; do $RUN $ROOT/usr/lib/mumps/${t}simpletest < $ROOT/usr/lib/mumps/input_simpletest_real; done; "
                                   "for t in c z; do $RUN $ROOT/usr/lib/mumps/${t}simpletest < $ROOT/usr/lib/mumps/input_simpletest_cmplx; done",
                                   r"Solution is|RINFOG|INFOG", 1e-5),
    "nrniv (NEURON)": Program("neuron", "export NEURONHOME=$ROOT/usr/share/nrn LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$ROOT/usr/lib/nrn; "
                              "$RUN nrniv -mpi -nobanner ring.hoc", r"^spike", 1e-9),
    "relion_refine_mpi (RELION)": Program("relion libfftw3-double3 libfftw3-single3", RELION,
                                          r"^_rln(Current|Norm|Sigma|LogL|AverageP)|^ +\d+ +[\d.]+ +[\d.]+ ", 1e-3),
    "h5py": Program("python3-h5py-mpi python3-h5py-serial python3-mpi4py python3-numpy libhdf5-openmpi-103-1 libhdf5-openmpi-hl-100 libhdf5-103-1 "
                    "libhdf5-hl-100 libaec0 libsz2 liblzf1",
                    "PYTHONPATH=$ROOT/usr/lib/python3/dist-packages $RUN /usr/bin/python3 h.py", r"^result", 1e-9),
    "Rmpi": Program("r-cran-rmpi r-base-core libopenmpi-dev", "export EDITOR=vi R_HOME=$ROOT/usr/lib/R R_SHARE_DIR=$ROOT/usr/share/R/share R_INCLUDE_DIR=$ROOT/usr/share/R/include "
                    "LD_LIBRARY_PATH=$ROOT/usr/lib/R/lib:$LD_LIBRARY_PATH:$LIB/openmpi/lib; $RUN $ROOT/usr/lib/R/bin/exec/R --no-echo --no-restore --vanilla --file=r.R",
                    r"^result", 1e-9),
}  # fmt: skip
INPUTS = {"md.mdp": MD, "water.nw": NWCHEM, "si.in": ESPRESSO, "w.inp": CP2K, "elk.in": ELK, "si.abi": ABINIT,
          "bands.ctl": BANDS, "h.py": H5PY, "ring.hoc": NEURON, "views_in.star": VIEWS, "r.R": RMPI}  # fmt: skip
