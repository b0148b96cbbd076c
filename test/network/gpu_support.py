#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Weft's warning if UCX_TLS excludes the GPU support of UCX. The installed UCX may lack a CUDA module, so the test uses
# a folder of symbolic links to UCX with an empty file of the module's name. usage: gpu_support.py PROGRAM DRIVER;
# DRIVER: the emulated CUDA driver
import os
import subprocess
import sys
import tempfile
import unittest

DRIVER = os.path.abspath(sys.argv.pop())
PROGRAM = os.path.abspath(sys.argv.pop())
WARNING = "disables GPU memory support of UCX"


def loaded_from(name):
    """Path of the file that the dynamic linker loads for a library."""
    found = subprocess.run(
        [sys.executable, "-c", f"import ctypes; ctypes.CDLL('{name}'); print(open('/proc/self/maps').read())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    stem = name.split(".so")[0]
    return next(line.split()[-1] for line in found.splitlines() if os.path.basename(line).startswith(stem + ".so"))


def ucx_with_cuda_module(folder):
    """Folder with links to the system's UCX and a file named like its CUDA module."""
    origin = os.path.dirname(loaded_from("libucp.so.0"))
    for name in ("libucp", "libuct", "libucs", "libucm"):
        os.symlink(os.path.join(origin, name + ".so.0"), os.path.join(folder, name + ".so.0"))
    modules = os.path.join(folder, "ucx")
    os.mkdir(modules)
    for name in os.listdir(os.path.join(origin, "ucx")):
        os.symlink(os.path.join(origin, "ucx", name), os.path.join(modules, name))
    module = os.path.join(modules, "libuct_cuda.so.0")
    if not os.path.exists(module):
        open(module, "w", encoding="ascii").close()
    return os.path.join(folder, "libucp.so.0")


def run(**variables):
    environment = dict(os.environ, WEFT_FAKE_HOSTS="2", WEFT_NET="ucx", WEFT_CUDA_DRIVER=DRIVER, **variables)
    command = [os.path.join(os.environ["MPI_PREFIX"], "bin", "mpiexec"), "-n", "2", PROGRAM]
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=50, check=False
    )
    return done.returncode, done.stdout


class GpuSupport(unittest.TestCase):
    def test_warning_when_ucx_tls_excludes_cuda(self):
        with tempfile.TemporaryDirectory() as folder:
            library = ucx_with_cuda_module(folder)
            code, output = run(WEFT_NET_UCX_LIBRARY=library, UCX_TLS="tcp")
            self.assertEqual(code, 0, output)
            self.assertIn("UCX_TLS=tcp " + WARNING, output)
            # Without UCX_TLS there is no warning.
            code, output = run(WEFT_NET_UCX_LIBRARY=library)
            self.assertEqual(code, 0, output)
            self.assertNotIn(WARNING, output)

    def test_no_warning_without_cuda_module(self):
        library = loaded_from("libucp.so.0")
        if os.path.exists(os.path.join(os.path.dirname(library), "ucx", "libuct_cuda.so.0")):
            self.skipTest("this UCX has a CUDA module")
        code, output = run(UCX_TLS="tcp")
        self.assertEqual(code, 0, output)
        self.assertNotIn(WARNING, output)


if __name__ == "__main__":
    unittest.main()
