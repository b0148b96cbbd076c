#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# `make install PREFIX=FOLDER`: what it runs, and that the folder is an installation beside the other one. The argument
# is the build folder.
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PREFIX = os.path.realpath(os.environ["MPI_PREFIX"])
BUILD = sys.argv.pop(1)


def run(*command, **options):
    """Returns the output of a command that succeeds."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stdout}")
    return done.stdout


def make_install(*variables):
    """The commands of `make install` that install, and the last line that it prints."""
    made = ("-o", "configure", "-o", "build/tools/ready-cli")
    of_make = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "DESTDIR")  # of the make that runs the tests
    environment = {name: value for name, value in os.environ.items() if name not in of_make}
    command = ("make", "-n", "-C", ROOT, "--no-print-directory", *made, "install", "BUILD=" + BUILD, *variables)
    lines = run(*command, env=environment)
    commands = [line.split(" >")[0] for line in lines.splitlines() if " cmake --install " in line]
    return [" ".join(shlex.split(command)[1:]) for command in commands], lines.splitlines()[-1]


@unittest.skipUnless(shutil.which("make"), "no make here")
class Install(unittest.TestCase):
    def test_the_prefix_that_is_named(self):
        own = "env -u DESTDIR cmake --install " + BUILD
        to = f"cmake --install {BUILD} --prefix "
        self.assertEqual(make_install()[0], [own])
        for given, prefix in (("/opt/weft", "/opt/weft"), ("~/weft", os.path.expanduser("~/weft")),
                              ("folder", os.path.join(ROOT, "folder"))):  # fmt: skip
            commands, said = make_install("PREFIX=" + given)
            self.assertEqual(commands, [own, to + prefix])
            self.assertIn(f"put {prefix}/bin on your PATH", said)
        commands, said = make_install("PREFIX=/usr", "DESTDIR=/stage")
        self.assertEqual(commands, [own, to + "/usr"])
        self.assertIn("Weft is in /stage/usr", said)

    def test_two_installations_side_by_side(self):
        with tempfile.TemporaryDirectory() as folder:
            other = os.path.join(os.path.realpath(folder), "weft", "0.2.0")
            tools = os.path.join(ROOT, "build", "tools", "bin") + ":" + os.environ["PATH"]  # may hold cmake
            run("sh", "-c", make_install("PREFIX=" + other)[0][1], env=dict(os.environ, PATH=tools))
            hello = os.path.join(ROOT, "test", "setup", "hello.c")
            for builder in (PREFIX, other):
                program = os.path.join(folder, "hello")
                run(builder + "/bin/mpicc", hello, "-o", program)
                self.assertEqual(self.library(run("ldd", program)), builder)
                for launcher in ("mpiexec", "mpirun"):
                    for prefix in (PREFIX, other):
                        command = (f"{prefix}/bin/{launcher}", "-n", "2")
                        self.assertEqual(sorted(run(*command, program).split("\n")[:2]), ["0/2 Weft", "1/2 Weft"])
                        self.assertEqual(self.library(run(*command[:2], "1", "ldd", program)), prefix)

    def library(self, printed):
        """The prefix of the library in the output of ldd."""
        return os.path.realpath(re.search(r"libmpi_abi\.so\.1 => (\S+)/lib/", printed).group(1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
