# SPDX-License-Identifier: BSD-3-Clause
# Runs when Python starts in an environment that has the wheel (weft_mpi.pth): mpi4py's binary packages then load Weft's
# library, without a variable. They would search lib/ of the environment, where other packages have their libraries.
# Imports as little as possible: every Python program of the environment waits for it.
import sys

NAME = "mpi4py._mpiabi"  # searches and loads the MPI library, from mpi4py 4.1 on
VARIABLES = ("MPI4PY_LIBMPI", "MPI4PY_MPIABI")  # the user's choice, or that of mpiexec


class Finder:
    """Finds mpi4py's module and sets its variable LIBMPI, the path of the library."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != NAME:
            return None
        import importlib.util
        import os
        from importlib.machinery import PathFinder, SourceFileLoader

        spec = PathFinder.find_spec(name, path)
        if spec is None or type(spec.loader) is not SourceFileLoader or any(os.environ.get(v) for v in VARIABLES):
            return None
        library = library_for(os.path.dirname(spec.origin))
        if library is None:
            return None

        class Loader(SourceFileLoader):
            def exec_module(self, module):
                super().exec_module(module)
                module.LIBMPI = library

        return importlib.util.spec_from_file_location(name, spec.origin, loader=Loader(name, spec.origin))


def library_for(folder):
    """Returns the library with the binary interface of the modules in mpi4py's folder; None without an installation."""
    import os

    from weft_mpi import prefix

    try:
        libraries = os.path.join(prefix.find(), "lib")
    except prefix.NotInstalled:
        return None
    modules = os.listdir(folder)
    for interface, name in (
        ("mpiabi", prefix.LIBRARY),
        ("mpich", "compat/libmpi.so.12"),
        ("openmpi", "compat/libmpi.so.40"),
    ):
        if any(module.startswith(f"MPI.{interface}.") for module in modules):
            return os.path.join(libraries, name)
    return None


sys.meta_path.insert(0, Finder)
