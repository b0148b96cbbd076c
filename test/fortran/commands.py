# SPDX-License-Identifier: BSD-3-Clause
# Commands of the tests of Fortran.
import os
import subprocess


def run(command, folder, **environment):
    """Runs a command that must succeed; returns its output."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=dict(os.environ, **environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (command, done.stdout)
    return done.stdout
