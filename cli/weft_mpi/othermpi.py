# SPDX-License-Identifier: BSD-3-Clause
# Other MPI libraries, identified by their mpicc: builds and runs the benchmark programs with them.
from __future__ import annotations

import glob
import os
import re
import shutil

from weft_mpi import benchmarks, children, prefix
from weft_mpi.output import Refusal

STANDARD_PREFIXES = ("/usr", "/usr/local", "/")
VERSION_SOURCE = """\
#include <mpi.h>
#include <stdio.h>
int main(void) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Get_library_version(text, &length);
  puts(text);
  return 0;
}
"""
CLAIM_SOURCE = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char** argv) {
  int flag = 0;
  char kinds[1024] = "";
  void* symbol = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
  int (*query)(void);
  MPI_Init(&argc, &argv);
  memcpy(&query, &symbol, sizeof query);
  MPI_Info_get(MPI_INFO_ENV, "mpi_memory_alloc_kinds", sizeof kinds - 1, kinds, &flag);
  printf("%s|%s\\n", symbol ? (query() ? "yes" : "no") : "unknown", flag ? kinds : "");
  MPI_Finalize();
  return 0;
}
"""


class OtherMpi:
    """One MPI library. `folder`: build folder, removed by the caller. Raises Refusal if mpicc does not work."""

    def __init__(self, mpicc, folder):
        self.mpicc = shutil.which(mpicc)
        if not self.mpicc:
            raise Refusal(
                f"{mpicc} is not a program: specify the mpicc of an MPI library, such as /opt/openmpi/bin/mpicc"
            )
        self.mpicc = os.path.abspath(self.mpicc)
        self.root = os.path.dirname(os.path.dirname(self.mpicc))
        self.folder = os.path.join(folder, re.sub(r"\W+", "_", self.mpicc))
        os.makedirs(self.folder, exist_ok=True)
        self.environment = self.make_environment()
        self.mpiexec = self.find_launcher()
        self.version = self.query_version()
        self.name = next((name for name in ("Weft", "Open MPI", "MPICH", "MVAPICH", "Intel(R) MPI")
                          if name.lower() in self.version.lower()), os.path.basename(self.root))  # fmt: skip

    def make_environment(self) -> dict[str, str]:
        changes = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if self.root not in STANDARD_PREFIXES:
            folders = [os.path.join(self.root, "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
            changes["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, folders))
        return children.clean_environment(**changes)

    def find_launcher(self) -> str:
        for name in ("mpiexec", "mpirun"):
            path = os.path.join(os.path.dirname(self.mpicc), name)
            if os.access(path, os.X_OK):
                return path
        raise Refusal(f"no mpiexec in the folder of {self.mpicc}: specify the mpicc of a complete installation")

    def compile(self, name: str, words: list[str]) -> str:
        """Returns the path of the compiled program. Raises Refusal if the compiler fails."""
        path = os.path.join(self.folder, name)
        outcome = children.run([self.mpicc, *words, "-ldl", "-o", path], 120, self.environment)
        if not outcome.good:
            raise Refusal(f"{self.mpicc} does not compile: {outcome.reason()}; test it with a small program")
        return path

    def compile_text(self, name: str, text: str) -> str:
        source = os.path.join(self.folder, f"{name}.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        return self.compile(name, [source])

    def query_version(self) -> str:
        """Returns the library version. MPI_Get_library_version is legal before MPI_Init: no launcher is needed."""
        outcome = children.run([self.compile_text("version", VERSION_SOURCE)], 30, self.environment)
        lines = [line for line in outcome.out.splitlines() if line.strip()]
        if not outcome.good or not lines:
            raise Refusal(f"a program built by {self.mpicc} does not run: {outcome.reason()}")
        words = " ".join(lines[0].split(",")[0].replace("Version:", "").split())  # Open MPI appends package and host
        number = next((re.search(r"\d+(\.\d+)+\S*", line) for line in lines if re.search(r"\d+\.\d+", line)), None)
        return words if re.search(r"\d", words) or not number else f"{words} {number.group(0)}"

    def build(self, source: str) -> str:
        """Builds a benchmark program once and returns its path."""
        path = os.path.join(self.folder, source)
        if os.path.exists(path):
            return path
        folder = prefix.sources()
        sources = sorted(glob.glob(os.path.join(folder, source, "*.c"))) or [os.path.join(folder, f"{source}.c")]
        common = sorted(glob.glob(os.path.join(folder, "common", "*.c")))
        return self.compile(source, ["-std=c99", "-O2", "-w", "-pthread", f"-I{folder}", *sources, *common])

    def benchmark(self, name: str) -> list[str]:
        """Builds a benchmark and returns its command without options."""
        source = benchmarks.programs()[name].source
        return [self.build(source), name] if source != name else [self.build(source)]

    def command(self, ranks: int, words: list[str]) -> list[str]:
        """Returns the command that starts `ranks` ranks on this host."""
        crowded = ["--oversubscribe"] if self.name == "Open MPI" and ranks > len(os.sched_getaffinity(0)) else []
        return [self.mpiexec, *crowded, "-n", str(ranks), *words]

    def run(self, ranks: int, words: list[str], seconds: float) -> children.Outcome:
        return children.run(self.command(ranks, words), seconds, self.environment)

    def gpu_support(self) -> tuple[str, str]:
        """Returns the GPU support that the library claims: ("yes", "no" or "unknown", memory kinds)."""
        program = self.compile_text("gpu_support_claim", CLAIM_SOURCE)
        outcome = self.run(1, [program], 60)
        if not outcome.good or "|" not in outcome.out:
            return f"unknown ({outcome.reason()})", ""
        answer, _, kinds = outcome.out.strip().splitlines()[-1].partition("|")
        return answer, kinds
