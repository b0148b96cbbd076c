# SPDX-License-Identifier: BSD-3-Clause
# weft bench: starts one of the benchmark programs of the prefix under its mpiexec. The programs have the
# options and the output of the Ohio State benchmarks; see docs/bench.md.
import argparse
import ctypes
import os
import shlex
import sys

from weft import prefix

PAIRS = ("latency", "persistent", "bw", "bibw")
MANY_PAIRS = ("multi_lat", "mbw_mr")
COLLECTIVES = ("alltoall", "allreduce", "iallreduce", "allreduce_init", "allgather", "bcast", "reduce_scatter")
USAGE = "weft bench PROGRAM [-n RANKS] [--mpiexec OPTIONS] [options of the program] [KIND KIND]"


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "bench",
        usage=USAGE,
        help="measure latency, bandwidth and collectives, also on GPU memory",
        description="Measures MPI calls on host and GPU memory.",
        epilog="`weft bench PROGRAM -h` lists the options of a program. Example: weft bench latency -d cuda D D",
    )
    parser.add_argument("program", choices=PAIRS + MANY_PAIRS + COLLECTIVES, help="what to measure")
    parser.add_argument(
        "options",
        nargs=argparse.REMAINDER,
        help="-n RANKS (default: 2, or for collectives and many pairs all GPUs or cores), "
        "--mpiexec OPTIONS (one string, for mpiexec), and what the program takes",
    )
    return parser


def split_options(words):
    """(number of ranks or None, mpiexec's options, the program's options); ValueError on a bad value."""
    ranks, launcher, rest = None, [], []
    words = iter(words)
    for word in words:
        if word in ("-n", "-np"):
            text = next(words, "")
            if not text.isdigit() or not 1 <= int(text) <= 1 << 20:
                raise ValueError("%s %s: expected a number of ranks from 1 to 1048576" % (word, text))
            ranks = int(text)
        elif word == "--mpiexec":
            launcher = shlex.split(next(words, ""))
            if not launcher:
                raise ValueError("--mpiexec: expected options of mpiexec in one string")
        else:
            rest.append(word)
    return ranks, launcher, rest


def wants_gpu(options):
    """Whether the program's options name memory that only the CUDA driver can give."""
    return any(word in ("-d", "--accelerator", "-s", "--buffer-kinds", "P", "D", "M") for word in options)


def count_gpus():
    """Devices that the CUDA driver shows to this process; 0 without a driver."""
    try:
        driver = ctypes.CDLL(os.environ.get("WEFT_CUDA_DRIVER") or "libcuda.so.1")
        count = ctypes.c_int(0)
        if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
            return 0
        return count.value
    except (OSError, AttributeError):
        return 0


def default_ranks(program, options):
    if program in PAIRS:
        return 2
    units = count_gpus() if wants_gpu(options) else len(os.sched_getaffinity(0))
    return max(2, units - units % 2 if program in MANY_PAIRS else units)


def command(root, program, words):
    """The words of the command to run."""
    ranks, launcher, options = split_options(words)
    path = os.path.join(root, "libexec", "weft", "bench", program)
    if not os.access(path, os.X_OK):
        raise FileNotFoundError("%s is missing: this prefix was installed without the benchmarks" % path)
    mpiexec = os.path.join(root, "bin", "mpiexec")
    return [mpiexec, "-n", str(ranks or default_ranks(program, options)), *launcher, path, *options]


def run(arguments):
    try:
        words = command(prefix.find(), arguments.program, arguments.options)
    except (prefix.NotInstalled, FileNotFoundError, ValueError) as error:
        print("weft bench: %s" % error, file=sys.stderr)
        return 2
    sys.stdout.flush()
    try:
        os.execv(words[0], words)  # signals and the exit status are then mpiexec's own
    except OSError as error:
        print("weft bench: %s: %s" % (words[0], error.strerror), file=sys.stderr)
        return 2
