#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# mpicc and mpicxx: queries, compiler commands, relocation of the prefix.
import os
import shlex
import shutil
import subprocess
import tempfile
import unittest

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))


def run(*command, **variables):
    """Runs a command with changed environment variables; returns (status, output and errors)."""
    environment = {key: value for key, value in os.environ.items() if not key.endswith(("_CC", "_CXX"))}
    environment.update(variables)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment
    )
    return done.returncode, done.stdout.strip()


class Wrappers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.mpicc = os.path.join(PREFIX, "bin", "mpicc")
        self.mpicxx = os.path.join(PREFIX, "bin", "mpicxx")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def build(self, wrapper, source, *options, **variables):
        """Compiles and links a source file; returns the path of the program."""
        program = self.path("program")
        status, text = run(wrapper, *options, os.path.join(HERE, source), "-o", program, **variables)
        self.assertEqual((status, text), (0, ""))
        return program

    def check_runs(self, program):
        self.assertEqual(run(program), (0, "0/1 Weft"))

    def test_builds_c_and_cxx(self):
        self.check_runs(self.build(self.mpicc, "hello.c", "-Wall", "-Werror"))
        self.check_runs(self.build(self.mpicxx, "hello.cpp", "-Wall", "-Werror"))
        self.check_runs(self.build(os.path.join(PREFIX, "bin", "mpic++"), "hello.cpp"))

    def test_options_of_other_wrappers(self):
        self.check_runs(self.build(os.path.join(PREFIX, "bin", "mpiCC"), "hello.cpp"))
        for option in ("--showme", "--showme:link", "--showme:compile", "--showme:version"):
            status, text = run(self.mpicc, option)
            self.assertEqual(status, 0)
            self.assertEqual(text, run(self.mpicc, option[1:])[1])
        self.assertEqual(run(self.mpicc, "-cc=clang-99 -m64", "-showme:command")[1], "clang-99 -m64")
        self.assertEqual(run(self.mpicxx, "-cxx=icpx", "-show", "a.cpp")[1].split()[0], "icpx")

    @unittest.skipUnless(shutil.which("pkg-config"), "no pkg-config here")
    def test_pkg_config(self):
        moved = self.path("other")
        shutil.copytree(PREFIX, moved, symlinks=True)
        folder = {"PKG_CONFIG_PATH": os.path.join(moved, "lib", "pkgconfig")}
        options = shlex.split(run("pkg-config", "--cflags", "--libs", "weft", **folder)[1])
        for name in ("mpi-c", "mpi-cxx"):
            self.assertEqual(shlex.split(run("pkg-config", "--cflags", "--libs", name, **folder)[1]), options)
            self.assertEqual(run("pkg-config", "--atleast-version=4.1", name, **folder)[0], 0)
        program = self.path("program")
        self.assertEqual(run("cc", os.path.join(HERE, "hello.c"), "-o", program, *options), (0, ""))
        self.check_runs(program)
        self.assertIn(
            os.path.realpath(moved), os.path.realpath(run("ldd", program)[1].split("libmpi_abi.so.1 => ")[1].split()[0])
        )

    def test_through_a_link_and_by_name(self):
        link = self.path("cc")
        os.symlink(os.path.relpath(self.mpicc, self.folder), link)
        self.check_runs(self.build(link, "hello.c"))
        self.assertEqual(run("mpicc", "-showme:incdirs")[1], os.path.join(PREFIX, "include"))

    def test_moved_prefix_with_a_space(self):
        moved = self.path("other prefix")
        shutil.copytree(PREFIX, moved, symlinks=True)
        wrapper = os.path.join(moved, "bin", "mpicc")
        program = self.build(wrapper, "hello.c")
        self.check_runs(program)
        self.assertIn(os.path.join(moved, "lib", "libmpi_abi.so.1"), run("ldd", program)[1])
        words = shlex.split(run(wrapper, "-showme:link")[1])
        self.assertIn("-L" + os.path.join(moved, "lib"), words)

    def test_folder_that_no_search_path_can_contain(self):
        for character in ":;":
            moved = self.path(f"with{character}in it")
            for file in ("bin/mpiexec", "lib/libmpi_abi.so.1"):
                os.makedirs(os.path.dirname(os.path.join(moved, file)))
                shutil.copy(os.path.join(PREFIX, file), os.path.join(moved, file))
            status, output = run(os.path.join(moved, "bin", "mpiexec"), "-n", "1", "true")
            self.assertEqual(status, 2)
            self.assertIn("Move it to another folder", output)

    def test_separate_compilation_takes_no_link_options(self):
        object_file = self.path("hello.o")
        source = os.path.join(HERE, "hello.c")
        self.assertEqual(run(self.mpicc, "-c", source, "-o", object_file), (0, ""))
        self.assertNotIn("-lmpi_abi", run(self.mpicc, "-show", "-c", source)[1])
        self.assertNotIn("-lmpi_abi", run(self.mpicc, "-show", "-E", source)[1])
        program = self.path("program")
        self.assertEqual(run(self.mpicc, object_file, "-o", program), (0, ""))
        self.check_runs(program)

    def test_arguments_keep_their_form(self):
        source = self.path("quote.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write("#include <stdio.h>\nint main(void) { return puts(TEXT) < 0; }\n")
        program = self.path("quote")
        self.assertEqual(run(self.mpicc, '-DTEXT="a  b\'c"', source, "-o", program), (0, ""))
        self.assertEqual(run(program), (0, "a  b'c"))
        self.assertIn("'-DTEXT=\"a  b'\\''c\"'", run(self.mpicc, "-show", '-DTEXT="a  b\'c"', source)[1])

    def test_queries(self):
        include, lib = os.path.join(PREFIX, "include"), os.path.join(PREFIX, "lib")
        self.assertEqual(run(self.mpicc, "-showme:compile"), (0, "-I" + include))
        self.assertEqual(run(self.mpicc, "-showme:libdirs"), (0, lib))
        self.assertEqual(run(self.mpicc, "-showme:libs"), (0, "mpi_abi"))
        link = run(self.mpicc, "-showme:link")[1].split()
        self.assertEqual([link[0], link[1], link[-1]], ["-L" + lib, "-Wl,-rpath," + lib, "-lmpi_abi"])
        self.assertRegex(
            run(self.mpicc, "-showme:version")[1], r"^mpicc: MPI 5\.0\.0, Weft \d+\.\d+\.\d+ \(language: C\)$"
        )
        self.assertRegex(run(self.mpicxx, "-showme:version")[1], r"language: C\+\+")
        for option in ("-show", "-showme", "-link_info"):
            words = run(self.mpicc, option)[1].split()
            self.assertEqual((words[0], words[-1]), ("gcc" if shutil.which("gcc") else "cc", "-lmpi_abi"))
        self.assertNotIn("-lmpi_abi", run(self.mpicc, "-compile_info")[1])
        self.assertEqual(run(self.mpicc, "-show", "a.c", "-o", "a")[1].split()[2:5], ["a.c", "-o", "a"])

    def test_compiler_is_chosen_by_variables(self):
        self.assertEqual(run(self.mpicc, "-showme:command", WEFT_CC="my-cc")[1], "my-cc")
        self.assertEqual(run(self.mpicc, "-showme:command", MPICH_CC="theirs")[1], "theirs")
        self.assertEqual(run(self.mpicc, "-showme:command", I_MPI_CC="theirs")[1], "theirs")
        self.assertEqual(run(self.mpicxx, "-showme:command", OMPI_CXX="theirs")[1], "theirs")
        self.assertEqual(run(self.mpicc, "-showme:command", WEFT_CC="mine", OMPI_CC="theirs")[1], "mine")
        self.check_runs(self.build(self.mpicc, "hello.c", WEFT_CC="env LC_ALL=C cc"))

    def test_refusals(self):
        self.assertEqual(run(self.mpicc, "-showme:nonsense")[0], 2)
        status, text = run(self.mpicc, "a.c", WEFT_CC=self.mpicc)
        self.assertEqual(status, 1)
        self.assertIn("would start itself", text)
        status, text = run(self.mpicc, "-c", "missing.c", "-o", self.path("x.o"))
        self.assertNotEqual(status, 0)

    def test_compiler_queries_do_not_link(self):
        status, text = run(self.mpicc, "--version")
        self.assertEqual(status, 0)
        self.assertEqual(run(self.mpicc, "-dumpmachine")[0], 0)
        self.assertEqual(run(self.mpicc, "-v")[0], 0, text)


if __name__ == "__main__":
    unittest.main()
