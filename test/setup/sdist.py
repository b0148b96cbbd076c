#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# `make sdist`: the source distribution builds without a network, with the system's compiler, CMake and Python alone, and
# a program runs with two ranks. As root the build has no network interface; elsewhere PATH has no downloaded tools.
# Arguments: options of the build of this tree; its compiler cache, if it names one, then has most of the objects.
import glob
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SOURCE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
OPTIONS = [word for word in sys.argv[1:] if word.startswith("-D") and not word.endswith("=")]


def compiler_cache(tree):
    """Returns the variables by which ccache finds objects that were compiled in another tree."""
    ccache = shutil.which("ccache", path=SYSTEM_PATH)
    if ccache is None or not any("_COMPILER_LAUNCHER=" in option for option in OPTIONS):
        return {}
    folder = subprocess.run([ccache, "-k", "cache_dir"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return {"CCACHE_DIR": folder, "CCACHE_BASEDIR": tree, "CCACHE_NOHASHDIR": "1"}


class SourceDistribution(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def check(self, *command, **variables):
        """Runs a command without a network, which must succeed; returns its output."""
        offline = ["unshare", "-n"] if os.getuid() == 0 else []
        environment = {"PATH": SYSTEM_PATH, "HOME": self.folder, "LC_ALL": "C.UTF-8", **variables}
        done = subprocess.run(
            [*offline, *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, "%s:\n%s" % (" ".join(command), done.stdout[-4000:]))
        return done.stdout

    def test_it_builds_without_a_network(self):
        command = [sys.executable, "tools/setup/wheel.py", "--sdist", "--to", self.folder]
        subprocess.run(command, cwd=SOURCE, check=True)
        (archive,) = glob.glob(self.folder + "/weft_mpi-*.tar.gz")
        with tarfile.open(archive) as packed:
            names = packed.getnames()
            packed.extractall(self.folder)
        (root,) = {name.split("/")[0] for name in names}
        self.assertIn(root + "/spec/apis.json", names)
        self.assertFalse([name for name in names if name.startswith(root + "/build/")])
        tree, prefix = os.path.join(self.folder, root), self.folder + "/prefix"
        build = os.path.join(tree, "build", "release")  # as in this tree: relative paths are equal
        cache = compiler_cache(tree)
        generator = ["-G", "Ninja"] if shutil.which("ninja", path=SYSTEM_PATH) else []
        self.check("cmake", *generator, "-S", tree, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DWEFT_CUDA_KERNELS=OFF",
                   "-DWEFT_TESTS=OFF", *OPTIONS, "-DCMAKE_INSTALL_PREFIX=" + prefix)  # fmt: skip
        self.check("cmake", "--build", build, "-j", os.environ.get("JOBS", str(os.cpu_count())), **cache)
        self.check("cmake", "--install", build)
        program = self.folder + "/hello"
        self.check(prefix + "/bin/mpicc", os.path.join(SOURCE, "test", "setup", "hello.c"), "-o", program)
        printed = self.check(prefix + "/bin/mpiexec", "-n", "2", program)
        self.assertEqual(sorted(printed.splitlines()), ["0/2 Weft", "1/2 Weft"])


if __name__ == "__main__":
    if shutil.which("cmake", path=SYSTEM_PATH) is None or shutil.which("c++", path=SYSTEM_PATH) is None:
        print("skipped: the system has no CMake or no C++ compiler")
        sys.exit(77)
    unittest.main(verbosity=2, argv=sys.argv[:1])
