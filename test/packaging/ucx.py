#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# packaging/build-ucx.sh with mocks of UCX's source: builds, passes options to configure, rejects a UCX without CUDA.
import os
import subprocess
import tarfile
import tempfile
import unittest

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SCRIPT = os.path.join(ROOT, "packaging", "build-ucx.sh")

# A mock source whose `make install` installs ucx_info and the options of configure.
CONFIGURE = """#!/bin/sh
for option; do case $option in --prefix=*) prefix=${option#*=} ;; esac; done
echo "$@" >options
printf 'install:\\n\\tmkdir -p %s/bin %s/lib/ucx\\n\\tinstall -m 755 ucx_info %s/bin\\n\\tcp options %s\\n' \
  "$prefix" "$prefix" "$prefix" "$prefix" >Makefile
"""
INFO = "#!/bin/sh\nprintf '#      Transport: %s\\n'"


class Ucx(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.makedirs(self.path("cuda/include"))
        open(self.path("cuda/include/cuda.h"), "w", encoding="utf-8").close()

    def path(self, name):
        return os.path.join(self.folder, name)

    def source(self, transports, configure=CONFIGURE):
        """Returns a tarball of a mock UCX with these transports."""
        os.makedirs(self.path("ucx-9/contrib"), exist_ok=True)
        for name, text in (("contrib/configure-release", configure), ("ucx_info", INFO + " " + " ".join(transports))):
            with open(self.path("ucx-9/" + name), "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.chmod(self.path("ucx-9/" + name), 0o755)
        with tarfile.open(self.path("ucx.tar.gz"), "w:gz") as archive:
            archive.add(self.path("ucx-9"), "ucx-9")
        return self.path("ucx.tar.gz")

    def run_script(self, *options):
        done = subprocess.run(
            ["bash", SCRIPT, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return done.returncode, done.stdout

    def build(self, source, *options):
        return self.run_script(
            "--prefix", self.path("to"), "--cuda", self.path("cuda"), "--source", source, "--jobs", "1", *options
        )

    def test_builds(self):
        status, printed = self.build(self.source(["self", "cuda_copy", "cuda_ipc"]), "--verbs")
        self.assertEqual(status, 0, printed)
        self.assertIn("Transport: cuda_ipc", printed)
        with open(self.path("to/options"), encoding="utf-8") as file:
            options = file.read().split()
        for option in (
            "--with-verbs",
            "--with-cuda=" + self.path("cuda"),
            "--prefix=" + self.path("to"),
            "--enable-mt",
        ):
            self.assertIn(option, options)

    def test_refuses_a_ucx_without_cuda(self):
        status, printed = self.build(self.source(["self", "tcp"]))
        self.assertEqual(status, 1)
        self.assertRegex(printed, "lacks cuda_copy cuda_ipc|was built without CUDA")

    def test_names_what_failed(self):
        status, printed = self.build(self.source(["self"], configure="#!/bin/sh\nexit 1"))
        self.assertEqual(status, 1)
        self.assertIn("configure failed: see " + self.path("to"), printed)
        self.assertEqual(self.run_script("--prefix", self.path("to"), "--cuda", self.folder)[0], 1)

    def test_bad_usage(self):
        for options in ([], ["--nonsense"], ["--prefix"]):
            status, printed = self.run_script(*options)
            self.assertEqual(status, 2, options)
            self.assertIn("usage: build-ucx.sh", printed)
        self.assertEqual(self.run_script("--help")[0], 0)


if __name__ == "__main__":
    unittest.main()
