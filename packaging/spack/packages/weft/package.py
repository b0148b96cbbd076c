# SPDX-License-Identifier: BSD-3-Clause
# Weft for Spack. Builds the clone that contains this file: spack repo add packaging/spack; spack install weft
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *

CLONE = os.path.normpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), *[os.pardir] * 4))


class Weft(CMakePackage):
    """A CUDA-aware MPI library with the MPI 5.0 standard ABI."""

    git = "file://" + CLONE
    license("BSD-3-Clause", checked_by="weft")

    version("main", branch="main")

    variant("cuda", default=True, description="GPU kernels; requires nvcc at build time only")
    variant("ucx", default=True, description="UCX for jobs on several hosts, loaded at run time")
    variant("libfabric", default=False, description="libfabric for jobs on several hosts, loaded at run time")

    provides("mpi@:5.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build")  # of the wrappers: mpifort compiles the modules on first use
    depends_on("cmake@3.20:", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    depends_on("py-pympistandard@0.2.0", type="build")
    depends_on("cuda@12:", when="+cuda", type="build")
    depends_on("ucx+thread_multiple", when="+ucx", type="run")
    depends_on("ucx+cuda", when="+ucx+cuda", type="run")
    depends_on("libfabric", when="+libfabric", type="run")

    conflicts("%gcc@:10", msg="Weft needs g++ 11 or newer")
    requires("platform=linux", msg="Weft runs on Linux only")

    def cmake_args(self):
        modules = join_path(self.spec["py-pympistandard"].prefix, self.spec["python"].package.purelib)
        api = join_path(modules, "pympistandard", "data", "apis.json")
        return [
            self.define_from_variant("WEFT_CUDA_KERNELS", "cuda"),
            self.define("WEFT_APIS_JSON", api),
            self.define("WEFT_CUDA_ARCHITECTURES", "all"),
        ]

    def setup_run_environment(self, env):
        env.set("MPICC", self.prefix.bin.mpicc)
        env.set("MPICXX", self.prefix.bin.mpicxx)
        env.set("MPIFC", self.prefix.bin.mpifort)
        env.set("MPIF77", self.prefix.bin.mpif77)
        env.set("MPIF90", self.prefix.bin.mpif90)

    def setup_dependent_build_environment(self, env, dependent_spec):
        module = dependent_spec.package.module
        compilers = (("WEFT_CC", "spack_cc"), ("WEFT_CXX", "spack_cxx"), ("WEFT_FC", "spack_fc"))
        for variable, compiler in compilers:
            if hasattr(module, compiler):
                env.set(variable, getattr(module, compiler))

    def setup_dependent_package(self, module, dependent_spec):
        self.spec.mpicc = self.prefix.bin.mpicc
        self.spec.mpicxx = self.prefix.bin.mpicxx
        self.spec.mpifc = self.prefix.bin.mpifort
        self.spec.mpif77 = self.prefix.bin.mpif77

    @run_after("install")
    def run_example(self):
        mpiexec = Executable(self.prefix.bin.mpiexec)
        jacobi = join_path(self.prefix.libexec, "weft", "jacobi")
        mpiexec("-n", "2", jacobi, "-device", "host", "-nx", "256", "-ny", "256", "-niter", "10")
