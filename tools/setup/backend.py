# SPDX-License-Identifier: BSD-3-Clause
# The build backend of `pip install .`: scikit-build-core, after set-up. Set-up downloads what `make` would download, into
# the same folder, so that both builds are one. The build folder gets its configuration back afterwards: its tests use the
# prefix of `make`. A source distribution contains the MPI Forum's API description, so that it builds without a network.
import contextlib
import os
import shutil
import subprocess
import sys

from scikit_build_core.build import *  # noqa: F403
from scikit_build_core.build import build_sdist as archive
from scikit_build_core.build import build_wheel as build

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = "build/release"  # build-dir in pyproject.toml


def use_tools():
    """Finds the tools of set-up before others."""
    tools = os.path.abspath("build/tools/bin")
    os.environ["PATH"] = os.pathsep.join([tools, os.environ.get("PATH", os.defpath)])


@contextlib.contextmanager
def kept_configuration():
    """Configures the build folder again as it was, if it was configured."""
    cache = os.path.join(BUILD, "CMakeCache.txt")
    # scikit-build-core would delete the cache: its own path is another one each time (pip's isolated environment).
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(BUILD, ".skbuild-info.json"))
    text = None
    if os.path.exists(cache):
        with open(cache, encoding="utf-8") as file:
            text = file.read()
    yield
    if text is not None:
        with open(cache, "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run(["cmake", "--log-level=WARNING", BUILD], stdout=subprocess.DEVNULL, check=True)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Returns the name of the wheel (PEP 517)."""
    subprocess.run([sys.executable, os.path.join(HERE, "setup.py"), "--tools", "build/tools"], check=True)
    use_tools()
    settings = dict(config_settings or {})
    if "WEFT_CUDA_ARCHITECTURES" not in os.environ.get("CMAKE_ARGS", ""):  # `make demo` may have configured fewer
        settings.setdefault("cmake.define.WEFT_CUDA_ARCHITECTURES", "auto")
    with kept_configuration():
        return build(wheel_directory, settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    """Returns the name of the source distribution (PEP 517)."""
    # In the distribution only: git ignores them.
    copied, commit = os.path.join("spec", "apis.json"), os.path.join("spec", "commit.txt")
    if os.path.exists(copied):  # this is an unpacked source distribution
        return archive(sdist_directory, config_settings)
    command = [sys.executable, os.path.join(HERE, "setup.py"), "--tools", "build/tools", "--no-cuda"]
    subprocess.run(command, check=True)
    shutil.copyfile(os.path.join("build", "tools", "spec", "pympistandard", "data", "apis.json"), copied)
    use_tools()
    subprocess.run(
        ["cmake", "-DSOURCE=" + os.getcwd(), "-DOUT=" + commit, "-P", "cmake/write_commit.cmake"], check=True
    )
    try:
        return archive(sdist_directory, config_settings)
    finally:
        os.remove(copied)
        os.remove(commit)
