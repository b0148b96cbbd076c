#%Module1.0
# SPDX-License-Identifier: BSD-3-Clause
# Weft for Environment Modules (and Lmod). Set the prefix; name the file after the version: weft/0.2.0
set prefix /apps/weft/0.2.0
if {[info exists env(WEFT_MODULE_PREFIX)]} { set prefix $env(WEFT_MODULE_PREFIX) }

proc ModulesHelp {} {
  puts stderr "mpicc, mpicxx, mpiexec and weft. `weft info` prints the installation;"
  puts stderr "`weft bench latency -d cuda D D` measures latency. No CUDA module is needed to run."
}

module-whatis "Weft: CUDA-aware MPI with the MPI 5.0 standard ABI"
conflict weft openmpi mpich mvapich2 intel-mpi impi cray-mpich

prepend-path PATH $prefix/bin
prepend-path CMAKE_PREFIX_PATH $prefix
prepend-path PYTHONPATH $prefix/share/weft/python ;# python3 -m weft_mpi.run
prepend-path PKG_CONFIG_PATH $prefix/lib/pkgconfig
setenv MPI_HOME $prefix
setenv MPICC $prefix/bin/mpicc
setenv MPICXX $prefix/bin/mpicxx
setenv MPIFC $prefix/bin/mpifort
setenv MPIF77 $prefix/bin/mpif77
setenv MPIF90 $prefix/bin/mpif90
