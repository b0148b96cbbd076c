# SPDX-License-Identifier: BSD-3-Clause
# The MPICH test suite: fetches its source, builds it with Weft's mpicc and mpifort, parses its test lists.
import dataclasses
import glob
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tools", "setup"))
from packages import Debian, Missing  # noqa: E402

FOLDERS = "attr coll comm datatype errhan group info init io mpi_t pt2pt rma threads topo part errors ft spawn".split()
# Excluded subfolders: other languages and benchmarks.
WITHOUT = ("errors/cxx", "errors/f77", "errors/f90", "errors/f08", "threads/perf")
OPTIONS = ["--enable-threads=multiple", "--disable-fortran", "--disable-cxx", "--without-cuda"]
STRICT = "--enable-strictmpi"
FORTRAN_FOLDERS = ["f77", "f90", "f08"]
FORTRAN_OPTIONS = ["--enable-threads=multiple", "--enable-fortran=f77,f90,f08", "--disable-cxx", "--without-cuda"]
CXX_FOLDERS = ["cxx"]
CXX_OPTIONS = ["--enable-threads=multiple", "--disable-fortran", "--enable-cxx", "--without-cuda"]


@dataclasses.dataclass(frozen=True)
class Test:
    """One line of a testlist."""

    name: str
    program: str
    ranks: int
    arguments: tuple
    environment: dict
    rule: str  # resultTest: selects the pass criterion
    time_limit: int
    launcher: tuple = ()  # further options of mpiexec


def fetch(folder):
    """Unpacks the source of Debian's mpich; returns (path of test/mpi, version). Raises Missing."""
    if not glob.glob(os.path.join(folder, "mpich-*", "test", "mpi", "configure")):
        os.makedirs(folder, exist_ok=True)
        archive = Debian(os.path.join(folder, "download")).fetch_source("mpich")
        with tarfile.open(archive) as packed:
            packed.extractall(folder)
    found = glob.glob(os.path.join(folder, "mpich-*", "test", "mpi", "configure"))
    if not found:
        raise Missing("there is no test/mpi/configure in the source of mpich")
    suite = os.path.dirname(found[0])
    version = re.search(r"mpich-([^/]+)/test/mpi$", suite).group(1)
    return suite, version


class Suite:
    """One configured copy of the suite; `strict`: configured with --enable-strictmpi."""

    def __init__(self, source, tree, prefix, *, strict=False):
        self.source = source
        self.tree = tree
        self.prefix = prefix
        self.strict = strict

    @property
    def _folders(self):
        return FOLDERS

    @property
    def _wrapper(self):
        return os.path.join(self.prefix, "bin", "mpicc")

    def _preprocessor_options(self):
        return ["-include", HERE + "/mpi3.h"]

    def _options(self):
        return [*OPTIONS, STRICT] if self.strict else OPTIONS

    def build(self, jobs, pattern=""):
        """Configures once per mpi.h, and builds once each folder with tests whose names match; tests that fail to
        build have no program."""
        stamp = os.path.join(self.tree, "stamp")
        ready = []  # of the stamp's lines: what the copy was configured with, then the folders that are built
        if os.path.exists(stamp):
            with open(stamp, encoding="utf-8") as file:
                ready = file.read().split()
        if ready[:1] != [self._fingerprint()]:
            shutil.rmtree(self.tree, ignore_errors=True)
            os.makedirs(self.tree)
            with open(os.path.join(self.tree, "build.log"), "w", encoding="utf-8") as log:
                self._configure(log)
                for folder in ("util", "dtpools"):
                    self._run(["make", "-j", str(jobs), "-C", folder], log, check=True)
            ready = [self._fingerprint()]
        with open(os.path.join(self.tree, "build.log"), "a", encoding="utf-8") as log:
            for folder, programs in self._goals(pattern).items():
                if folder in ready:
                    continue
                self._run(["make", "-k", "-j", str(jobs), "-C", folder, *programs], log)
                ready.append(folder)
                with open(stamp, "w", encoding="utf-8") as file:
                    file.write("\n".join(ready) + "\n")

    def _goals(self, pattern):
        """Make targets by folder with matching tests: all of a folder, or in the strict copy only its tests."""
        goals, chosen = {}, set()
        for test in self.tests():
            folder, program = os.path.split(os.path.relpath(test.program, self.tree))
            if not self.strict:
                folder = folder.split(os.sep)[0]
            targets = goals.setdefault(folder, set())
            if self.strict:
                targets.add(program)
            if re.search(pattern, test.name):
                chosen.add(folder)
        return {folder: sorted(programs) for folder, programs in goals.items() if folder in chosen}

    def _configure(self, log):
        mpicc = self._wrapper
        self._run([mpicc, "-O1", "-c", os.path.join(HERE, "mpi3.c"), "-o", "mpi3.o"], log, check=True)
        self._run(["ar", "rcs", "libmpi3.a", "mpi3.o"], log, check=True)
        command = [self._configure_script(), f"--with-mpi={self.prefix}", *self._options()]
        command += [f"CC={mpicc}", f"MPICC={mpicc}", "CFLAGS=-O1 -w", f"LDFLAGS=-L{self.tree}", "LIBS=-lmpi3"]
        command += ["CPPFLAGS=" + " ".join(self._preprocessor_options()), "--disable-dependency-tracking"]
        self._run(command, log, check=True)

    def _configure_script(self):
        return os.path.join(self.source, "configure")

    def _run(self, command, log, *, check=False):
        subprocess.run(command, cwd=self.tree, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=check)

    def _fingerprint(self):
        digest = hashlib.sha256(" ".join([self.prefix, self.source, *self._options()]).encode())
        names = [f"include/{name}" for name in ("mpi.h", "mpif.h", "weft.h")]
        names += [f"share/weft/fortran/{name}" for name in ("mpi.F90", "mpi_f08.F90")]
        headers = filter(os.path.exists, (os.path.join(self.prefix, name) for name in names))
        for path in (*headers, HERE + "/mpi3.h", HERE + "/mpi3.c"):
            with open(path, "rb") as file:
                digest.update(file.read())
        return digest.hexdigest()

    def tests(self):
        """Tests of the folders in list order; in the strict copy only tests whose source depends on strict mode."""
        tests = [test for folder in self._folders for test in self._list(folder)]
        return [test for test in tests if self._differs(test)] if self.strict else tests

    def moved(self, test):
        """The same test with the program of this copy."""
        return dataclasses.replace(test, program=os.path.join(self.tree, test.name.split()[0]))

    def _differs(self, test):
        source = os.path.join(self.source, os.path.relpath(test.program, self.tree)) + ".c"
        if not os.path.exists(source):
            return False
        with open(source, encoding="utf-8") as file:
            return "USE_STRICT_MPI" in file.read()

    def _list(self, folder):
        candidates = [os.path.join(root, folder, "testlist") for root in (self.tree, self.source)]
        path = next((path for path in candidates if os.path.exists(path)), None)
        if path is None or folder in WITHOUT:
            return
        with open(path, encoding="utf-8") as file:
            lines = [line.split("#")[0].strip() for line in file]
        for line in lines:
            if not line or line.startswith("!"):
                continue
            inner = f"{folder}/{line.split()[0]}"
            if os.path.isdir(os.path.join(self.tree, inner)):
                yield from self._list(inner)
            elif not (self.strict and re.search(r"\bstrict=false\b", line, re.IGNORECASE)):
                yield self._test(line, folder)

    def _test(self, line, folder):
        """Parses a line `program ranks key=value...`."""
        words = shlex.split(line)
        options = [word.split("=", 1) for word in words[2:] if "=" in word]
        values = dict(options)
        ranks = int(words[1]) if len(words) > 1 else 2
        arguments = tuple(value for key, value in options if key == "arg")
        environment = dict(value.split("=", 1) for key, value in options if key == "env")
        name_parts = [f"{folder}/{words[0]}", str(ranks), *arguments, *(f"{k}={v}" for k, v in environment.items())]
        return Test(
            name=" ".join(name_parts) + (" (strict)" if self.strict else ""),
            program=os.path.join(self.tree, folder, words[0]),
            ranks=ranks,
            arguments=arguments,
            environment=environment,
            rule=values.get("resultTest", ""),
            time_limit=int(values.get("timeLimit", 0)),
            launcher=tuple(value for key, value in options if key == "mpiexecarg" and folder == "ft"),
        )


class FortranSuite(Suite):
    """The copy configured for Fortran; its folders are programs with mpif.h, module mpi and module mpi_f08."""

    @property
    def _folders(self):
        return FORTRAN_FOLDERS

    def _configure_script(self):
        """A copy of the script that does not keep the folder f08 for builds of MPICH."""
        with open(super()._configure_script(), encoding="utf-8") as file:
            text = file.read()
        condition = '"$enable_f08" = "yes" -a "$FROM_MPICH" = "yes"'
        assert condition in text
        path = os.path.join(self.source, "configure_f08")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(condition, '"$enable_f08" = "yes"'))
        os.chmod(path, 0o755)
        return path

    def _options(self):
        wrapper = os.path.join(self.prefix, "bin", "mpifort")
        # Tests pass buffers of several types to one routine of mpif.h.
        flags = "-O1 -w -fallow-argument-mismatch"
        tools = [f"{name}={wrapper}" for name in ("F77", "FC", "MPIF77", "MPIFC")]
        return [*FORTRAN_OPTIONS, *tools, f"FFLAGS={flags}", f"FCFLAGS={flags}"]


class OtherPreprocessor(Suite):
    """Options for the mpi.h of another MPI library."""

    def _preprocessor_options(self):
        """Open MPI has the names of MPIX_ functions in a header of its own, and version 4 hides functions of MPI 1 that
        the suite's own library uses."""
        options = ["-DOMPI_OMIT_MPI1_COMPAT_DECLS=0", "-include", "mpi.h"]
        extensions = os.path.join(self.prefix, "include", "mpi-ext.h")
        return [*options, "-include", extensions] if os.path.exists(extensions) else options


class OtherSuite(OtherPreprocessor):
    """The C tests as the wrapper of another MPI library builds them."""


class OtherFortranSuite(OtherPreprocessor, FortranSuite):
    """The Fortran tests as the wrapper of another MPI library builds them."""


class OtherCxxSuite(OtherPreprocessor):
    """Tests of the C++ bindings, which MPI 3 has removed, as the wrapper of another MPI library builds them."""

    @property
    def _folders(self):
        return CXX_FOLDERS

    def _options(self):
        wrapper = os.path.join(self.prefix, "bin", "mpicxx")
        return [*CXX_OPTIONS, f"CXX={wrapper}", f"MPICXX={wrapper}", "CXXFLAGS=-O1 -w"]
