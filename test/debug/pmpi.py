# SPDX-License-Identifier: BSD-3-Clause
# A PMPI tool in the way of mpiP: wrappers of all functions of mpi.h, generated, preloaded into programs that know
# nothing of it. Its counts and bytes equal the known traffic, so the library calls no MPI_ function itself.
import os
import re
import subprocess
import sys
import tempfile

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "cli", "top.c")
MESSAGES, BYTES, LARGE, LARGE_MESSAGES, COLLECTIVES = 500, 100, 1 << 20, 20, 300  # as in top.c
PROTOTYPE = re.compile(r"^(int|double|MPI_\w+) (MPI_[A-Z]\w*)\s*\(([^;{]*)\)\s*;", re.MULTILINE)
HEAD = """#include <mpi.h>
#include <stdio.h>
static struct { const char* name; long calls; double seconds; } table[%d];
static long long bytes_sent;
static void report(void) {
  int rank;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (unsigned i = 0; i < sizeof table / sizeof *table; ++i)
    if (table[i].calls) printf("rank %%d %%s %%ld %%s\\n", rank, table[i].name, table[i].calls,
                               table[i].seconds >= 0 ? "ok" : "bad");
  printf("rank %%d bytes %%lld ok\\n", rank, bytes_sent);
  fflush(stdout);
}
"""
WRAPPER = """%(type)s %(name)s(%(parameters)s) {
  const double own_begin_ = PMPI_Wtime();
  %(before)s
  %(type)s own_result_ = P%(name)s(%(names)s);
  table[%(at)d].name = "%(name)s";
  ++table[%(at)d].calls;
  table[%(at)d].seconds += PMPI_Wtime() - own_begin_;
  return own_result_;
}
"""


def prototypes():
    """Returns (type, name, parameters) of the functions of mpi.h with a fixed number of parameters."""
    with open(os.path.join(PREFIX, "include", "mpi.h"), encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
    found = [match.groups() for match in PROTOTYPE.finditer(text)]
    return [(kind, name, " ".join(rest.split())) for kind, name, rest in found if "..." not in rest]


def argument_names(parameters):
    """Returns the names of parameters, such as buf of `const void *buf` and ranges of `int ranges[][3]`."""
    if parameters in ("void", ""):
        return []
    return [re.sub(r"\[[^\]]*\]", "", one).split()[-1].lstrip("*") for one in parameters.split(",")]


def generate(functions):
    parts = [HEAD % len(functions)]
    for at, (kind, name, parameters) in enumerate(functions):
        before = ""
        if name == "MPI_Send":
            before = "{ int size; PMPI_Type_size(datatype, &size); bytes_sent += (long long)size * count; }"
        if name == "MPI_Finalize":
            before = "report();"
        names = ", ".join(argument_names(parameters))
        parts.append(
            WRAPPER % {"type": kind, "name": name, "parameters": parameters, "names": names, "at": at, "before": before}
        )
    return "".join(parts)


def main():
    functions = prototypes()
    assert len(functions) > 600 and {"MPI_Send", "MPI_T_init_thread", "MPI_Send_c"} <= {
        name for _, name, _ in functions
    }
    with tempfile.TemporaryDirectory() as folder:
        source, tool, program = (os.path.join(folder, name) for name in ("tool.c", "libtool.so", "program"))
        with open(source, "w", encoding="utf-8") as file:
            file.write(generate(functions))
        mpicc = os.path.join(PREFIX, "bin", "mpicc")
        subprocess.run([mpicc, "-Wno-deprecated-declarations", "-shared", "-fPIC", source, "-o", tool], check=True)
        subprocess.run([mpicc, PROGRAM, "-o", program], check=True)
        command = [os.path.join(PREFIX, "bin", "mpiexec"), "-n", "3", "-x", "LD_PRELOAD=" + tool, program, "known"]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=100).stdout
    for rank in range(3):
        counted = dict(re.findall(r"^rank %d (\w+) (\d+) ok$" % rank, said, re.MULTILINE))
        expected = {
            "MPI_Init": "1", "MPI_Comm_rank": "1", "MPI_Comm_size": "1", "MPI_Send": str(MESSAGES + LARGE_MESSAGES),
            "MPI_Recv": str(MESSAGES + LARGE_MESSAGES), "MPI_Allreduce": str(COLLECTIVES),
            "bytes": str(MESSAGES * BYTES + LARGE_MESSAGES * LARGE),
        }  # fmt: skip
        if counted != expected:
            sys.exit("rank %d: %r, not %r" % (rank, counted, expected))
    print("%d functions wrapped; counts and bytes of 3 ranks are right" % len(functions))


if __name__ == "__main__":
    main()
