#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The file etc/weft.conf of an installation, here a copy of the prefix: its values, their origin in weft info, and a refusal.
import json
import os
import shutil
import subprocess
import tempfile
import unittest

PREFIX = os.environ["MPI_PREFIX"]


class SiteInUse(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.prefix = os.path.join(folder.name, "prefix")
        for name in ("bin/weft", "bin/mpiexec", "bin/mpicc", "lib/libmpi_abi.so.1", "libexec/weft/bench/hello"):
            os.makedirs(os.path.dirname(os.path.join(self.prefix, name)), exist_ok=True)
            shutil.copy(os.path.join(PREFIX, name), os.path.join(self.prefix, name))
        shutil.copytree(os.path.join(PREFIX, "share/weft/python"), os.path.join(self.prefix, "share/weft/python"))
        os.mkdir(os.path.join(self.prefix, "etc"))
        self.file = os.path.join(self.prefix, "etc", "weft.conf")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("# of the site\np2p.eager_max = 4k\nWEFT_NET_UCX_LIBRARY = /opt/ucx/libucp.so.0\n")
        os.chmod(self.file, 0o644)

    def run_in(self, name, *words, **variables):
        environment = {**os.environ, "WEFT_PROFILE": "off", **variables}
        environment.pop("LD_LIBRARY_PATH", None)
        return subprocess.run([os.path.join(self.prefix, name), *words], env=environment, capture_output=True, text=True,
                              check=False)  # fmt: skip

    def settings(self, **variables):
        found = json.loads(self.run_in("bin/weft", "info", "--config", "--json", **variables).stdout)
        return {setting["variable"]: (setting["value"], setting["origin"]) for setting in found}

    def test_values_and_their_origin(self):
        path = os.path.realpath(self.file)
        found = self.settings()
        self.assertEqual(
            (found["WEFT_P2P_EAGER_MAX"][0], os.path.realpath(found["WEFT_P2P_EAGER_MAX"][1])), ("4096", path)
        )
        self.assertEqual(found["WEFT_NET_UCX_LIBRARY"][0], "/opt/ucx/libucp.so.0")
        self.assertEqual(self.settings(WEFT_P2P_EAGER_MAX="8k")["WEFT_P2P_EAGER_MAX"], ("8192", "environment"))
        shown = self.run_in("bin/weft", "info").stdout
        self.assertRegex(
            shown, r"site settings +WEFT_NET_UCX_LIBRARY=/opt/\S+ \(\S+etc/weft.conf\); WEFT_P2P_EAGER_MAX=4096 \("
        )

    def test_a_file_that_others_can_write_is_refused_by_mpi_init(self):
        hello = os.path.join(self.prefix, "libexec/weft/bench/hello")
        self.assertEqual(self.run_in("bin/mpiexec", "-n", "1", hello).returncode, 0)
        os.chmod(self.file, 0o666)
        done = self.run_in("bin/mpiexec", "-n", "1", hello)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"etc/weft.conf is refused \(others than its owner can write it\): chmod go-w")


if __name__ == "__main__":
    unittest.main()
