# SPDX-License-Identifier: BSD-3-Clause
# weft tune: tries other values of the settings that decide between ways, keeps what is better beyond doubt, and writes
# a profile that the library reads on this machine.
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections import namedtuple

from weft import benchmarks, children, library, output, prefix
from weft.machine import cuda
from weft.output import Refusal

# A program run: its sizes, and the key of the figure.
Table = namedtuple("Table", "name program ranks options sizes field")
# A setting and the values to try; `tables`: the names of those it can change.
Knob = namedtuple("Knob", "setting values tables")

HOST_TABLES = (
    Table("latency, host", "latency", 2, ("-i", "1000", "-x", "100"), "8,1K,4K,8K,16K,32K,64K,256K,1M", "latency_us"),
    Table("bandwidth, host", "bw", 2, ("-i", "20", "-x", "4"), "1K,16K,64K,1M", "bandwidth_mb_s"),
    Table("all-reduce, host", "allreduce", 0, ("-i", "300", "-x", "50"), "8,1K,16K,64K,256K,1M", "latency_us"),
)
GPU_TABLES = (
    Table("latency, GPU", "latency", 2, ("-d", "cuda", "-i", "300", "-x", "50"), "8,1K,8K,64K,256K,1M,4M",
          "latency_us"),
    Table("bandwidth, GPU", "bw", 2, ("-d", "cuda", "-i", "20", "-x", "4"), "8K,64K,256K,1M,4M", "bandwidth_mb_s"),
    Table("all-reduce, GPU", "allreduce", 0, ("-d", "cuda", "-i", "200", "-x", "50"), "8,4K,32K,256K,1M,16M",
          "latency_us"),
)  # fmt: skip
# Values that are those in force are left out, whatever the defaults are. Not of settings that the library adapts as
# long as nobody sets them: there the default's number is a value like the others.
ADAPTED = ("p2p.eager_max",)
HOST_KNOBS = (
    Knob("p2p.eager_max", ("2048", "4096", "8192", "16384"), ("latency, host", "bandwidth, host")),
    Knob("coll.shared_max", ("16384", "65536", "262144"), ("all-reduce, host",)),
)
GPU_KNOBS = (
    Knob("gpu.copier_max", ("65536", "131072", "262144", "524288"), ("latency, GPU",)),
    Knob("gpu.list_max", ("262144", "524288", "1048576"), ("bandwidth, GPU",)),
    Knob("coll.device_lines_min", ("32768", "65536", "262144", "524288"), ("all-reduce, GPU",)),
    Knob("coll.device_bell_max", ("16384", "65536", "131072", "262144"), ("all-reduce, GPU",)),
)
LEAST_GAIN = 0.03  # of the mean over a table's rows; less is not worth a setting
UNITS = {"latency_us": "us", "bandwidth_mb_s": "MB/s"}
ROUNDS = 5  # of each comparison
SECONDS_A_RUN = 60
DEVIATIONS = 2.0  # standard errors that a gain must stand above noise


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "tune",
        help="settings that suit this machine, by measurement",
        description=run.__doc__,
        epilog="example: weft tune --seconds 300",
    )
    parser.add_argument("--seconds", type=float, default=300, help="most time to spend (%(default)s)")
    parser.add_argument("--only", choices=("host", "gpu"), help="settings of this memory only")
    parser.add_argument("-o", "--output", metavar="FILE", help="the profile (weft/profile in ~/.config)")
    parser.add_argument("--dry-run", action="store_true", help="measure and show, write nothing")
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    return parser


def run(arguments):
    """Measures messages and collectives with other values of the settings that choose between ways. A value is kept
    when it gains beyond the noise of alternating rounds and costs no row; at the end all are measured together, before
    and after, and the profile is written only if that holds."""
    path = arguments.output or default_path()
    if arguments.seconds < 10:
        raise Refusal("--seconds %g: at least 10 are needed to tell a gain from noise" % arguments.seconds)
    if not arguments.dry_run:
        prepare(path)
    machine = library.text_of(library.load(), "MPIX_Machine_name")
    bench = Bench(time.monotonic() + arguments.seconds)
    tables, knobs = chosen(arguments.only)
    kept, tried = search(bench, tables, knobs, arguments.seconds)
    before_after = verify(bench, tables, knobs, kept) if kept else []
    unchanged = [] if kept else defaults(bench, tables)
    refused = [row for row in before_after if row["worse"]]
    saved = bool(kept) and not refused and not arguments.dry_run and gains(before_after)
    if saved:
        output.write_file(path, with_section(read_text(path), machine, section(machine, kept, before_after)))
    found = {
        "machine": machine, "tried": tried, "kept": kept, "rows": before_after, "defaults": unchanged,
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
        raise Refusal("%s cannot be written (%s): name another file with -o" % (path, error.strerror)) from None
    output.check_writable(path)


def chosen(only):
    """The tables and knobs of what this machine has."""
    gpus = cuda.visible_count()
    if only == "gpu" and gpus < 2:
        raise Refusal("--only gpu: %d usable GPUs here, at least 2 are needed (see `weft doctor`)" % gpus)
    tables, knobs = (), ()
    if only != "gpu":
        tables, knobs = tables + HOST_TABLES, knobs + HOST_KNOBS
    if only != "host" and gpus >= 2:
        tables, knobs = tables + GPU_TABLES, knobs + GPU_KNOBS
    now = {}  # a profile is switched off while tuning
    for setting in library.settings():
        name = setting["variable"]
        if setting["origin"] not in ("default", "profile"):
            now[name] = setting["value"]
        else:
            now[name] = None if name in map(variable, ADAPTED) else setting["default"]
    knobs = [knob for knob in knobs if variable(knob.setting) in now]
    return tables, tuple(
        knob._replace(values=tuple(value for value in knob.values if value != now[variable(knob.setting)]))
        for knob in knobs
    )


def variable(setting):
    return "WEFT_" + setting.replace(".", "_").upper()


class Bench:
    """Runs tables until the time is over. `seen`: {(table, settings): {size: [costs]}}."""

    def __init__(self, end):
        self.end = end
        self.out_of_time = False
        self.took, self.seen = {}, {}

    def enough_for(self, table, runs):
        """Whether there is time for so many runs of a table; remembers when there was not."""
        good = time.monotonic() + runs * self.took.get(table.name, 1) < self.end
        self.out_of_time = self.out_of_time or not good
        return good

    def measure(self, table, values):
        """{size: cost}, lower is better, with these settings and no other profile."""
        ranks = table.ranks or (cuda.visible_count() if "cuda" in table.options else len(os.sched_getaffinity(0)))
        start = time.monotonic()
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            words = [prefix.mpiexec(), "-n", str(max(2, ranks)), *benchmarks.command(table.program)]
            words += ["-m", table.sizes, *table.options, "--json", file.name]
            environment = children.clean_environment(
                WEFT_PROFILE="off", **{variable(setting): value for setting, value in values.items()}
            )
            outcome = children.run(words, SECONDS_A_RUN, environment)
            if not outcome.good:
                raise output.Failure("%s with %s: %s" % (table.name, values or "defaults", outcome.reason()))
            with open(file.name, encoding="utf-8") as result:
                rows = json.load(result)["rows"]
        self.took[table.name] = time.monotonic() - start
        higher = table.field == "bandwidth_mb_s"
        return {row["size"]: 1e6 / row[table.field] if higher else row[table.field] for row in rows}


def figure(bench, table, values, size):
    """The median of what was measured with these settings, in the unit of the table's field."""
    cost = statistics.median(bench.seen[key_of(table, values)][size])
    return 1e6 / cost if table.field == "bandwidth_mb_s" else cost


def key_of(table, values):
    return table.name, tuple(sorted(values.items()))


def defaults(bench, tables):
    """Every row that was measured without other settings, as figures."""
    return [{"table": table.name, "size": size, table.field: round(figure(bench, table, {}, size), 3)}
            for table in tables for size in bench.seen.get(key_of(table, {}), ())]  # fmt: skip


def compare(bench, table, old, new, rounds=ROUNDS):
    """{size: [log of new / old of each round]}, in alternating rounds; None without time for two of them."""
    logs = {}
    for number in range(rounds):
        if not bench.enough_for(table, 2):
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
    """The standard error of a mean."""
    return statistics.stdev(values) / math.sqrt(len(values))


def judge(logs):
    """(mean gain over the rows, its standard error, rows that are worse beyond noise)."""
    rounds = [statistics.fmean(column) for column in zip(*logs.values())]
    worse = [size for size, values in logs.items() if is_worse(values)]
    return -statistics.fmean(rounds), spread(rounds), worse


def is_worse(values):
    return statistics.median(values) > LEAST_GAIN and statistics.fmean(values) > DEVIATIONS * spread(values)


def search(bench, tables, knobs, seconds):
    """({setting: value kept}, what was tried). A value must gain in one table and cost in none that it can change."""
    named = {table.name: table for table in tables}
    kept, tried = {}, []
    total = sum(len(knob.values) for knob in knobs)
    search_end = bench.end
    bench.end -= seconds * 0.35  # for the verification
    with output.progress(total, "tuning") as step:
        for knob in knobs:
            best = None
            for value in knob.values:
                step("%s = %s" % (knob.setting, value))
                trial = attempt(bench, [named[name] for name in knob.tables if name in named], knob, value, kept)
                tried.append(trial)
                if trial["verdict"] == "better" and (best is None or trial["gain_percent"] > best["gain_percent"]):
                    best = trial
            if best:
                kept[knob.setting] = best["value"]
    bench.end = search_end
    return kept, tried


def attempt(bench, tables, knob, value, kept):
    """One value against what is kept so far."""
    trial = {"setting": knob.setting, "value": value, "gain_percent": 0.0, "verdict": "no time"}
    gain_of_all, sure = 0.0, False
    for table in tables:
        logs = compare(bench, table, kept, {**kept, knob.setting: value})
        if logs is None:
            return trial
        gain, error, worse = judge(logs)
        if worse:
            trial.update(verdict="worse", gain_percent=round(100 * gain, 1), worse_sizes=worse)
            return trial
        sure = sure or (gain > LEAST_GAIN and gain > DEVIATIONS * error)
        gain_of_all += gain / len(tables)
    trial.update(gain_percent=round(100 * gain_of_all, 1), verdict="better" if sure else "noise")
    return trial


def verify(bench, tables, knobs, kept):
    """Every row of every table, before and after, in alternating rounds. Rows that the kept settings cannot change are
    shown and decide nothing; one that seems worse is measured once more before it counts."""
    names = {name for knob in knobs if knob.setting in kept for name in knob.tables}
    rows = []
    bench.seen.clear()  # what is shown is of these rounds
    for table in sorted(tables, key=lambda table: table.name not in names):
        logs, affected = compare(bench, table, {}, kept), table.name in names
        worse = {size for size, values in (logs or {}).items() if affected and is_worse(values)}
        if worse:
            again = compare(bench, table, {}, kept) or logs
            worse = {size for size in worse if is_worse(again[size])}
        if logs is None and affected:
            return [{"table": table.name, "size": 0, "change_percent": 0.0, "error_percent": 0.0, "worse": True,
                     "affected": True, "why": "no time left to verify: give more --seconds"}]  # fmt: skip
        for size, values in (logs or {}).items():
            rows.append({"table": table.name, "size": size, "affected": affected,
                         "worse": size in worse,
                         "before": round(figure(bench, table, {}, size), 3),
                         "after": round(figure(bench, table, kept, size), 3), "field": table.field,
                         "change_percent": round(100 * (math.exp(statistics.fmean(values)) - 1), 1),
                         "error_percent": round(100 * spread(values), 1)})  # fmt: skip
    return rows


def gains(rows):
    """Whether the verified rows are quicker on the whole, beyond their errors."""
    rows = [row for row in rows if row["affected"]]
    if not rows:
        return False
    mean = statistics.fmean(row["change_percent"] for row in rows)
    error = math.sqrt(sum(row["error_percent"] ** 2 for row in rows)) / len(rows)
    return mean < 0 and -mean > DEVIATIONS * error


def section(machine, kept, rows):
    best = min((row for row in rows if row["affected"]), key=lambda row: row["change_percent"])
    lines = ["[%s]" % machine, "# Written by weft tune: %s, %d bytes takes %.0f percent less time; no row takes more."
             % (best["table"], best["size"], -best["change_percent"])]  # fmt: skip
    return "\n".join(lines + ["%s = %s" % item for item in kept.items()]) + "\n"


def read_text(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def with_section(text, machine, new):
    """A profile's text with this machine's section replaced."""
    kept, ours = [], False
    for line in text.splitlines(keepends=True):
        if line.startswith("["):
            ours = line.strip() == "[%s]" % machine
        if not ours:
            kept.append(line)
    before = "".join(kept).rstrip("\n")
    return (before + "\n\n" if before else "") + new


def show(found, refused, arguments):
    output.table(
        ["setting", "value", "gain", "verdict"],
        [
            [trial["setting"], trial["value"], "%.1f %%" % trial["gain_percent"], trial["verdict"]]
            for trial in found["tried"]
        ],
        numbers=("value", "gain"),
    )
    if found["rows"]:
        print()
        output.table(
            ["table", "size", "unit", "before", "after", "time, after to before", "error", ""],
            [[row["table"], row["size"], UNITS.get(row.get("field")), row.get("before"), row.get("after"),
              "%+.1f %%" % row["change_percent"], "%.1f %%" % row["error_percent"],
              "" if row["affected"] else "not changed by these settings"] for row in found["rows"]],
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
        print("%s: written; programs on this machine read it. WEFT_PROFILE=off leaves it out." % found["profile"])
    elif refused:
        print("Nothing is saved: %s" % refused[0].get("why", "%s, %s bytes became slower together" % (
            refused[0]["table"], refused[0]["size"])))  # fmt: skip
    elif found["kept"] and arguments.dry_run:
        print("Nothing is saved (--dry-run).")
    elif found["out_of_time"]:
        print("Nothing is saved: no value that there was time to try gains more than noise.")
    else:
        print("Nothing is saved: no other value gains more than noise; the defaults suit this machine.")
    if found["out_of_time"]:
        print("The time was not enough for everything: --seconds %d would try more." % (2 * arguments.seconds),
              file=sys.stderr)  # fmt: skip
