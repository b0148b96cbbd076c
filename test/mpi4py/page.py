#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The blocks of docs/python.md that need packages: ipyparallel of PyPI in an environment that is kept, and h5py and petsc4py of
# Debian, unpacked into folders. usage: page.py PREFIX FOLDER [h5py | petsc4py | ipyparallel]. Status 77 without the packages.
import glob
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tools", "docs"))
import blocks

SKIPPED = 77
PREFIX, FOLDER = (os.path.abspath(folder) for folder in sys.argv[1:3])
HDF5, PETSC = (["python3-h5py-mpi", "python3-mpi4py"], ["python3-petsc4py", "python3-mpi4py"])


def environment():
    """Returns the variables of an environment with ipyparallel; None if it can't be installed."""
    folder = os.path.join(FOLDER, "environment")
    if not os.path.exists(os.path.join(folder, "bin", "pip")):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    command = [os.path.join(folder, "bin", "pip"), "install", "-q", "--disable-pip-version-check", "ipyparallel", "mpi4py",
               "numpy"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"skipped: ipyparallel can't be installed: {done.stderr.strip()[-300:]}")
        return None
    return {"PATH": os.pathsep.join([os.path.join(PREFIX, "bin"), os.path.join(folder, "bin"), os.environ["PATH"]])}


def debian(packages):
    """Returns the variables of Debian's packages, unpacked; None if they can't be had."""
    archives, root = (os.path.join(FOLDER, packages[0], folder) for folder in ("archives", "debian"))
    os.makedirs(os.path.join(archives, "partial"), exist_ok=True)
    options = [
        "-qq",
        "-y",
        "-o",
        "Dir::Cache::archives=" + archives,
        "-o",
        "Debug::NoLocking=1",
        "--no-install-recommends",
    ]
    command = ["apt-get", *options, "--download-only", "install", *packages]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        done = None
    if done is None or done.returncode != 0 or not os.path.exists("/usr/bin/python3"):
        print(f"skipped: Debian's {packages[0]} can't be had" + (": " + done.stderr.strip()[-200:] if done else ""))
        return None
    for archive in glob.glob(os.path.join(archives, "*.deb")):
        subprocess.run(["dpkg", "-x", archive, root], check=True)
    libraries = [folder for folder, _, files in os.walk(root) if any(".so" in name for name in files)]
    modules = [folder for folder, names, _ in os.walk(root) if folder.endswith("/dist-packages") and names]
    petsc = glob.glob(os.path.join(root, "usr", "lib", "petscdir", "petsc*", "*-real"))
    return {"PATH": os.pathsep.join([os.path.join(PREFIX, "bin"), os.environ["PATH"]]),
            "LD_LIBRARY_PATH": os.pathsep.join(folder for folder in libraries if "python" not in folder.removeprefix(root)),
            "PYTHONPATH": os.pathsep.join(modules), **({"PETSC_DIR": petsc[0]} if petsc else {})}  # fmt: skip


def main():
    expected = {
        "python engines.py": ("[3.0, 3.0]", environment, "ipyparallel"),
        "mpiexec -n 2 /usr/bin/python3 dataset.py": ("Weft", lambda: debian(HDF5), "h5py"),
        "mpiexec -n 2 /usr/bin/python3 poisson.py": ("Weft", lambda: debian(PETSC), "petsc4py"),
    }
    skipped = False
    with tempfile.TemporaryDirectory() as folder:
        lines = blocks.lines_of("test/mpi4py/page.py", SOURCE, "docs/python.md", folder)
        commands = [line for line in lines if not line.startswith(("pip ", "sudo "))]
        if set(commands) != set(expected):
            sys.exit(f"the page has the commands {commands}")
        for command, (text, prepare, name) in expected.items():
            if name not in (sys.argv[3:] or [name]):
                continue
            variables = prepare()
            if variables is None:
                skipped = True
                continue
            done = subprocess.run(command.split(), cwd=folder, env={**os.environ, **variables}, text=True, timeout=300,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)  # fmt: skip
            if done.returncode != 0 or text not in done.stdout:
                sys.exit(f"{command}: status {done.returncode}: {done.stdout}")
            print(f"{command}: {done.stdout.splitlines()[0]}")
    return SKIPPED if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
