#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The files of packaging/: job scripts, module files, images and the Spack package, as far as they can be tried here.
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
    """(status, output) of a command."""
    options.setdefault("stderr", subprocess.STDOUT)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, **options)
    return done.returncode, done.stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def files(pattern):
    """Files of packaging/ by pattern; none is an error."""
    found = sorted(glob.glob(os.path.join(PACKAGING, pattern)))
    assert found, "nothing is packaging/" + pattern
    return found


class Shell(unittest.TestCase):
    def test_syntax(self):
        for path in files("*.sh") + files("slurm/*.sbatch"):
            self.assertEqual(run("bash", "-n", path), (0, ""), path)

    @unittest.skipUnless(shutil.which("shellcheck"), "needs shellcheck")
    def test_shellcheck(self):
        self.assertEqual(run("shellcheck", *files("*.sh"), *files("slurm/*.sbatch")), (0, ""))


class Slurm(unittest.TestCase):
    def test_directives(self):
        for path in files("slurm/*.sbatch"):
            lines = read(path).splitlines()
            self.assertEqual(lines[0], "#!/bin/bash")
            found = {line.split()[1].split("=")[0].lstrip("-") for line in lines if line.startswith("#SBATCH")}
            self.assertEqual(found - SBATCH, set(), path)
            # sbatch stops looking for directives at the first command
            commands = [number for number, line in enumerate(lines) if line and not line.startswith("#")]
            directives = [number for number, line in enumerate(lines) if line.startswith("#SBATCH")]
            self.assertLess(max(directives), commands[0], path)

    def one_node(self, *arguments, **variables):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        environment.update(variables, PATH=PREFIX + "/bin:" + os.environ["PATH"])
        return run("bash", os.path.join(PACKAGING, "slurm", "one-node.sbatch"), *arguments, env=environment)

    def test_one_node_runs(self):
        status, said = self.one_node("sh", "-c", "echo rank $LOCAL_RANK", SLURM_CPUS_ON_NODE="2")
        self.assertEqual(status, 0, said)
        self.assertEqual(sorted(re.findall(r"^rank \d", said, re.MULTILINE)), ["rank 0", "rank 1"])
        self.assertIn(PREFIX, said)
        self.assertEqual(self.one_node()[0], 2)

    def test_multi_node_asks_srun(self):
        with tempfile.TemporaryDirectory() as folder:
            srun = os.path.join(folder, "srun")
            with open(srun, "w", encoding="utf-8") as file:
                file.write('#!/bin/sh\n[ "$1" = --mpi=list ] && { echo "pmi2 pmix" >&2; exit; }\nprintf "%s\\n" "$@"\n')
            os.chmod(srun, 0o755)
            script = os.path.join(PACKAGING, "slurm", "multi-node.sbatch")
            environment = dict(os.environ, PATH=folder + ":" + os.environ["PATH"])
            status, said = run("bash", script, "./program", "-x", env=environment)
            self.assertEqual(status, 0, said)
            self.assertEqual(said.splitlines()[0], "--mpi=pmix")
            self.assertIn("--gpu-bind=none", said)
            self.assertEqual(said.splitlines()[-2:], ["./program", "-x"])


class Modules(unittest.TestCase):
    """What both module files do, by stand-ins for the functions of the module system."""

    EXPECTED = {
        "prepend PATH /p/bin",
        "prepend CMAKE_PREFIX_PATH /p",
        "set MPI_HOME /p",
        "set MPICC /p/bin/mpicc",
        "set MPICXX /p/bin/mpicxx",
    }

    def check(self, interpreter, program):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program")
            with open(path, "w", encoding="utf-8") as file:
                file.write(program)
            status, said = run(interpreter, path, env=dict(os.environ, WEFT_MODULE_PREFIX="/p"))
        self.assertEqual(status, 0, said)
        self.assertEqual(set(said.splitlines()), self.EXPECTED)

    @unittest.skipUnless(shutil.which("tclsh"), "needs tclsh")
    def test_tcl(self):
        stand_in = "proc module-whatis {x} {}\nproc conflict {args} {}\n"
        stand_in += 'proc prepend-path {n v} {puts "prepend $n $v"}\nproc setenv {n v} {puts "set $n $v"}\n'
        self.check("tclsh", stand_in + read(os.path.join(PACKAGING, "modulefiles", "weft.tcl")))

    @unittest.skipUnless(shutil.which("lua") or shutil.which("lua5.4"), "needs lua")
    def test_lua(self):
        stand_in = "function ignore() end\nwhatis, help, family, conflict = ignore, ignore, ignore, ignore\n"
        stand_in += 'function pathJoin(...) return table.concat({...}, "/") end\n'
        stand_in += 'function prepend_path(n, v) print("prepend " .. n .. " " .. v) end\n'
        stand_in += 'function setenv(n, v) print("set " .. n .. " " .. v) end\n'
        lua = shutil.which("lua") or shutil.which("lua5.4")
        self.check(lua, stand_in + read(os.path.join(PACKAGING, "modulefiles", "weft.lua")))


class Images(unittest.TestCase):
    def instructions(self, path):
        """(instruction, rest) of each, continued lines joined."""
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
        """What is copied exists: in the tree, or in an earlier stage."""
        stage = words.pop(0)[len("--from=") :] if words[0].startswith("--from=") else None
        if stage is not None:
            self.assertIn(stage, stages)
        else:
            for source in words[:-1]:
                self.assertTrue(os.path.exists(os.path.join(ROOT, source)), source)

    @unittest.skipUnless(shutil.which("hadolint"), "needs hadolint")
    def test_hadolint(self):
        # DL3008: versions of distribution packages are the distribution's affair
        self.assertEqual(run("hadolint", "--ignore", "DL3008", *files("containers/Containerfile.*")), (0, ""))


class Recorder:
    """Stands for Spack's packaging language: records what a package says."""

    def __init__(self):
        self.said = []

    def __getattr__(self, name):
        return lambda *arguments, **options: self.said.append((name, arguments, options))


class Spack(unittest.TestCase):
    DIRECTIVES = ("version", "variant", "provides", "depends_on", "conflicts", "requires", "license")

    def load(self, name, base):
        """The package's class and its directives, executed with stand-ins for Spack's modules."""
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
        return namespace, recorder.said

    def test_weft(self):
        namespace, said = self.load("weft", "CMake")
        self.assertEqual(namespace["CLONE"], ROOT)
        self.assertTrue(hasattr(namespace["Weft"], "cmake_args"))
        named = [(directive, arguments[0]) for directive, arguments, _ in said]
        self.assertIn(("provides", "mpi@:5.0"), named)
        variants = {arguments[0] for directive, arguments, _ in said if directive == "variant"}
        for directive, _, options in said:
            for variant in re.findall(r"\+(\w+)", options.get("when", "")):
                self.assertIn(variant, variants, directive)
        # the options that it passes to CMake exist
        cmake = "".join(read(path) for path in glob.glob(os.path.join(ROOT, "cmake", "*.cmake")))
        for option in re.findall(
            r'"(WEFT_(?!CC|CXX)\w+)"', read(os.path.join(PACKAGING, "spack/packages/weft/package.py"))
        ):
            self.assertIn(option, cmake)

    def test_api_description(self):
        namespace, said = self.load("py_pympistandard", "Python")
        (version,) = [arguments[0] for directive, arguments, _ in said if directive == "version"]
        self.assertIn("pympistandard==" + version, read(os.path.join(ROOT, "tools", "setup", "spec.txt")))
        self.assertIn(version, namespace["PyPympistandard"].pypi)


if __name__ == "__main__":
    unittest.main(verbosity=2)
