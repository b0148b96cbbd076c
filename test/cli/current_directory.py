#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Runs every installed script in a folder whose files have the names of modules; none of the files may be executed.
import os
import subprocess
import sys
import tempfile
import unittest

PREFIX = os.environ["MPI_PREFIX"]
BIN = os.path.join(PREFIX, "bin")
OWN = ("weft_mpi", "rich", "numpy", "matplotlib", "mpi4py", "shtab", "sitecustomize", "usercustomize")
HOSTILE = "import os, sys\nsys.stderr.write('executed: %s\\n' % __file__)\nopen({log!r}, 'a').write(__file__ + '\\n')\n"
# Values of PYTHONPATH that name the current directory by empty or relative entries.
PYTHONPATHS = (None, "", ":", ":/not/there", "/not/there::", ".", "hostile:.:/not/there")
COMMANDS = {  # commands of each file of bin/; the first command also runs with every PYTHONPATH
    "weft": (("--version",), ("info",), ("info", "--config"), ("doctor",), ("bench", "--list"), ("explain", "--help"),
             ("report", "--help"), ("tune", "--help"), ("hang", "1"), ("top", "1"), ("trace", "--help"),
             ("completion", "bash")),
    "mpiexec": (("--version",), ("-n", "2", os.path.join(BIN, "weft"), "info")),
    "mpirun_rsh": (("--version",), ("-np", "1", "localhost", os.path.join(BIN, "weft"), "info")),
    "mpirun": (("--version",), ("-n", "1", os.path.join(BIN, "weft"), "info")),
    "mpicc": (("-show", "a.c"), ("-showme:version",), ("-c", "a.c")),
    "mpicxx": (("-show", "a.cpp"),),
    "mpic++": (("-show", "a.cpp"),),
    "mpiCC": (("-show", "a.cpp"),),
    "mpifort": (("-showme:version",), ("-show", "a.f90")),
    "mpif90": (("-show", "a.f90"),),
    "mpif77": (("-show", "a.f"),),
}  # fmt: skip


def module_names():
    """Returns the names of the standard library's modules, except built-in modules."""
    listed = getattr(sys, "stdlib_module_names", None)  # Python 3.10
    if listed is None:
        folder = os.path.dirname(os.__file__)
        listed = {name.split(".")[0] for name in os.listdir(folder) if name.endswith(".py")} | {"encodings", "json"}
    return sorted({*listed, *OWN} - set(sys.builtin_module_names))


def environment(**changes):
    """Returns the environment without the test's own search paths, and with changes; the value None removes."""
    changed = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": None, "LD_LIBRARY_PATH": None, **changes}
    return {name: value for name, value in changed.items() if value is not None}


class CurrentDirectory(unittest.TestCase):
    def setUp(self):
        own = tempfile.TemporaryDirectory(prefix="weft-")
        self.addCleanup(own.cleanup)
        self.log = os.path.join(own.name, "log")
        self.folder = os.path.join(own.name, "current")
        self.write("a.c", "int main(void) { return 0; }\n")
        for name in module_names():
            self.write(name + ".py", HOSTILE.format(log=self.log))
            self.write(os.path.join("hostile", name + ".py"), HOSTILE.format(log=self.log))
        for name in ("weft_mpi", "encodings", "json"):  # as folders, which come before files of the same name
            for module in ("__init__.py", "__main__.py"):
                self.write(os.path.join(name, module), HOSTILE.format(log=self.log))
        for name in ("python3", "mpiexec", "readlink", "dirname", "gcc"):  # programs of PATH
            self.write(name, f"#!/bin/sh\necho $0 >> {self.log}\n")
            os.chmod(os.path.join(self.folder, name), 0o755)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def executed(self):
        """Returns the hostile files that were executed since the last call."""
        try:
            with open(self.log, encoding="utf-8") as file:
                found = file.read().split()
            os.remove(self.log)
            return sorted(set(found))
        except FileNotFoundError:
            return []

    def run_in_folder(self, words, **changes):
        return subprocess.run(words, cwd=self.folder, env=environment(**changes), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=False)  # fmt: skip

    def test_the_files_are_executed_where_python_searches_the_folder(self):
        self.run_in_folder([sys.executable, "-c", "import json"])
        self.assertEqual([os.path.basename(os.path.dirname(path)) for path in self.executed()], ["json"])
        self.run_in_folder([sys.executable, "-m", "weft_mpi"])
        self.assertNotEqual(self.executed(), [])

    def test_every_installed_script_has_a_command(self):
        self.assertEqual(sorted(os.listdir(BIN)), sorted(COMMANDS))

    def test_nothing_of_the_folder_is_executed(self):
        for script, commands in COMMANDS.items():
            for words in commands:
                with self.subTest(script=script, words=words):
                    done = self.run_in_folder([os.path.join(BIN, script), *words])
                    self.assertEqual(self.executed(), [], done.stderr)
                    self.assertIn(done.returncode, (0, 1, 2), done.stderr)  # 1 and 2: what weft found
                    self.assertNotIn("Traceback", done.stderr)

    def test_empty_and_relative_entries_of_pythonpath(self):
        for script, commands in COMMANDS.items():
            for path in PYTHONPATHS:
                with self.subTest(script=script, PYTHONPATH=path):
                    done = self.run_in_folder([os.path.join(BIN, script), *commands[0]], PYTHONPATH=path)
                    self.assertEqual(self.executed(), [], done.stderr)
                    self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_in_folder([os.path.join(BIN, "weft"), "info"], PYTHONPATH="::.")
        self.assertEqual(self.executed(), [], done.stderr)

    def test_absolute_entries_of_pythonpath_are_the_users_choice(self):
        chosen = os.path.join(os.path.dirname(self.folder), "chosen")
        os.mkdir(chosen)
        with open(os.path.join(chosen, "sitecustomize.py"), "w", encoding="utf-8") as file:
            file.write(HOSTILE.format(log=self.log))
        for path in (chosen, ".:" + chosen, chosen + ":"):
            done = self.run_in_folder([os.path.join(BIN, "weft"), "--version"], PYTHONPATH=path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.executed(), [os.path.join(chosen, "sitecustomize.py")])

    def test_a_link_to_the_script_and_a_plain_name(self):
        os.symlink(os.path.join(BIN, "weft"), os.path.join(self.folder, "linked"))
        for script, path in (("./linked", os.environ["PATH"]), ("weft", BIN + ":/usr/bin:/bin")):
            done = self.run_in_folder(["env", script, "--version"], PATH=path)
            self.assertEqual((self.executed(), done.returncode), ([], 0), done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
