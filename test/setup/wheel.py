#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Builds the wheel, checks it with auditwheel, installs it into a new virtual environment, and uses it there with a
# minimal PATH.
import glob
import os
import re
import sys
import tempfile
import unittest

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tools", "setup"))
from packages import Missing, Pip, run  # noqa: E402


class Wheel(unittest.TestCase):
    def check(self, *command, **options):
        """Runs a command that must succeed; returns its output."""
        ok, text = run(command, **options)
        self.assertTrue(ok, "%s:\n%s" % (" ".join(command), text))
        return text

    def test_wheel(self):
        with tempfile.TemporaryDirectory() as folder:
            pip = Pip(os.path.join(folder, "pip")).find()
            self.check(*pip, "wheel", "-q", "--no-deps", "-w", folder, SOURCE)
            (wheel,) = glob.glob(folder + "/weft-*.whl")
            self.audit(pip, wheel, folder)
            environment = os.path.join(folder, "venv")
            self.check(sys.executable, "-m", "venv", "--without-pip", environment)
            python = os.path.join(environment, "bin", "python")
            self.check(*pip, "--python", python, "install", "-q", "--no-index", "--no-deps", wheel)

            variables = {"PATH": os.path.join(environment, "bin") + ":/usr/bin:/bin", "HOME": folder}
            program = os.path.join(folder, "hello")
            hello = os.path.join(SOURCE, "test", "setup", "hello.c")
            self.check("mpicc", hello, "-o", program, env=variables)
            for launcher in ("mpiexec", "mpirun"):
                printed = self.check(launcher, "-n", "2", program, env=variables)
                self.assertEqual(sorted(printed.splitlines()), ["0/2 Weft", "1/2 Weft"])
            self.fortran(program, variables)
            self.assertIn(os.path.realpath(environment), os.path.realpath(self.prefix(variables)))
            self.assertIn("Latency", self.check("weft", "bench", "latency", "-m", "8:8", env=variables))

    def fortran(self, program, variables):
        """Compiles and runs programs of all Fortran interfaces, if there is a compiler."""
        if not os.path.exists("/usr/bin/gfortran"):
            print("not tested: there is no gfortran")
            return
        hello = os.path.join(SOURCE, "test", "fortran", "project", "hello.F90")
        for interface in ("F77_HEADER", "F90_MODULE", "F08_MODULE"):
            self.check("mpifort", "-D" + interface, hello, "-o", program, env=variables)
            printed = self.check("mpiexec", "-n", "4", program, env=variables)
            self.assertEqual(sorted(printed.split()), ["0/4", "1/4", "2/4", "3/4"])

    def audit(self, pip, wheel, folder):
        """Checks with auditwheel that the wheel depends only on libraries of every Linux system."""
        tools = Pip(folder)
        tools.command = pip
        try:
            tools.install(["auditwheel>=6"], os.path.join(folder, "auditwheel"))
        except Missing as error:
            print("not audited: needs auditwheel (%s)" % error)
            return
        variables = dict(os.environ, PYTHONPATH=os.path.join(folder, "auditwheel"))
        printed = self.check(sys.executable, "-m", "auditwheel", "show", wheel, env=variables)
        print(printed)
        (policy,) = re.findall(r'consistent with the following platform tag: "(\w+)"', " ".join(printed.split()))
        self.assertRegex(policy, r"^manylinux_2_\d+_")

    def prefix(self, variables):
        """Returns the prefix printed by `weft info`."""
        for line in self.check("weft", "info", "--parsable", env=variables).splitlines():
            if line.startswith("weft:prefix:"):
                return line.split(":", 2)[2]
        return ""


if __name__ == "__main__":
    unittest.main()
