#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Two wheels of one tree, built in folders whose names differ in length, have equal bytes. Needs a network: pip downloads
# the build backend. Arguments are passed to CMake.
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
ARGUMENTS = sys.argv[1:]
TOOLS = os.path.join(SOURCE, "build", "tools")


def copy_tree(target):
    """Copies the files that git tracks or would add, and the downloaded tools."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"]
    listed = subprocess.run(command, cwd=SOURCE, stdout=subprocess.PIPE, text=True, check=True).stdout
    for name in listed.splitlines():
        os.makedirs(os.path.dirname(os.path.join(target, name)), exist_ok=True)
        shutil.copy(os.path.join(SOURCE, name), os.path.join(target, name), follow_symlinks=False)
    shutil.copytree(TOOLS, os.path.join(target, "build", "tools"), symlinks=True)


def contents(wheel):
    """Returns {name: (bytes, date, permissions)} of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {
            entry.filename: (archive.read(entry), entry.date_time, entry.external_attr) for entry in archive.infolist()
        }


class Reproducible(unittest.TestCase):
    def wheel(self, folder):
        tree = os.path.join(folder, "weft")
        copy_tree(tree)
        environment = {**os.environ, "CMAKE_ARGS": " ".join(ARGUMENTS), "SOURCE_DATE_EPOCH": "1767225600"}
        command = [sys.executable, "tools/setup/wheel.py", "--kernels", "native"]
        done = subprocess.run(
            command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stdout[-4000:])
        (name,) = os.listdir(os.path.join(tree, "dist"))
        return os.path.join(tree, "dist", name)

    def test_two_builds_on_two_paths_are_equal(self):
        with tempfile.TemporaryDirectory() as folder:
            wheels = [self.wheel(os.path.join(folder, name)) for name in ("a", "a_folder/with_a_longer_name")]
            self.assertEqual(*(os.path.basename(wheel) for wheel in wheels))
            one, other = map(contents, wheels)
            self.assertEqual(list(one), list(other))
            self.assertEqual([name for name in one if one[name] != other[name]], [])
            with open(wheels[0], "rb") as first, open(wheels[1], "rb") as second:
                self.assertTrue(first.read() == second.read(), "the archives differ though their contents are equal")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
