#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The commit that a build contains (cmake/write_commit.cmake): of a git repository, of an archive of git, of a source
# distribution, and of none of them. usage: commit.py CMAKE
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
CMAKE = sys.argv.pop(1)
GIT = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "init.defaultBranch=main"]
# In a hook of git, GIT_DIR names the repository of the developer.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
TEXT = "$Format:%H$\n"


@unittest.skipUnless(shutil.which("git"), "needs git")
class Commit(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree = os.path.join(self.folder, "tree")
        self.write("cmake/commit.txt", TEXT)
        shutil.copy(os.path.join(SOURCE, ".gitattributes"), self.tree)

    def write(self, name, text):
        path = os.path.join(self.tree, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def git(self, *words):
        return subprocess.run(
            [*GIT, "-C", self.tree, *words], capture_output=True, text=True, check=True, env=ENVIRONMENT
        ).stdout.strip()

    def commit_of(self, tree):
        header = os.path.join(self.folder, "commit.hpp")
        command = [
            CMAKE,
            "-DSOURCE=" + tree,
            "-DOUT=" + header,
            "-P",
            os.path.join(SOURCE, "cmake", "write_commit.cmake"),
        ]
        subprocess.run(command, check=True, env=ENVIRONMENT)
        with open(header, encoding="utf-8") as file:
            return re.search('WEFT_COMMIT "(.*)"', file.read()).group(1)

    def test_no_history(self):
        self.assertEqual(self.commit_of(self.tree), "unknown")

    def test_repository_and_archive(self):
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")
        head = self.git("rev-parse", "HEAD")[:12]
        self.assertEqual(self.commit_of(self.tree), head)
        unpacked = os.path.join(self.folder, "unpacked")
        os.mkdir(unpacked)
        self.git("archive", "-o", os.path.join(self.folder, "archive.tar"), "HEAD")
        shutil.unpack_archive(os.path.join(self.folder, "archive.tar"), unpacked)
        self.assertEqual(self.commit_of(unpacked), head)
        self.write("new", "a file that git does not track changes nothing")
        self.assertEqual(self.commit_of(self.tree), head)
        self.write("cmake/commit.txt", TEXT + "changed\n")
        self.assertEqual(self.commit_of(self.tree), head + "+")

    def test_a_folder_in_another_repository_is_not_its_commit(self):
        inner = os.path.join(self.tree, "inner")
        self.write("inner/file", "")
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")
        self.assertEqual(self.commit_of(inner), "unknown")

    def test_source_distribution(self):
        self.write("spec/commit.txt", "# licence\n0123456789ab+\n")
        self.assertEqual(self.commit_of(self.tree), "0123456789ab+")
        self.write("spec/commit.txt", "# licence\nunknown\n")
        self.assertEqual(self.commit_of(self.tree), "unknown")


if __name__ == "__main__":
    unittest.main()
