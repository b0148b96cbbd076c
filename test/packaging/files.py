#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Tests of packaging/: job scripts, module files, images and the Spack package, with mocks where needed.
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PACKAGING = os.path.join(ROOT, "packaging")
PREFIX = os.environ["MPI_PREFIX"]
INSTRUCTIONS = {"ARG", "FROM", "SHELL", "ENV", "RUN", "COPY", "CMD"}
SBATCH = {"job-name", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "gpus-per-node", "time"}


def run(*command, **options):
    """Runs a command; returns (status, output)."""
    options.setdefault("stderr", subprocess.STDOUT)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, **options)
    return done.returncode, done.stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def files(pattern):
    """Returns the files of packaging/ that match a pattern; at least one must exist."""
    found = sorted(glob.glob(os.path.join(PACKAGING, pattern)))
    assert found, "no file matches packaging/" + pattern
    return found


class Shell(unittest.TestCase):
    def test_syntax(self):
        for path in self.scripts():
            self.assertEqual(run("bash", "-n", path), (0, ""), path)

    @unittest.skipUnless(shutil.which("shellcheck"), "needs shellcheck")
    def test_shellcheck(self):
        sourced = ["-x", "-P", PACKAGING, "-e", "SC1091"]
        self.assertEqual(run("shellcheck", "-s", "bash", *sourced, *self.scripts()), (0, ""))

    @staticmethod
    def scripts():
        parts = (
            "*.sh",
            "slurm/*.sbatch",
            "debian/build",
            "debian/check",
            "debian/debian/p*",
            "debian/debian/tests/hello",
        )
        parts += ("rpm/build", "aarch64/test", "containers/build-debian")
        return [path for part in parts for path in files(part)]


# srun of a site; BROKEN: a plugin that is listed and cannot be loaded.
SRUN = """#!/bin/sh
[ "$1" = --mpi=list ] && { echo "pmi2 pmix" >&2; exit; }
[ "$1" = "$BROKEN" ] && { echo "srun: error: Invalid MPI type 'pmix', --mpi=list for acceptable types" >&2; exit 1; }
[ "$2" = --test-only ] && exit
printf "%s\\n" "$@"
"""


class Slurm(unittest.TestCase):
    def test_directives(self):
        for path in files("slurm/*.sbatch"):
            lines = read(path).splitlines()
            self.assertEqual(lines[0], "#!/bin/bash")
            found = {line.split()[1].split("=")[0].lstrip("-") for line in lines if line.startswith("#SBATCH")}
            self.assertEqual(found - SBATCH, set(), path)
            # sbatch ignores directives after the first command
            commands = [number for number, line in enumerate(lines) if line and not line.startswith("#")]
            directives = [number for number, line in enumerate(lines) if line.startswith("#SBATCH")]
            self.assertLess(max(directives), commands[0], path)

    def one_node(self, *arguments, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        environment.update(variables, PATH=PREFIX + "/bin:" + os.environ["PATH"])
        return run("bash", os.path.join(PACKAGING, "slurm", "one-node.sbatch"), *arguments, env=environment)

    def test_one_node_runs(self):
        status, printed = self.one_node("sh", "-c", "echo rank $LOCAL_RANK", SLURM_CPUS_ON_NODE="2")
        self.assertEqual(status, 0, printed)
        self.assertEqual(sorted(re.findall(r"^rank \d", printed, re.MULTILINE)), ["rank 0", "rank 1"])
        self.assertIn(PREFIX, printed)
        self.assertEqual(self.one_node()[0], 2)

    def test_multi_node_runs_srun(self):
        with tempfile.TemporaryDirectory() as folder:
            srun = os.path.join(folder, "srun")
            with open(srun, "w", encoding="utf-8") as file:
                file.write(SRUN)
            os.chmod(srun, 0o755)
            script = os.path.join(PACKAGING, "slurm", "multi-node.sbatch")
            for broken, plugin in (("none", "--mpi=pmix"), ("--mpi=pmix", "--mpi=pmi2")):
                environment = dict(os.environ, PATH=folder + ":" + os.environ["PATH"], BROKEN=broken)
                status, printed = run("bash", script, "./program", "-x", env=environment)
                self.assertEqual(status, 0, printed)
                self.assertEqual(printed.splitlines()[0], plugin)
                self.assertIn("--gpu-bind=none", printed)
                self.assertEqual(printed.splitlines()[-2:], ["./program", "-x"])


class Modules(unittest.TestCase):
    """Effects of both module files, with mocks of the module systems' functions."""

    EXPECTED = {
        "prepend PATH /p/bin",
        "prepend CMAKE_PREFIX_PATH /p",
        "set MPI_HOME /p",
        "prepend PYTHONPATH /p/share/weft/python",
        "set MPICC /p/bin/mpicc",
        "set MPICXX /p/bin/mpicxx",
        "prepend PKG_CONFIG_PATH /p/lib/pkgconfig",
        "set MPIFC /p/bin/mpifort",
        "set MPIF77 /p/bin/mpif77",
        "set MPIF90 /p/bin/mpif90",
    }

    def check(self, interpreter, program):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program")
            with open(path, "w", encoding="utf-8") as file:
                file.write(program)
            status, printed = run(interpreter, path, env=dict(os.environ, WEFT_MODULE_PREFIX="/p"))
        self.assertEqual(status, 0, printed)
        self.assertEqual(set(printed.splitlines()), self.EXPECTED)

    @unittest.skipUnless(shutil.which("tclsh"), "needs tclsh")
    def test_tcl(self):
        mocks = "proc module-whatis {x} {}\nproc conflict {args} {}\n"
        mocks += 'proc prepend-path {n v} {puts "prepend $n $v"}\nproc setenv {n v} {puts "set $n $v"}\n'
        self.check("tclsh", mocks + read(os.path.join(PACKAGING, "modulefiles", "weft.tcl")))

    @unittest.skipUnless(shutil.which("lua") or shutil.which("lua5.4"), "needs lua")
    def test_lua(self):
        mocks = "function ignore() end\nwhatis, help, family, conflict = ignore, ignore, ignore, ignore\n"
        mocks += 'function pathJoin(...) return table.concat({...}, "/") end\n'
        mocks += 'function prepend_path(n, v) print("prepend " .. n .. " " .. v) end\n'
        mocks += 'function setenv(n, v) print("set " .. n .. " " .. v) end\n'
        lua = shutil.which("lua") or shutil.which("lua5.4")
        self.check(lua, mocks + read(os.path.join(PACKAGING, "modulefiles", "weft.lua")))


class Images(unittest.TestCase):
    def instructions(self, path):
        """Returns (instruction, arguments) of each, with continued lines joined."""
        text = re.sub(r"^#.*\n", "", read(path), flags=re.MULTILINE).replace("\\\n", " ")
        return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]

    def test_parsed(self):
        for path in files("containers/Containerfile.*"):
            stages, arguments = set(), set()
            for name, rest in self.instructions(path):
                self.assertIn(name, INSTRUCTIONS, path)
                if name == "ARG":
                    arguments.add(rest.split("=")[0])
                elif name == "FROM":
                    base = re.fullmatch(r"\$\{(\w+)\}(?: AS (\w+))?", rest)
                    self.assertIn(base.group(1), arguments, path)
                    stages.add(base.group(2))
                elif name == "COPY":
                    self.check_copy(rest.split(), stages)
                elif name == "RUN":
                    self.assertEqual(run("bash", "-n", "-c", rest), (0, ""), rest)

    def check_copy(self, words, stages):
        """Checks that copied files exist in the tree or in an earlier stage."""
        stage = words.pop(0)[len("--from=") :] if words[0].startswith("--from=") else None
        if stage is not None:
            self.assertIn(stage, stages)
        else:
            for source in words[:-1]:
                made = source == "weft.deb"  # by build-debian
                self.assertTrue(made or os.path.exists(os.path.join(ROOT, source)), source)

    @unittest.skipUnless(shutil.which("hadolint"), "needs hadolint")
    def test_hadolint(self):
        # DL3008: versions of distribution packages are deliberately not pinned
        self.assertEqual(run("hadolint", "--ignore", "DL3008", *files("containers/Containerfile.*")), (0, ""))


class Conda(unittest.TestCase):
    """The recipe's fields; conda.py builds the package."""

    def setUp(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("needs PyYAML")
        self.recipe = yaml.safe_load(read(os.path.join(PACKAGING, "conda", "recipe.yaml")))

    def test_fields(self):
        version = re.search(r"project\(weft VERSION ([\d.]+)", read(os.path.join(ROOT, "CMakeLists.txt"))).group(1)
        self.assertEqual(self.recipe["context"]["version"], version)
        self.assertTrue(os.path.samefile(os.path.join(PACKAGING, "conda", self.recipe["source"]["path"]), ROOT))
        about = self.recipe["about"]
        self.assertEqual(about["license"], "BSD-3-Clause")
        self.assertTrue(os.path.exists(os.path.join(ROOT, about["license_file"])))
        build = self.recipe["requirements"]["build"][0]["then"]
        spec = read(os.path.join(ROOT, "tools", "setup", "spec.txt"))
        self.assertIn(next(str(one) for one in build if "pympistandard" in one).replace(" ", ""), spec)

    def test_options_and_programs_exist(self):
        script = " ".join(self.recipe["build"]["script"][0]["then"])
        options = "".join(read(path) for path in glob.glob(os.path.join(ROOT, "cmake", "*.cmake")))
        for option in re.findall(r"-D(WEFT_\w+)=", script):
            self.assertIn(option, options)
        for command in self.recipe["tests"][0]["script"]:
            for program in re.findall(r"\$PREFIX/(\S+)", command):
                self.assertTrue(os.access(os.path.join(PREFIX, program), os.X_OK), program)


class Recorder:
    """Mock of Spack's packaging language: records the directives of a package."""

    def __init__(self):
        self.directives = []

    def __getattr__(self, name):
        return lambda *arguments, **options: self.directives.append((name, arguments, options))


class Spack(unittest.TestCase):
    DIRECTIVES = ("version", "variant", "provides", "depends_on", "conflicts", "requires", "license")

    def load(self, name, base):
        """Executes a package with mocks of Spack's modules. Returns its namespace and directives."""
        recorder = Recorder()
        package = types.ModuleType("spack.package")
        for directive in self.DIRECTIVES:
            setattr(package, directive, getattr(recorder, directive))
        package.run_after = lambda phase: lambda function: function
        package.join_path = os.path.join
        package.Executable = object
        package.__all__ = [*self.DIRECTIVES, "run_after", "join_path", "Executable"]
        systems = types.ModuleType("spack_repo.builtin.build_systems." + base.lower())
        setattr(systems, base + "Package", type(base + "Package", (), {"define": lambda self, *a: a}))
        modules = {"spack": types.ModuleType("spack"), "spack.package": package, systems.__name__: systems}
        for parent in ("spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
            modules[parent] = types.ModuleType(parent)
        path = os.path.join(PACKAGING, "spack", "packages", name, "package.py")
        saved = dict(sys.modules)
        sys.modules.update(modules)
        try:
            namespace = {"__file__": path}
            exec(compile(read(path), path, "exec"), namespace)
        finally:
            for module in modules:
                sys.modules.pop(module)
            sys.modules.update({name: saved[name] for name in modules if name in saved})
        return namespace, recorder.directives

    def test_weft(self):
        namespace, directives = self.load("weft", "CMake")
        self.assertEqual(namespace["CLONE"], ROOT)
        self.assertTrue(hasattr(namespace["Weft"], "cmake_args"))
        named = [(directive, arguments[0]) for directive, arguments, _ in directives]
        self.assertIn(("provides", "mpi@:5.0"), named)
        self.assertIn(("depends_on", "fortran"), named)
        weft = types.SimpleNamespace(spec=types.SimpleNamespace(), prefix=types.SimpleNamespace())
        weft.prefix.bin = types.SimpleNamespace(**{name: "/p/bin/" + name for name in os.listdir(PREFIX + "/bin")})
        namespace["Weft"].setup_dependent_package(weft, None, None)
        wrappers = {"mpicc": "mpicc", "mpicxx": "mpicxx", "mpifc": "mpifort", "mpif77": "mpif77"}
        self.assertEqual(vars(weft.spec), {name: "/p/bin/" + program for name, program in wrappers.items()})
        variants = {arguments[0] for directive, arguments, _ in directives if directive == "variant"}
        for directive, _, options in directives:
            for variant in re.findall(r"\+(\w+)", options.get("when", "")):
                self.assertIn(variant, variants, directive)
        # the package passes only existing options to CMake
        cmake = "".join(read(path) for path in glob.glob(os.path.join(ROOT, "cmake", "*.cmake")))
        for option in re.findall(
            r'"(WEFT_(?!CC|CXX|FC)\w+)"', read(os.path.join(PACKAGING, "spack/packages/weft/package.py"))
        ):
            self.assertIn(option, cmake)

    def test_api_description(self):
        namespace, directives = self.load("py_pympistandard", "Python")
        (version,) = [arguments[0] for directive, arguments, _ in directives if directive == "version"]
        self.assertIn("pympistandard==" + version, read(os.path.join(ROOT, "tools", "setup", "spec.txt")))
        self.assertIn(version, namespace["PyPympistandard"].pypi)


if __name__ == "__main__":
    unittest.main(verbosity=2)
