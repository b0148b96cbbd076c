#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# `make wheels` after `make`: nothing is compiled again, the tag is auditwheel's, and a new virtual environment without
# a compiler runs mpi4py on four ranks from the two wheels; with gfortran mpifort works in it. Times are CPU times, which
# other load hardly changes. mpi4py's binary package and NumPy run there, too. With the folder of a built mpi4py as
# argument, no wheel of mpi4py is built.
import glob
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from email.parser import HeaderParser

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tools", "setup"))
from packages import Pip, run  # noqa: E402

MAX_MB = 12
MAKE_WHEEL = os.path.join(SOURCE, "tools", "setup", "wheel.py")
MAX_BUILD_S, MAX_INSTALL_S = 60, 30
HELLO = "from mpi4py import MPI; print(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, MPI.Get_library_version())"
# No launcher, no variable: the library, and workers that MPI_Comm_spawn starts.
ALONE = """
from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor
if __name__ == "__main__":
    with MPIPoolExecutor(max_workers=2) as pool:
        print(MPI.Get_library_version()[:4], MPI.COMM_WORLD.size, sum(pool.map(abs, range(-9, 0))))
"""
ARRAYS = """
import numpy
from mpi4py import MPI
values = numpy.full(3, MPI.COMM_WORLD.rank, dtype="d")
MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, values)
if MPI.COMM_WORLD.rank == 0:
    print(MPI.Get_library_version()[:4], values)
"""


def cpu_seconds():
    """Returns the CPU time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Headers(unittest.TestCase):
    def test_a_python_without_headers_is_named(self):
        code = (
            "import runpy, sys, sysconfig; sysconfig.get_path = lambda name: '/no/headers'; "
            f"sys.path.insert(0, {os.path.dirname(MAKE_WHEEL)!r}); sys.argv = ['wheel.py', '--mpi4py']; "
            f"runpy.run_path({MAKE_WHEEL!r}, run_name='__main__')"
        )
        done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no /no/headers/Python.h", done.stderr)
        self.assertIn("python3-dev", done.stderr)


class Wheel(unittest.TestCase):
    mpi4py = None  # folder of a built mpi4py

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.wheels = {}
        for name, option in (("weft_mpi", []), ("mpi4py", ["--mpi4py"]))[: 1 if cls.mpi4py else 2]:
            begin = cpu_seconds()
            command = [sys.executable, "tools/setup/wheel.py", "--to", cls.folder, *option]
            if cls.mpi4py:  # the quick variant: the kernels of the build
                command += ["--kernels", "native"]
            subprocess.run(command, cwd=SOURCE, check=True)
            (wheel,) = glob.glob(f"{cls.folder}/{name}-*.whl")
            cls.wheels[name] = (wheel, cpu_seconds() - begin)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def check(self, *command, **options):
        """Runs a command that must succeed; returns its output."""
        ok, text = run(command, **options)
        self.assertTrue(ok, "%s:\n%s" % (" ".join(command), text))
        return text

    def test_the_wheel_is_small_portable_and_made_of_the_objects_of_make(self):
        wheel, seconds = self.wheels["weft_mpi"]
        print(f"{os.path.basename(wheel)}: {os.path.getsize(wheel) / 1e6:.1f} MB, {seconds:.0f} s of CPU time")
        self.assertRegex(wheel, r"-py3-none-manylinux_2_(1\d|2[0-8])_\w+\.whl$")
        self.assertLess(os.path.getsize(wheel), MAX_MB * 1e6)
        self.assertLess(seconds, MAX_BUILD_S)

    def test_the_wheel_says_what_it_is_and_contains(self):
        with zipfile.ZipFile(self.wheels["weft_mpi"][0]) as archive:
            names = archive.namelist()
            (folder,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
            self.assertIn(folder + "/licenses/LICENSE", names)
            fields = HeaderParser().parsestr(archive.read(folder + "/METADATA").decode())
            bill = json.loads(archive.read(folder + "/sboms/weft.cdx.json"))
            commit = re.search(rb'COMMIT = "(.*)"', archive.read("weft_mpi/_commit.py")).group(1).decode()
        self.assertEqual((fields["Name"], fields["License-Expression"]), ("weft-mpi", "BSD-3-Clause"))
        self.assertIn("Environment :: GPU :: NVIDIA CUDA :: 12", fields.get_all("Classifier"))
        self.assertEqual((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.6"))
        own = bill["metadata"]["component"]
        self.assertEqual((own["name"], own["version"]), (fields["Name"], fields["Version"]))
        self.assertEqual(own["properties"], [{"name": "weft:commit", "value": commit}])
        components = {each["name"]: each for each in bill["components"]}
        self.assertLess({"libgcc", "libstdc++", "pympistandard"}, set(components))
        self.assertNotIn("rich", components)  # a dependency, not a part
        for each in components.values():
            self.assertTrue(each["version"] and each["licenses"], each)
        references = {own["bom-ref"], *(each["bom-ref"] for each in components.values())}
        self.assertEqual({each["ref"] for each in bill["dependencies"]}, references)

    def test_a_new_environment_needs_no_compiler(self):
        begin = cpu_seconds()
        environment = os.path.join(self.folder, "venv")
        pip = Pip(os.path.join(SOURCE, "build", "tools", "pip")).find()
        self.check(sys.executable, "-m", "venv", "--without-pip", environment)
        before = self.paths(environment)
        python = os.path.join(environment, "bin", "python")
        wheels = [wheel for wheel, _ in self.wheels.values()]
        self.check(*pip, "--python", python, "install", "-q", "--no-index", "--no-deps", *wheels)
        variables = {"PATH": os.path.join(environment, "bin"), "HOME": self.folder}
        variables.update({"PYTHONPATH": self.mpi4py} if self.mpi4py else {})
        printed = self.check("mpiexec", "-n", "4", python, "-c", HELLO, env=self.found(variables))
        seconds = cpu_seconds() - begin
        self.assertEqual(sorted(re.findall(r"^(\d) 4 Weft", printed, re.MULTILINE)), list("0123"), printed)
        print(f"venv, install and hello on 4 ranks: {seconds:.0f} s of CPU time")
        self.assertLess(seconds, MAX_INSTALL_S)
        self.binary_mpi4py(python, {"PATH": variables["PATH"], "HOME": self.folder})
        self.commands(environment, dict(variables, PATH=variables["PATH"] + ":/usr/bin:/bin"))
        self.check(*pip, "--python", python, "uninstall", "-q", "-y", *self.wheels)
        self.assertEqual(self.paths(environment) - before, set())

    @staticmethod
    def paths(folder):
        """Returns the files below a folder; pip itself leaves empty folders, such as share/man."""
        paths = {os.path.join(at, name) for at, _, names in os.walk(folder) for name in names}
        return {path for path in paths if not os.path.islink(path)}

    def binary_mpi4py(self, python, variables):
        """mpi4py's binary package and NumPy, in the folders where set-up has downloaded them, as pip installs them."""
        tools = os.path.join(SOURCE, "build", "tools")
        folders = [os.path.join(tools, name) for name in ("mpi4py_wheel", "python")]
        if not os.path.isdir(os.path.join(folders[0], "mpi4py")):
            print("not tested: there is no binary package of mpi4py")
            return
        variables = self.found(dict(variables, PYTHONPATH=":".join(folders)))
        printed = self.check("mpiexec", "-n", "4", python, "-m", "mpi4py.bench", "helloworld", env=variables)
        self.assertEqual(sorted(re.findall(r"process (\d) of 4", printed)), list("0123"), printed)
        printed = self.check("mpiexec", "-n", "4", python, "-c", ARRAYS, env=variables)
        self.assertEqual(printed.splitlines(), ["Weft [6. 6. 6.]"])
        suite = os.path.join(tools, "mpi4py", "test", "main.py")
        options = ["--no-builddir", "--no-cupy", "--path", folders[0], "-q"]
        for module in ("comm", "status", "request"):
            options += ["-i", rf"\btest_{module}\.py$"]
        printed = self.check("mpiexec", "-n", "2", python, suite, *options, env=variables)
        self.assertEqual(len(re.findall(r"^OK\b", printed, re.MULTILINE)), 2, printed)
        self.beside_another_mpi(python, variables)

    def beside_another_mpi(self, python, variables):
        """Another package of the environment owns bin/mpiexec, lib/libmpi.so.12 and lib/libmpi_abi.so.1."""
        program = os.path.join(self.folder, "alone.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(ALONE)
        self.assertEqual(self.check(python, program, env=variables), "Weft 1 45\n")
        pip = Pip(os.path.join(SOURCE, "build", "tools", "pip")).find()
        self.check(*pip, "--python", python, "install", "-q", "--no-index", "--no-deps", self.other_mpi())
        self.assertEqual(self.check("mpiexec", env=variables), "another MPI\n")
        self.assertEqual(self.check(python, program, env=variables), "Weft 1 45\n")
        environment = os.path.dirname(os.path.dirname(python))
        own = os.path.join(environment, "lib", "weft", "bin", "mpiexec")
        printed = self.check(own, "-n", "2", python, "-c", HELLO, env=variables)
        self.assertEqual(sorted(re.findall(r"^(\d) 2 Weft", printed, re.MULTILINE)), ["0", "1"], printed)
        printed = self.check("weft", "run-info", python, env=variables)
        self.assertRegex(
            printed,
            r"another MPI: other-mpi 1\.0 .*libmpi\.so\.12, libmpi_abi\.so\.1.*: mpiexec, mpicc in .* not Weft's",
        )
        self.check(*pip, "--python", python, "uninstall", "-q", "-y", "other-mpi")
        printed = self.check("weft", "run-info", python, env=variables)
        self.assertRegex(printed, r"another MPI: mpiexec, mpicc in .*: missing or not Weft's")
        self.assertEqual(self.check(python, program, env=variables), "Weft 1 45\n")
        self.check(
            *pip,
            "--python",
            python,
            "install",
            "-q",
            "--no-index",
            "--no-deps",
            "--force-reinstall",
            self.wheels["weft_mpi"][0],
        )
        self.assertNotIn("another MPI", self.check("weft", "run-info", python, env=variables))

    def other_mpi(self):
        """Writes a wheel with names of an MPI's files; its library is that of an MPI if set-up has one."""
        path = os.path.join(self.folder, "other_mpi-1.0-py3-none-any.whl")
        library = os.path.join(SOURCE, "build", "tools", "mpich", "lib", "libmpi.so.12")
        with zipfile.ZipFile(path, "w") as wheel:
            data, info = "other_mpi-1.0.data/data/", "other_mpi-1.0.dist-info/"
            names = [data + "bin/mpiexec", data + "bin/mpicc", data + "lib/libmpi_abi.so.1", data + "lib/libmpi.so.12"]
            for name in names[:2]:
                entry = zipfile.ZipInfo(name)
                entry.external_attr = 0o100755 << 16
                wheel.writestr(entry, "#!/bin/sh\necho another MPI\n")
            wheel.writestr(names[2], "not a library")
            if os.path.exists(library):
                wheel.write(library, names[3])
            else:
                wheel.writestr(names[3], "not a library")
            texts = {"METADATA": "Metadata-Version: 2.1\nName: other-mpi\nVersion: 1.0\n",
                     "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}  # fmt: skip
            for name, text in texts.items():
                wheel.writestr(info + name, text)
            names += [info + name for name in (*texts, "RECORD")]
            wheel.writestr(info + "RECORD", "".join(f"{name},,\n" for name in names))
        return path

    @staticmethod
    def found(variables):
        """Returns the environment, checked to have no compiler."""
        assert not any(shutil.which(name, path=variables["PATH"]) for name in ("gcc", "cc", "g++", "clang"))
        return variables

    def fortran(self, environment, variables):
        """Compiles and runs programs of all Fortran interfaces, if there is a compiler."""
        compiler = shutil.which("gfortran")  # of the system, or of build/tools
        if compiler is None:
            print("not tested: there is no gfortran")
            return
        variables = dict(variables, WEFT_FC=compiler)
        hello = os.path.join(SOURCE, "test", "fortran", "project", "hello.F90")
        program = os.path.join(self.folder, "hello_fortran")
        for interface in ("F77_HEADER", "F90_MODULE", "F08_MODULE"):
            self.check("mpifort", "-D" + interface, hello, "-o", program, env=variables)
            printed = self.check("mpiexec", "-n", "4", program, env=variables)
            self.assertEqual(sorted(printed.split()), ["0/4", "1/4", "2/4", "3/4"])
        # A program that was built with another installation of Weft runs on the library of the wheel.
        own = os.path.join(SOURCE, "build", "prefix", "bin", "mpifort")
        self.check(own, "-DF08_MODULE", hello, "-o", program, env=dict(os.environ, WEFT_FC=compiler))
        libraries = dict(variables, LD_LIBRARY_PATH=os.path.join(environment, "lib", "weft", "lib"))
        loaded = re.findall(r"libmpi_abi\S* => (\S+)", self.check("ldd", program, env=libraries))
        self.assertEqual({os.path.dirname(path) for path in loaded}, {libraries["LD_LIBRARY_PATH"]})
        printed = self.check("mpiexec", "-n", "4", program, env=libraries)
        self.assertEqual(sorted(printed.split()), ["0/4", "1/4", "2/4", "3/4"])
        cache = os.path.join(variables["HOME"], ".cache", "weft", "fortran")  # pip would leave them in the environment
        print("mpifort: %s" % ", ".join(os.listdir(cache)))

    def commands(self, environment, variables):
        """Uses the commands of the wheel."""
        program = os.path.join(self.folder, "hello")
        self.check("mpicc", os.path.join(SOURCE, "test", "setup", "hello.c"), "-o", program, env=variables)
        for launcher in ("mpiexec", "mpirun"):
            printed = self.check(launcher, "-n", "2", program, env=variables)
            self.assertEqual(sorted(printed.splitlines()), ["0/2 Weft", "1/2 Weft"])
        printed = self.check("mpirun_rsh", "-np", "2", "localhost", "localhost", program, env=variables)
        self.assertEqual(sorted(printed.splitlines()), ["0/2 Weft", "1/2 Weft"])
        self.fortran(environment, variables)
        for command in ("weft", "weft-mpi"):
            lines = self.check(command, "info", "--parsable", env=variables).splitlines()
            (prefix,) = [line.split(":", 2)[2] for line in lines if line.startswith("weft:prefix:")]
            self.assertEqual(os.path.realpath(prefix), os.path.realpath(os.path.join(environment, "lib", "weft")))
        self.assertIn("Latency", self.check("weft", "bench", "latency", "-m", "8:8", env=variables))


if __name__ == "__main__":
    Wheel.mpi4py = sys.argv.pop(1) if sys.argv[1:] else None
    unittest.main()
