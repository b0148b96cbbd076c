# SPDX-License-Identifier: BSD-3-Clause
# The MPI Forum's machine-readable API, from which Weft's build generates mpi.h and the bindings.
from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyPympistandard(PythonPackage):
    """The API of the MPI standard in machine-readable form."""

    pypi = "pympistandard/pympistandard-0.2.0.tar.gz"

    version("0.2.0", sha256="cc7d5aa339289ff8e981dce1af69dbdadde2efb070eab66900d130ddca20fad7")

    depends_on("py-pdm-backend", type="build")
