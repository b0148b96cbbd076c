# SPDX-License-Identifier: BSD-3-Clause
# weft tune: measures alternative values of the settings that select protocols and writes significant improvements to a
# profile, which the library reads on this machine.
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections import namedtuple

from weft_mpi import benchmarks, children, library, output, prefix
from weft_mpi.machine import cuda, system
from weft_mpi.output import Refusal

# A benchmark: program, number of ranks (0: all cores or GPUs), options, sizes, the key of the measured value, and
# settings that select the measured path.
Table = namedtuple("Table", "name program ranks options sizes field settings", defaults=((),))
# A setting and its candidate values; `tables`: names of the tables that the setting affects.
Tunable = namedtuple("Tunable", "setting values tables")

HOST_TABLES = (
    Table("latency, host", "latency", 2, ("-i", "1000", "-x", "100"), "8,1K,4K,8K,16K,32K,64K,256K,1M", "latency_us"),
    Table("bandwidth, host", "bw", 2, ("-i", "20", "-x", "4"), "1K,16K,64K,1M", "bandwidth_mb_s"),
    Table("all-reduce, host", "allreduce", 0, ("-i", "300", "-x", "50"), "8,1K,16K,64K,256K,1M", "latency_us"),
)
GPU_TABLES = (
    Table("latency, GPU", "latency", 2, ("-d", "cuda", "-i", "300", "-x", "50"), "8,1K,8K,64K,256K,1M,4M",
          "latency_us"),
    Table("bandwidth, GPU", "bw", 2, ("-d", "cuda", "-i", "20", "-x", "4"), "8K,64K,256K,1M,4M", "bandwidth_mb_s"),
    Table("all-reduce, GPU", "allreduce", 0, ("-d", "cuda", "-i", "200", "-x", "50"), "8,4K,32K,256K,1M,4M,16M",
          "latency_us"),
    Table("all-to-all, GPU", "alltoall", 0, ("-d", "cuda", "-i", "200", "-x", "50"), "8,4K,64K,256K,1M,8M",
          "latency_us"),
    Table("all-reduce by messages, GPU", "allreduce", 0, ("-d", "cuda", "-i", "100", "-x", "20"), "4K,16K,64K",
          "latency_us", (("coll.gpu", "off"),)),
)  # fmt: skip
# The current value of a setting is not measured again. Exception: settings that the library adapts at run time unless
# they are set; their nominal default is a candidate like any other.
ADAPTIVE_SETTINGS = ("p2p.eager_max",)
HOST_TUNABLES = (
    Tunable("p2p.eager_max", ("2048", "4096", "8192", "16384"), ("latency, host", "bandwidth, host")),
    Tunable("coll.shared_max_bytes", ("65536", "262144", "1048576"), ("all-reduce, host",)),
)
GPU_TUNABLES = (
    Tunable("gpu.resident_kernel_max_bytes", ("65536", "131072", "262144", "524288"), ("latency, GPU",)),
    Tunable("gpu.batch_copy_max_bytes", ("262144", "524288", "1048576"), ("bandwidth, GPU",)),
    # The crossover sizes of the library (src/coll/schedule/crossovers.hpp).
    Tunable("coll.gpu_ll128_min_bytes", ("32768", "65536", "262144", "524288"), ("all-reduce, GPU", "all-to-all, GPU")),
    Tunable("coll.gpu_doorbell_max_bytes", ("32768", "65536", "262144"), ("all-reduce, GPU", "all-to-all, GPU")),
    Tunable("coll.gpu_one_shot_max_bytes", ("196608", "786432"), ("all-reduce, GPU",)),
    Tunable("coll.gpu_ll128_max_bytes", ("524288", "4194304"), ("all-reduce, GPU", "all-to-all, GPU")),
    Tunable("coll.gpu_ll_max_bytes", ("131072", "1048576"), ("all-reduce, GPU",)),
    Tunable("coll.gpu_ll_movement_max_bytes", ("131072", "1048576"), ("all-to-all, GPU",)),
    Tunable("coll.gpu_direct_reduce_min_bytes", ("4194304", "33554432"), ("all-reduce, GPU",)),
    Tunable("coll.gpu_direct_min_bytes", ("1048576", "4194304"), ("all-to-all, GPU",)),
    Tunable("coll.gpu_pair_max_bytes", ("131072", "1048576"), ("all-to-all, GPU",)),
    Tunable("coll.gpu_movement_max_bytes", ("524288", "4194304"), ("all-to-all, GPU",)),
    Tunable("coll.gpu_reduce_min_bytes", ("4096", "32768", "65536"), ("all-reduce by messages, GPU",)),
)
SECONDS, SECONDS_WITH_GPUS = 300, 900
MIN_SECONDS, MAX_SECONDS = 10, 86400
MIN_GAIN = 0.03  # minimum relative gain, averaged over the rows of a table
UNITS = {"latency_us": "us", "bandwidth_mb_s": "MB/s"}
ROUNDS = 5  # per comparison
SCREENING_ROUNDS = 2  # of a value that gains nothing in them
SECONDS_PER_RUN = 60
MIN_STANDARD_ERRORS = 2.0  # minimum gain in standard errors


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "tune",
        help="find the best settings for this machine by measurement",
        description=run.__doc__,
        epilog="example: weft tune --seconds 300",
    )
    limits = f"time limit ({SECONDS}, with GPUs {SECONDS_WITH_GPUS})"
    parser.add_argument("--seconds", type=float, help=limits)
    parser.add_argument("--only", choices=("host", "gpu"), help="only settings for this memory")
    parser.add_argument("-o", "--output", metavar="FILE", help="profile to write (weft/profile in ~/.config)")
    parser.add_argument("--dry-run", action="store_true", help="measure and print, but write no profile")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def run(arguments):
    """Measures messages and collectives with other values of the settings that select protocols. A value is kept if its
    gain exceeds the noise of alternating rounds and no row becomes slower. Finally all kept values are measured
    together against the defaults; the profile is written only if the gain is confirmed."""
    path = arguments.output or default_path()
    if arguments.seconds is None:
        with_gpus = arguments.only != "host" and cuda.visible_count() >= 2
        arguments.seconds = SECONDS_WITH_GPUS if with_gpus else SECONDS
    if not MIN_SECONDS <= arguments.seconds <= MAX_SECONDS:
        raise Refusal(f"--seconds {arguments.seconds:g}: at least {MIN_SECONDS} are needed to distinguish a gain from noise, "
                      f"and at most {MAX_SECONDS} are possible")  # fmt: skip
    if not arguments.dry_run:
        prepare(path)
    machine = library.text_of(library.load(), "MPIX_Machine_name")
    busy = system.busy()
    if busy:
        print(f"weft tune: {busy}; gains below the noise are missed", file=sys.stderr)
    bench = Bench(time.monotonic() + arguments.seconds)
    tables, tunables = select_tables(arguments.only)
    kept, tried = search(bench, tables, tunables, arguments.seconds)
    before_after = verify(bench, tables, tunables, kept) if kept else []
    unchanged = [] if kept else defaults(bench, tables)
    refused = [row for row in before_after if row["worse"]]
    saved = bool(kept) and not refused and not arguments.dry_run and is_faster(before_after)
    if saved:
        output.write_file(path, with_section(read_text(path), machine, section(machine, kept, before_after)))
    found = {
        "machine": machine, "busy": busy, "tried": tried, "kept": kept, "rows": before_after, "defaults": unchanged,
        "profile": path if saved else None, "out_of_time": bench.out_of_time,
    }  # fmt: skip
    if arguments.json:
        print(output.json_text(found), end="")
    else:
        show(found, refused, arguments)
    return 0


def default_path():
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "weft", "profile")


def prepare(path):
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    except OSError as error:
        raise Refusal(f"{path} cannot be written ({error.strerror}): specify another file with -o") from None
    output.check_writable(path)


def select_tables(only):
    """Returns the tables and tunables for the hardware of this machine."""
    gpus = cuda.visible_count()
    if only == "gpu" and gpus < 2:
        raise Refusal(f"--only gpu: {gpus} usable GPUs here, at least 2 are needed (see `weft doctor`)")
    tables, tunables = (), ()
    if only != "gpu":
        tables, tunables = tables + HOST_TABLES, tunables + HOST_TUNABLES
    if only != "host" and gpus >= 2:
        tables, tunables = tables + GPU_TABLES, tunables + GPU_TUNABLES
    now = {}  # values in force without a profile, which is disabled during tuning
    for setting in library.settings():
        name = setting["variable"]
        if setting["origin"] not in ("default", "profile"):
            now[name] = setting["value"]
        else:
            now[name] = None if name in map(variable, ADAPTIVE_SETTINGS) else setting["default"]
    tunables = [tunable for tunable in tunables if variable(tunable.setting) in now]
    return tables, tuple(
        tunable._replace(values=tuple(value for value in tunable.values if value != now[variable(tunable.setting)]))
        for tunable in tunables
    )


def variable(setting):
    return "WEFT_" + setting.replace(".", "_").upper()


class Bench:
    """Runs tables until the time limit. `seen`: {(table, settings): {size: [costs]}}."""

    def __init__(self, end):
        self.end = end
        self.out_of_time = False
        self.took, self.seen = {}, {}

    def has_time_for(self, table, runs):
        """Returns True if the time suffices for `runs` runs of a table; otherwise sets `out_of_time`."""
        good = time.monotonic() + runs * self.took.get(table.name, 1) < self.end
        self.out_of_time = self.out_of_time or not good
        return good

    def measure(self, table, values):
        """Returns {size: cost} with these settings and no profile; a lower cost is better."""
        ranks = table.ranks or (cuda.visible_count() if "cuda" in table.options else len(os.sched_getaffinity(0)))
        start = time.monotonic()
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            words = [prefix.mpiexec(), "-n", str(max(2, ranks)), *benchmarks.command(table.program)]
            words += ["-m", table.sizes, *table.options, "--json", file.name]
            settings = {**dict(table.settings), **values}
            environment = children.clean_environment(
                WEFT_PROFILE="off", **{variable(setting): value for setting, value in settings.items()}
            )
            outcome = children.run(words, SECONDS_PER_RUN, environment)
            if not outcome.good:
                raise output.Failure("{} with {}: {}".format(table.name, values or "defaults", outcome.reason()))
            with open(file.name, encoding="utf-8") as result:
                rows = json.load(result)["rows"]
        self.took[table.name] = time.monotonic() - start
        higher = table.field == "bandwidth_mb_s"
        return {row["size"]: 1e6 / row[table.field] if higher else row[table.field] for row in rows}


def figure(bench, table, values, size):
    """Returns the median measured with these settings, in the unit of the table's field."""
    cost = statistics.median(bench.seen[key_of(table, values)][size])
    return 1e6 / cost if table.field == "bandwidth_mb_s" else cost


def key_of(table, values):
    return table.name, tuple(sorted(values.items()))


def defaults(bench, tables):
    """Returns the rows measured with default settings."""
    return [{"table": table.name, "size": size, table.field: round(figure(bench, table, {}, size), 3)}
            for table in tables for size in bench.seen.get(key_of(table, {}), ())]  # fmt: skip


def compare(bench, table, old, new, screening=False):
    """Returns {size: [log(new / old) per round]} of alternating rounds; None without time for two rounds. With
    `screening`, a value that gains nothing in the first rounds gets no more."""
    logs = {}
    for number in range(ROUNDS):
        if not bench.has_time_for(table, 2) or (screening and number == SCREENING_ROUNDS and evaluate(logs)[0] <= 0):
            break
        order = (old, new) if number % 2 == 0 else (new, old)
        first, second = (bench.measure(table, values) for values in order)
        before, after = (first, second) if number % 2 == 0 else (second, first)
        for values, costs in ((old, before), (new, after)):
            seen = bench.seen.setdefault(key_of(table, values), {})
            for size, cost in costs.items():
                seen.setdefault(size, []).append(cost)
        for size in before:
            logs.setdefault(size, []).append(math.log(after[size] / before[size]))
    return logs if logs and len(next(iter(logs.values()))) >= 2 else None


def spread(values):
    """Returns the standard error of the mean."""
    return statistics.stdev(values) / math.sqrt(len(values))


def evaluate(logs):
    """Returns (mean gain over the rows, its standard error, rows that are significantly slower)."""
    rounds = [statistics.fmean(column) for column in zip(*logs.values())]
    worse = [size for size, values in logs.items() if is_worse(values)]
    return -statistics.fmean(rounds), spread(rounds), worse


def is_worse(values):
    return statistics.median(values) > MIN_GAIN and statistics.fmean(values) > MIN_STANDARD_ERRORS * spread(values)


def search(bench, tables, tunables, seconds):
    """Returns ({setting: kept value}, trials). A value must improve one affected table and slow down none."""
    named = {table.name: table for table in tables}
    kept, tried = {}, []
    total = sum(len(tunable.values) for tunable in tunables)
    search_end = bench.end
    bench.end -= seconds * 0.35  # reserved for the verification
    with output.progress(total, "tuning") as step:
        for tunable in tunables:
            best = None
            for value in tunable.values:
                step(f"{tunable.setting} = {value}")
                trial = try_value(
                    bench, [named[name] for name in tunable.tables if name in named], tunable, value, kept
                )
                tried.append(trial)
                if trial["verdict"] == "better" and (best is None or trial["gain_percent"] > best["gain_percent"]):
                    best = trial
            if best:
                kept[tunable.setting] = best["value"]
    bench.end = search_end
    return kept, tried


def try_value(bench, tables, tunable, value, kept):
    """Compares one value with the settings kept so far."""
    trial = {"setting": tunable.setting, "value": value, "gain_percent": 0.0, "verdict": "no time"}
    gain_of_all, sure = 0.0, False
    for table in tables:
        logs = compare(bench, table, kept, {**kept, tunable.setting: value}, screening=True)
        if logs is None:
            return trial
        gain, error, worse = evaluate(logs)
        if worse:
            trial.update(verdict="worse", gain_percent=round(100 * gain, 1), worse_sizes=worse)
            return trial
        sure = sure or (gain > MIN_GAIN and gain > MIN_STANDARD_ERRORS * error)
        gain_of_all += gain / len(tables)
    trial.update(gain_percent=round(100 * gain_of_all, 1), verdict="better" if sure else "noise")
    return trial


def verify(bench, tables, tunables, kept):
    """Measures every row of every table with defaults and with the kept settings, in alternating rounds. Rows that the
    settings do not affect are informational. A row that appears slower is measured again before it counts."""
    names = {name for tunable in tunables if tunable.setting in kept for name in tunable.tables}
    rows = []
    bench.seen.clear()  # only the rounds of the verification are printed
    for table in sorted(tables, key=lambda table: table.name not in names):
        logs, affected = compare(bench, table, {}, kept), table.name in names
        worse = {size for size, values in (logs or {}).items() if affected and is_worse(values)}
        if worse:
            again = compare(bench, table, {}, kept) or logs
            worse = {size for size in worse if is_worse(again[size])}
        if logs is None and affected:
            return [{"table": table.name, "size": 0, "change_percent": 0.0, "error_percent": 0.0, "worse": True,
                     "affected": True, "why": "no time left to verify: increase --seconds"}]  # fmt: skip
        for size, values in (logs or {}).items():
            rows.append({"table": table.name, "size": size, "affected": affected,
                         "worse": size in worse,
                         "before": round(figure(bench, table, {}, size), 3),
                         "after": round(figure(bench, table, kept, size), 3), "field": table.field,
                         "change_percent": round(100 * (math.exp(statistics.fmean(values)) - 1), 1),
                         "error_percent": round(100 * spread(values), 1)})  # fmt: skip
    return rows


def is_faster(rows):
    """Returns True if the verified rows are faster on average, by more than the statistical error."""
    rows = [row for row in rows if row["affected"]]
    if not rows:
        return False
    mean = statistics.fmean(row["change_percent"] for row in rows)
    error = math.sqrt(sum(row["error_percent"] ** 2 for row in rows)) / len(rows)
    return mean < 0 and -mean > MIN_STANDARD_ERRORS * error


def section(machine, kept, rows):
    best = min((row for row in rows if row["affected"]), key=lambda row: row["change_percent"])
    gain = f"{best['table']}, {best['size']} bytes takes {-best['change_percent']:.0f} percent less time"
    lines = [f"[{machine}]", f"# Written by weft tune: {gain}; no row takes more."]
    return "\n".join(lines + [f"{name} = {value}" for name, value in kept.items()]) + "\n"


def read_text(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def with_section(text, machine, new):
    """Returns a profile with this machine's section replaced."""
    kept, is_own = [], False
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            is_own = line.strip() == f"[{machine}]"
        if not is_own:
            kept.append(line)
    before = "".join(kept).rstrip("\n")
    return (before + "\n\n" if before else "") + new


def show(found, refused, arguments):
    output.table(
        ["setting", "value", "gain", "verdict"],
        [
            [trial["setting"], trial["value"], "{:.1f} %".format(trial["gain_percent"]), trial["verdict"]]
            for trial in found["tried"]
        ],
        numbers=("value", "gain"),
    )
    if found["rows"]:
        print()
        output.table(
            ["table", "size", "unit", "before", "after", "time, after to before", "error", ""],
            [[row["table"], row["size"], UNITS.get(row.get("field")), row.get("before"), row.get("after"),
              "{:+.1f} %".format(row["change_percent"]), "{:.1f} %".format(row["error_percent"]),
              "" if row["affected"] else "not affected by these settings"] for row in found["rows"]],
            numbers=("size", "before", "after", "time, after to before", "error"),
        )  # fmt: skip
    if found["defaults"]:
        print()
        output.table(
            ["table", "size", "unit", "before and after"],
            [[row["table"], row["size"], UNITS[field], row[field]]
             for row in found["defaults"] for field in UNITS if field in row],
            numbers=("size", "before and after"),
        )  # fmt: skip
    print()
    if found["profile"]:
        print("{}: written; programs on this machine read it. WEFT_PROFILE=off disables it.".format(found["profile"]))
    elif refused:
        first = refused[0]
        slower = "{table}, {size} bytes became slower with all settings together"
        print(f"Nothing is saved: {first['why'] if 'why' in first else slower.format(**first)}")
    elif found["kept"] and arguments.dry_run:
        print("Nothing is saved (--dry-run).")
    elif found["out_of_time"]:
        print("Nothing is saved: no value measured within the time limit gains more than noise.")
    else:
        print("Nothing is saved: no value gains more than noise; the defaults are best on this machine.")
    if found["out_of_time"]:
        print(f"The time limit prevented some measurements; retry with --seconds {2 * arguments.seconds:.0f}.",
              file=sys.stderr)  # fmt: skip
