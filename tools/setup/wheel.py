#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Wheel: builds a wheel into dist/, like `python3 -m build --wheel`, but with the pip found by set-up, and gives it the
# platform tag that auditwheel finds. --mpi4py: also a wheel of mpi4py for the standard ABI, for this Python. --sdist: the
# source distribution.
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from packages import Missing, Pip, last_line, run  # noqa: E402

MPI4PY = "mpi4py==4.1.2"
TOOLS = "build/tools/wheel"


class Failed(Exception):
    """The wheel could not be made; the text gives the reason."""


def module(name, *arguments):
    """Runs a module of the tools; returns its output. Raises Failed."""
    ok, text = run([sys.executable, "-m", name, *arguments], env=dict(os.environ, PYTHONPATH=os.path.abspath(TOOLS)))
    if not ok:
        raise Failed("%s %s: %s" % (name, " ".join(arguments), last_line(text)))
    return text


def platform_tag(wheel):
    """Returns the oldest platform that has what the wheel needs, such as manylinux_2_28_x86_64."""
    text = " ".join(module("auditwheel", "show", wheel).split())
    found = re.search(r'consistent with the following platform tag: "(\w+)"', text)
    if found is None:
        raise Failed("auditwheel: " + text)
    return found.group(1)


def tag(wheel):
    """Renames a wheel to its platform tag; returns its new path."""
    folder = os.path.dirname(wheel)
    name = module("wheel", "tags", "--remove", "--platform-tag", platform_tag(wheel), wheel).split()[-1]
    return os.path.join(folder, os.path.basename(name))


def source_date():
    """Returns the time of the commit of the sources in seconds since 1970, for the files of a wheel; 1980 without git."""
    ok, text = run(["git", "log", "-1", "--format=%ct"])
    return text.strip() if ok and text.strip().isdigit() else "315532800"


def build(pip, target, requirement, *options, **variables):
    """Builds a wheel and moves it to the folder `target`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*pip, "wheel", "--no-deps", "--disable-pip-version-check", "-w", folder, *options, requirement]
        if subprocess.run(command, env=dict(os.environ, **variables), check=False).returncode != 0:
            raise Failed(f"pip wheel {requirement} failed")
        (wheel,) = glob.glob(folder + "/*.whl")
        wheel = tag(wheel)
        os.makedirs(target, exist_ok=True)
        print(f"{os.path.basename(wheel)}: {os.path.getsize(wheel) / 1e6:.1f} MB")
        shutil.move(wheel, os.path.join(target, os.path.basename(wheel)))


def require_headers():
    """Raises Failed if this Python has no headers, which mpi4py is compiled with."""
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not os.path.exists(header):
        raise Failed(f"there is no {header}, which mpi4py needs: install it (Debian, Ubuntu: python3-dev)")


def build_sdist(pip, target):
    """Writes the source distribution to the folder `target`."""
    backend = os.path.abspath("build/tools/backend")
    if not os.path.isdir(os.path.join(backend, "scikit_build_core")):
        pip.install(["scikit-build-core>=1.0"], backend)
    os.makedirs(target, exist_ok=True)
    command = [sys.executable, "-c", "import sys, backend; print(backend.build_sdist(sys.argv[1]))", target]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([HERE, backend]))
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Failed("the build backend failed")
    name = done.stdout.split()[-1]
    print(f"{name}: {os.path.getsize(os.path.join(target, name)) / 1e6:.1f} MB")


def main():
    parser = argparse.ArgumentParser(description="Builds wheels into dist/.")
    parser.add_argument("--mpi4py", action="store_true", help="build the wheel of mpi4py only, with build/prefix")
    parser.add_argument("--sdist", action="store_true", help="make the source distribution only")
    parser.add_argument("--kernels", default="all", help="value of WEFT_CUDA_ARCHITECTURES (default: all)")
    parser.add_argument("--to", default="dist", metavar="FOLDER", help="folder of the wheels (default: dist)")
    arguments = parser.parse_args()
    os.environ.setdefault("SOURCE_DATE_EPOCH", source_date())
    try:
        if arguments.mpi4py:
            require_headers()
        tools = Pip("build/tools/pip")
        if arguments.sdist:
            return build_sdist(tools, arguments.to)
        if not os.path.isdir(os.path.join(TOOLS, "auditwheel")):
            tools.install(["auditwheel>=6", "wheel"], TOOLS)
        if arguments.mpi4py:
            mpicc = os.path.abspath("build/prefix/bin/mpicc")
            build(
                tools.find(),
                arguments.to,
                MPI4PY,
                "--no-binary",
                "mpi4py",
                "--no-cache-dir",
                MPICC=mpicc,
                MPI4PY_BUILD_MPIABI="1",
            )
        else:
            kernels = "cmake.define.WEFT_CUDA_ARCHITECTURES=" + arguments.kernels
            build(tools.find(), arguments.to, ".", "--config-settings", kernels)
    except (Missing, Failed) as error:
        sys.exit(f"wheel: error: {error}")


if __name__ == "__main__":
    main()
