-- SPDX-License-Identifier: BSD-3-Clause
-- Weft for Lmod. Set the prefix; name the file after the version: weft/0.2.0.lua
local prefix = os.getenv("WEFT_MODULE_PREFIX") or "/apps/weft/0.2.0"

whatis("Name: Weft")
whatis("Description: CUDA-aware MPI with the MPI 5.0 standard ABI")
help([[
mpicc, mpicxx, mpiexec and weft. `weft info` prints the installation; `weft bench latency -d cuda D D` measures latency.
No CUDA module is needed to run.
]])

family("mpi")
conflict("openmpi", "mpich", "mvapich2", "intel-mpi", "impi", "cray-mpich")

prepend_path("PATH", pathJoin(prefix, "bin"))
prepend_path("CMAKE_PREFIX_PATH", prefix)
prepend_path("PYTHONPATH", pathJoin(prefix, "share", "weft", "python")) -- python3 -m weft_mpi.run
prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, "lib", "pkgconfig"))
setenv("MPI_HOME", prefix)
setenv("MPICC", pathJoin(prefix, "bin", "mpicc"))
setenv("MPICXX", pathJoin(prefix, "bin", "mpicxx"))
setenv("MPIFC", pathJoin(prefix, "bin", "mpifort"))
setenv("MPIF77", pathJoin(prefix, "bin", "mpif77"))
setenv("MPIF90", pathJoin(prefix, "bin", "mpif90"))
