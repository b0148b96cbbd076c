# SPDX-License-Identifier: BSD-3-Clause
# Jobs of mpiexec --mps on with the emulated MPS (mps_emulator.cpp), and what they leave behind.
import os
import subprocess
import sys
import tempfile

PROGRAMS = ("nvidia-cuda-mps-control", "nvidia-smi", "mps-client")
EMULATOR = os.path.abspath(sys.argv.pop(1))  # before support, whose first argument follows

from support import Mark, clean_environment, command_of  # noqa: E402


class Site:
    """Folders of one test: the programs of NVIDIA's driver, and TMPDIR, in which mpiexec creates its folders."""

    def __init__(self):
        self.root = tempfile.TemporaryDirectory(prefix="mps")
        self.bin, self.tmp = os.path.join(self.root.name, "bin"), os.path.join(self.root.name, "t")
        for folder in (self.bin, self.tmp):
            os.mkdir(folder)
        for program in PROGRAMS:
            os.symlink(EMULATOR, os.path.join(self.bin, program))
        self.mark = Mark()

    def variables(self, **more):
        """What a job needs; no daemon runs in the pipe folder that is set."""
        return {
            "PATH": self.bin + ":" + os.environ["PATH"], "TMPDIR": self.tmp,
            "CUDA_MPS_PIPE_DIRECTORY": os.path.join(self.root.name, "none"), **self.mark.variables, **more,
        }  # fmt: skip

    def folders(self):
        return os.listdir(self.tmp)

    def processes(self, name):
        """Pids of the job's processes with this word in their name."""
        return [pid for pid in self.mark.processes() if name in command_of(pid).split(" ")[1]]

    def control(self, command, pipe, **options):
        """(exit code, output) of nvidia-cuda-mps-control with a command; without one it starts a daemon."""
        log = os.path.join(pipe, "log.d")
        os.makedirs(log, exist_ok=True)
        done = subprocess.run(
            [os.path.join(self.bin, "nvidia-cuda-mps-control"), *([] if command else ["-d"])],
            input=command + "\n", text=True, capture_output=True, timeout=20, check=False,
            env=clean_environment(**self.variables(CUDA_MPS_PIPE_DIRECTORY=pipe, CUDA_MPS_LOG_DIRECTORY=log)),
            **options,
        )  # fmt: skip
        return done.returncode, done.stdout

    def close(self):
        self.root.cleanup()
