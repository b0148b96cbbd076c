# SPDX-License-Identifier: BSD-3-Clause
# weft bench: runs a benchmark program of the prefix with the prefix's mpiexec. Options and output are those of the OSU
# micro-benchmarks; see docs/bench.md. --vs and --matrix run a benchmark several times and print one table.
import argparse
import contextlib
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

from weft_mpi import benchmarks, charts, output, prefix, result
from weft_mpi.bench import compare
from weft_mpi.machine.cuda import visible_count as count_gpus
from weft_mpi.output import Failure, Refusal

USAGE = (
    "weft bench --list | PROGRAM [-n RANKS] [--vs MPICC ...] [--matrix SWITCHES] [--plot FILE] [options] [KIND KIND]"
)
OPTIONS_HELP = (
    "options of weft bench: -n RANKS, --vs MPICC ..., --matrix SWITCHES, --json FILE, --plot FILE, --rounds N, "
    "--share-gpus, --mpiexec OPTIONS; options of the program (`weft bench PROGRAM -h`): sizes -m 8:1M, device memory "
    "-d cuda D D, iterations -i N and -x N, datatypes -T mpi_int and -D vect:8:2, a session -I, validation -c"
)
# Options that shell completion offers in addition to the parser's.
WORDS = (
    "-n --vs --matrix --plot --rounds --share-gpus --mpiexec --accelerator --buffer-kinds --message-size "
    "--mem-limit --iterations --warmup --window-size --full --validation --percentiles --tail-lat --type --ddt "
    "--session --in-place --version"
).split()
OWN_OPTIONS = """\
options of `weft bench` (all other options are passed to the program; `weft bench PROGRAM -h` lists them):
  -n RANKS             default: 2; for collectives and multi-pair benchmarks all GPUs or cores
  --mpiexec OPTIONS    options for mpiexec, in one string
  --json FILE          write the results and a description of the machine; - is standard output
  --plot FILE          write a chart (.png, .svg, .pdf); needs matplotlib
  --vs MPICC ...       compare Weft with other MPI libraries in one table with ratios
  --matrix SWITCHES    gpudirect,gdrcopy: one run per combination of on and off
  --share-gpus         allow more ranks than GPUs
  --rounds N           repeat the benchmark: medians, and 10 to 90 percent of the rounds; --vs and --matrix: 3,
                       and up to 9 if the spread leaves a ratio open

options of most programs: KIND KIND (H, P, D, M), -d cuda, -m [MIN:]MAX, -i N, -x N, -f, -c, -z,
  -T mpi_int, -D vect:STRIDE:BLOCKLENGTH, -I, -l

example: weft bench latency -d cuda D D --vs /opt/openmpi/bin/mpicc"""


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "bench",
        usage=USAGE,
        help="measure latency, bandwidth, collectives and start-up on host and GPU memory",
        description="Measures MPI calls on host and GPU memory.",
        epilog=OWN_OPTIONS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", action="store_true", help="list the benchmarks; with --json as JSON")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("program", nargs="?", metavar="PROGRAM", help="a benchmark of `weft bench --list`")
    parser.add_argument("options", nargs=argparse.REMAINDER, help=OPTIONS_HELP)
    return parser


RANK_VARIABLES = ("PMI_RANK", "PMIX_RANK")  # a launcher has started this process and can be reached by its program
SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
MOST_ROUNDS = 9  # of a comparison whose spread leaves a ratio open


class Job:
    """A benchmark run, parsed from the command line. Raises Refusal on a bad value."""

    def __init__(self, program, words):
        self.program = program
        self.ranks, self.launcher, self.options = None, [], []
        self.json = self.plot = None
        self.share = self.repeated = False
        self.others, self.switches, self.rounds, self.most_rounds = [], [], 3, MOST_ROUNDS
        words = list(words)
        while words:
            self.parse_word(words.pop(0), words)
        if self.others and self.switches:
            raise Refusal("--vs and --matrix: use only one of them")
        if self.wants_gpu() and not self.only_prints_help() and count_gpus() == 0:
            raise Refusal(f"{program}: no usable GPU on this host: omit -d, -s and memory kinds, or run `weft doctor`")

    def parse_word(self, word, words):
        joined = re.fullmatch(r"(-np?)(\d*)", word)
        if joined:
            self.ranks = positive_integer(joined[1], [joined[2]] if joined[2] else words, "a number of ranks", 1 << 20)
        elif word == "--rounds":
            self.rounds = self.most_rounds = positive_integer(word, words, "a number of rounds", 1000)
            self.repeated = True
        elif word == "--mpiexec":
            self.launcher = shlex.split(words.pop(0) if words else "")
            if not self.launcher:
                raise Refusal("--mpiexec: expected options of mpiexec in one string")
        elif word in ("--json", "--plot", "-j"):
            if not words:
                raise Refusal(f"{word}: expected the name of a file")
            setattr(self, "plot" if word == "--plot" else "json", words.pop(0))
        elif word == "--share-gpus":
            self.share = True
        elif word in ("--vs", "--matrix"):
            self.parse_comparison(word, words)
        else:
            self.options.append(word)

    def parse_comparison(self, word, words):
        if word == "--vs":
            while words and (os.sep in words[0] or "mpi" in words[0]):
                self.others.append(words.pop(0))
            if not self.others:
                raise Refusal("--vs: expected the mpicc of another MPI library, such as /opt/openmpi/bin/mpicc")
            return
        self.switches = (words.pop(0) if words else "").split(",")
        wrong = [name for name in self.switches if name not in compare.SWITCHES]
        if wrong:
            raise Refusal(f"--matrix {','.join(wrong)}: expected some of {','.join(compare.SWITCHES)}")

    def wants_gpu(self):
        """Returns True if the options request memory that the CUDA driver allocates."""
        return any(
            word in ("-d", "--accelerator", "-s", "--buffer-kinds", "P", "D", "M") or word.startswith("--accelerator=")
            for word in self.options
        )

    def only_prints_help(self):
        return any(word in ("-h", "--help", "-v", "--version") for word in self.options)

    def number(self):
        """Returns the number of ranks: of -n, or a default for the machine."""
        if self.ranks:
            return self.ranks
        ranks = benchmarks.programs()[self.program].ranks
        if ranks == "2":
            return 2
        units = count_gpus() if self.wants_gpu() else len(os.sched_getaffinity(0))
        return max(2, units - units % 2 if ranks == "even" else units)

    def check_sharing(self):
        """Raises Refusal if ranks would share a GPU, which distorts the results, unless --share-gpus is set."""
        gpus = count_gpus() if self.wants_gpu() else 0
        if gpus and self.number() > gpus and not self.share and not self.only_prints_help():
            raise Refusal(
                f"{self.number()} ranks would share {gpus} GPUs: use -n {gpus}, or --share-gpus to measure shared GPUs"
            )

    def command(self, *extra):
        """Returns the command line that runs the program on Weft."""
        words = benchmarks.command(self.program)
        return [prefix.mpiexec(), "-n", str(self.number()), *self.launcher, *words, *self.options, *extra]


def rank_in_job():
    """Returns the rank of this process in the job of several processes that a launcher has started, else None."""
    ranks = [os.environ[name] for name in RANK_VARIABLES if name in os.environ]
    return None if not ranks or "1" in map(os.environ.get, SIZE_VARIABLES) else ranks[0]


def positive_integer(option, words, what, most):
    text = words.pop(0) if words else ""
    if not text.isdigit() or not 1 <= int(text) <= most:
        raise Refusal(f"{option} {text}: expected {what} from 1 to {most}")
    return int(text)


def show_list(as_json):
    """Prints the benchmarks."""
    entries = benchmarks.programs().values()
    if as_json:
        print(output.json_text([{"program": e.name, "ranks": e.ranks, "measures": e.text} for e in entries]), end="")
    else:
        output.table(("program", "ranks", "measures"), [(e.name, e.ranks, e.text) for e in entries])
    return 0


def check_known(program):
    """Raises Refusal, with similar names, if there is no such benchmark."""
    if program in benchmarks.programs():
        return
    near = difflib.get_close_matches(program, benchmarks.programs(), 3)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise Refusal(f"{program}: no such benchmark; {hint}`weft bench --list` prints all")


def run(arguments):
    if arguments.list:
        return show_list(arguments.json)
    if not arguments.program:
        raise Refusal("specify a benchmark; `weft bench --list` prints all")
    check_known(arguments.program)
    job = Job(arguments.program, arguments.options)
    rank = rank_in_job()
    if rank is not None:
        return become_rank(job, rank)
    words = job.command()
    for path in filter(None, (job.json, job.plot)):
        if path != "-":
            output.check_writable(path)
    if job.plot:
        charts.require()
    job.check_sharing()
    if job.others or job.switches or job.repeated:
        return compare_and_save(job)
    if not job.only_prints_help():
        compare.warn_if_busy()
    if not job.json and not job.plot:
        become(words)  # mpiexec receives signals and returns the exit status directly
    return run_and_save(job)


def become(words):
    """Replaces this process by a command. Raises Refusal if it cannot be executed."""
    sys.stdout.flush()
    try:
        os.execv(words[0], words)
    except OSError as error:
        raise Refusal(f"{words[0]}: {error.strerror}") from None


def become_rank(job, rank):
    """Runs the program as a rank of the launcher's job. Raises Refusal if an option needs a job of its own."""
    if job.ranks or job.launcher or job.json or job.plot or job.others or job.switches or job.repeated:
        raise Refusal(
            f"{job.program}: a launcher has started this process as rank {rank} of a job: leave out -n, --mpiexec, "
            "--json, --plot, --vs, --matrix and --rounds, or start one `weft bench` without the launcher"
        )
    if rank == "0" and not job.only_prints_help():
        compare.warn_if_busy()
    become([*benchmarks.command(job.program), *job.options])


def compare_and_save(job):
    """Measures all libraries and writes the result. Raises Failure if Weft failed."""
    with contextlib.redirect_stdout(sys.stderr if job.json == "-" else sys.stdout):
        found, failure = compare.run(job)
    save_result(job, found)
    if failure:
        raise Failure(failure)
    return 0


def run_and_save(job):
    """Runs the program and writes its result, if any, with a description of the machine."""
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        path = os.path.join(folder, "result.json")
        sys.stdout.flush()
        start = time.monotonic()
        child = subprocess.Popen(job.command("--json", path), stdout=sys.stderr if job.json == "-" else None)
        status = wait(child.pid)
        seconds = time.monotonic() - start
        if os.path.exists(path):
            save_result(job, result.of_program(path, seconds))
    return status


def wait(child):
    """Returns the exit status of mpiexec, which receives the terminal's signals itself."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def save_result(job, found):
    """Writes the requested files: JSON, a chart."""
    if job.json == "-":
        print(output.json_text(found), end="")
    elif job.json:
        output.write_file(job.json, output.json_text(found))
    if job.plot:
        charts.save(charts.of_result(found), job.plot)
