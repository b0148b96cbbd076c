# SPDX-License-Identifier: BSD-3-Clause
# weft bench: starts one of the benchmark programs of the prefix under its mpiexec. The programs have the options and
# the output of the Ohio State benchmarks; see docs/bench.md. With --vs and --matrix: several runs, one table.
import argparse
import contextlib
import difflib
import os
import shlex
import sys
import tempfile
import time

from weft import benchmarks, output, prefix
from weft.bench import compare, result
from weft.machine.cuda import visible_count as count_gpus
from weft.output import Refusal

USAGE = (
    "weft bench --list | PROGRAM [-n RANKS] [--vs MPICC ...] [--matrix SWITCHES] [--plot FILE] [options] [KIND KIND]"
)
OPTIONS_HELP = (
    "of weft bench: -n RANKS, --vs MPICC ..., --matrix SWITCHES, --json FILE, --plot FILE, --rounds N, --share-gpus, "
    "--mpiexec OPTIONS; of the program (`weft bench PROGRAM -h`): sizes -m 8:1M, device memory -d cuda D D, iterations "
    "-i N and -x N, datatypes -T mpi_int and -D vect:8:2, a session -I, validation -c"
)
# What a shell completes beside the parser's own.
WORDS = (
    "-n --vs --matrix --plot --rounds --share-gpus --mpiexec --accelerator --buffer-kinds --message-size "
    "--mem-limit --iterations --warmup --window-size --full --validation --percentiles --tail-lat --type --ddt "
    "--session --in-place --version"
).split()
OWN_OPTIONS = """\
options of `weft bench` (all others go to the program; `weft bench PROGRAM -h` lists them):
  -n RANKS             default: 2, or for collectives and many pairs all GPUs or cores
  --mpiexec OPTIONS    one string, for mpiexec
  --json FILE          the results, with a description of the machine
  --plot FILE          a picture (.png, .svg, .pdf); needs matplotlib
  --vs MPICC ...       the same program with other MPI libraries beside Weft, one table with ratios
  --matrix SWITCHES    gpudirect,gdrcopy: a run for each combination of on and off
  --share-gpus         allow more ranks than GPUs
  --rounds N           of --vs and --matrix; medians are shown (3)

options of most programs: KIND KIND (H, P, D, M), -d cuda, -m [MIN:]MAX, -i N, -x N, -f, -c, -z,
  -T mpi_int, -D vect:STRIDE:BLOCKLENGTH, -I, -l

example: weft bench latency -d cuda D D --vs /opt/openmpi/bin/mpicc"""


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "bench",
        usage=USAGE,
        help="measure latency, bandwidth, collectives and start-up, also on GPU memory",
        description="Measures MPI calls on host and GPU memory.",
        epilog=OWN_OPTIONS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="what there is to measure; with --json as JSON")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("program", nargs="?", metavar="PROGRAM", help="one of those that `weft bench --list` prints")
    parser.add_argument("options", nargs=argparse.REMAINDER, help=OPTIONS_HELP)
    return parser


class Job:
    """What to run: the words of the command line, taken apart. Refusal on a bad value."""

    def __init__(self, program, words):
        self.program = program
        self.ranks, self.launcher, self.options = None, [], []
        self.json = self.plot = None
        self.share = False
        self.others, self.switches, self.rounds = [], [], 3
        words = list(words)
        while words:
            self.take(words.pop(0), words)
        if self.others and self.switches:
            raise Refusal("--vs and --matrix: give one of them at a time")
        if self.wants_gpu() and not self.asks_only() and count_gpus() == 0:
            raise Refusal("%s: no usable GPU here, so no GPU memory: leave out -d, -s and kinds, or see `weft doctor`"
                          % program)  # fmt: skip

    def take(self, word, words):
        if word in ("-n", "-np"):
            self.ranks = whole(word, words, "a number of ranks", 1 << 20)
        elif word == "--rounds":
            self.rounds = whole(word, words, "a number of rounds", 1000)
        elif word == "--mpiexec":
            self.launcher = shlex.split(words.pop(0) if words else "")
            if not self.launcher:
                raise Refusal("--mpiexec: expected options of mpiexec in one string")
        elif word in ("--json", "--plot", "-j"):
            if not words:
                raise Refusal("%s: expected the name of a file" % word)
            setattr(self, "plot" if word == "--plot" else "json", words.pop(0))
        elif word == "--share-gpus":
            self.share = True
        elif word == "--vs":
            while words and (os.sep in words[0] or "mpi" in words[0]):
                self.others.append(words.pop(0))
            if not self.others:
                raise Refusal("--vs: expected the mpicc of another MPI library, such as /opt/openmpi/bin/mpicc")
        elif word == "--matrix":
            self.switches = (words.pop(0) if words else "").split(",")
            wrong = [name for name in self.switches if name not in compare.SWITCHES]
            if wrong:
                raise Refusal("--matrix %s: expected some of %s" % (",".join(wrong), ",".join(compare.SWITCHES)))
        else:
            self.options.append(word)

    def wants_gpu(self):
        """Whether the program's options name memory that only the CUDA driver can give."""
        return any(
            word in ("-d", "--accelerator", "-s", "--buffer-kinds", "P", "D", "M") or word.startswith("--accelerator=")
            for word in self.options
        )

    def asks_only(self):
        return any(word in ("-h", "--help", "-v", "--version") for word in self.options)

    def number(self):
        """Ranks: what was asked for, or what the machine has."""
        if self.ranks:
            return self.ranks
        ranks = benchmarks.programs()[self.program].ranks
        if ranks == "2":
            return 2
        units = count_gpus() if self.wants_gpu() else len(os.sched_getaffinity(0))
        return max(2, units - units % 2 if ranks == "even" else units)

    def check_sharing(self):
        """Ranks that share a GPU do not give its figures: refused unless asked for."""
        gpus = count_gpus() if self.wants_gpu() else 0
        if gpus and self.number() > gpus and not self.share and not self.asks_only():
            raise Refusal("%d ranks would share %d GPUs: use -n %d, or --share-gpus to measure just that"
                          % (self.number(), gpus, gpus))  # fmt: skip

    def command(self, *extra):
        """The words that run the program on Weft."""
        words = benchmarks.command(self.program)
        return [prefix.mpiexec(), "-n", str(self.number()), *self.launcher, *words, *self.options, *extra]


def whole(option, words, what, most):
    text = words.pop(0) if words else ""
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise Refusal("%s %s: expected %s from 1 to %d" % (option, text, what, most))
    return int(text)


def show_list(as_json):
    """What there is to measure."""
    entries = benchmarks.programs().values()
    if as_json:
        print(output.json_text([{"program": e.name, "ranks": e.ranks, "measures": e.text} for e in entries]), end="")
    else:
        output.table(("program", "ranks", "measures"), [(e.name, e.ranks, e.text) for e in entries])
    return 0


def run(arguments):
    if arguments.list:
        return show_list(arguments.json)
    if not arguments.program:
        raise Refusal("name a benchmark; `weft bench --list` prints them")
    if arguments.program not in benchmarks.programs():
        near = difflib.get_close_matches(arguments.program, benchmarks.programs(), 3)
        hint = "did you mean %s? " % " or ".join(near) if near else ""
        raise Refusal("%s: no such benchmark; %s`weft bench --list` prints them" % (arguments.program, hint))
    job = Job(arguments.program, arguments.options)
    words = job.command()
    for path in filter(None, (job.json, job.plot)):
        output.check_writable(path)
    if job.plot:
        from weft import charts

        charts.require()
    job.check_sharing()
    if job.others or job.switches:
        return compare.run(job)
    if not job.json and not job.plot:
        sys.stdout.flush()
        try:
            os.execv(words[0], words)  # signals and the exit status are then mpiexec's own
        except OSError as error:
            raise Refusal("%s: %s" % (words[0], error.strerror)) from None
    return run_and_keep(job)


def run_and_keep(job):
    """Runs the program and keeps its result, with the machine's description, if it has one."""
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        path = os.path.join(folder, "result.json")
        sys.stdout.flush()
        start = time.monotonic()
        status = wait(os.spawnv(os.P_NOWAIT, prefix.mpiexec(), job.command("--json", path)))
        seconds = time.monotonic() - start
        if os.path.exists(path):
            keep(job, result.of_program(path, seconds))
    return status


def wait(child):
    """The exit status of mpiexec, which gets the terminal's signals itself."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def keep(job, found):
    """Writes what was asked for: JSON, a picture."""
    if job.json:
        output.write_file(job.json, output.json_text(found))
    if job.plot:
        from weft import charts

        charts.save(charts.of_result(found), job.plot)
