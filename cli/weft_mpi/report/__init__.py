# SPDX-License-Identifier: BSD-3-Clause
# weft report: writes an HTML page from result files, with reference curves and a verdict per row.
import csv
import os
import re

from weft_mpi import charts, output, result
from weft_mpi.bench import compare
from weft_mpi.job import find
from weft_mpi.job import samples as job_samples
from weft_mpi.output import Failure, Refusal
from weft_mpi.report import job, page, reference, verdict

NO_GPU = ["This machine has no GPU: nothing is compared with the published figures, which are of machines with GPUs."]
JACOBI_FIELDS = ("variant", "nx", "ny", "niter", "nccheck", "ranks", "devices", "seconds", "one_device_seconds")


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "report",
        help="write a page of results: curves, references, a verdict per row",
        description=run.__doc__,
        epilog="example: weft bench latency -d cuda D D --json latency.json; weft report latency.json -o report.html",
    )
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="result of `weft bench --json`, `weft trace`, `weft top --json`, or `jacobi -csv` (.csv)",
    )
    find.add_arguments(parser)
    parser.add_argument(
        "--seconds", type=float, default=5, metavar="S", help="time in which a job of --job is watched (%(default)s)"
    )
    parser.add_argument("-o", "--output", default="weft-report.html", metavar="FILE", help="output page (%(default)s)")
    parser.add_argument("--png", metavar="FILE", help="also write the charts as one picture")
    parser.add_argument("--markdown", metavar="FILE", help="also write the verdicts as a Markdown table")
    parser.add_argument("--title", default="Weft: measured communication", help="heading of the page")
    parser.add_argument("--no-reference", action="store_true", help="omit published reference values")
    parser.add_argument("--json", action="store_true", help="print the verdicts as one JSON object")
    return parser


def run(arguments):
    """Writes a self-contained HTML page from results: latency and bandwidth curves with published references, matrices
    of GPUDirect and gdrcopy, Jacobi scaling, traces and samples of jobs, and a verdict per row. With --job or --hosts it
    watches a running job on all its hosts. The page works offline and in print."""
    live = arguments.job or arguments.hosts
    if not arguments.files and not live:
        raise Refusal("nothing to report: specify files of results, or a running job by --job")
    if not 0 < arguments.seconds <= 3600:
        raise Refusal("--seconds is a number of seconds, more than 0 and at most 3600")
    targets = [path for path in (arguments.output, arguments.png, arguments.markdown) if path]
    for path in targets:
        output.check_writable(path)
    charts.require()
    jacobi_runs = [row for path in arguments.files if path.endswith(".csv") for row in load_jacobi(path)]
    traces = [path for path in arguments.files if job.is_trace(path)]
    samples = [path for path in arguments.files if job.is_samples(path)]
    others = [path for path in arguments.files if not path.endswith(".csv") and path not in traces + samples]
    results = [result.load(path) for path in others]
    sections = [bench_section(found, not arguments.no_reference) for found in results]
    if jacobi_runs:
        sections.append(jacobi_section(jacobi_runs, not arguments.no_reference))
    sections += [section for path in traces for section in job.trace_sections(path)]
    sections += [job.samples_section(job.load_samples(path)) for path in samples]
    if live:
        sections.append(watched_section(arguments))
    output.write_file(arguments.output, page.render(arguments.title, sections, machines(results)))
    if arguments.png:
        output.write_file(arguments.png, charts.stacked([section["draw"] for section in sections]))
    if arguments.markdown:
        output.write_file(arguments.markdown, page.markdown(arguments.title, sections, machines(results)))
    if arguments.json:
        found = {section["title"]: [with_numbers(*row) for row in section["rows"]] for section in sections}
        print(output.json_text(found), end="")
    else:
        size = os.path.getsize(arguments.output)
        noun = "section" if len(sections) == 1 else "sections"
        print(f"{arguments.output}: {len(sections)} {noun}, {size // 1024} KiB")
    return 0


def watched_section(arguments):
    """Returns the section of a running job, watched on all its hosts."""
    found, name = find.one_job(arguments.job, arguments.hosts, "report")
    interval = min(1, arguments.seconds)
    watched = list(job_samples.of_job(found, name, interval, max(1, round(arguments.seconds / interval))))
    if not watched:
        raise Failure(f"the job {name} has ended before it was watched")
    section = job.samples_section(watched)
    places = sorted({rank["host"] for sample in watched for rank in sample["ranks"]})
    section["note"] += [f"Job {name} on {', '.join(places)}.", *watched[-1]["conclusions"]]
    section["note"] += [f"Host {one.host} was not reached: {one.problem}." for one in found.problems]
    return section


def with_numbers(what, figure, words, grade):
    """Returns a row as an object. `value`: the number of the figure, `ratio`: that of the verdict; null: none."""
    value, _, unit = figure.partition(" ")
    ratio = re.match(r"(\S+) (times better|times worse|percent)", words)
    factor = float(ratio.group(1)) if ratio else 1.0 if words.startswith("as good as") else None
    if ratio and ratio.group(2) != "times better":
        factor = 1 / factor if "worse" in ratio.group(2) else factor / 100
    try:
        number = float(value)
    except ValueError:
        number, unit = None, ""
    return {"name": what, "value": number, "unit": unit, "text": figure, "verdict": words, "ratio": factor,
            "grade": grade or None}  # fmt: skip


def machines(results):
    """Returns the distinct machine descriptions of the results."""
    found = []
    for one in results:
        machine = one.get("machine") or {}
        gpus = machine.get("gpus") or []
        words = [machine.get("processor"), f"{machine['cores']} cores" if machine.get("cores") else None]
        words += [f"{len(gpus)} x {gpus[0]}"] if gpus else []
        words += [f"driver {machine['driver']}"] if machine.get("driver") else []
        words += [f"measured {machine['date'][:10]}"] if machine.get("date") else []
        words += [load_words(machine)] if result.is_number(machine.get("load")) else []
        line = ", ".join(filter(None, words))
        if line and line not in found:
            found.append(line)
    return found


def load_words(machine):
    busy = machine["load"] >= (machine.get("cores") or 1)
    return f"load {machine['load']:.1f}" + (" (busy: these are not the figures of an idle machine)" if busy else "")


def bench_section(found, with_reference):
    """Returns {"title", "note", "draw": function of axes, "headings", "rows"} of one result."""
    gpus = (found.get("machine") or {}).get("gpus")
    references = reference.curves(found["program"], gpus[0]) if with_reference and gpus else []
    kinds = result.kinds(found)
    shown = [curve for curve in references if curve.memory in kinds and curve.ranks in (0, found.get("ranks"))][:5]
    field, runs = result.field(found), result.runs(found)
    own = next((run for run in runs if run.get("rows")), {"rows": []})
    rows = []
    for row in own["rows"]:
        others = {run["name"]: other[field] for run in runs if run is not own for other in run.get("rows") or []
                  if (other["size"], result.kinds_of(other)) == (row["size"], result.kinds_of(row))}  # fmt: skip
        overlap = compare.is_open(found, (result.kinds_of(row), row["size"]))
        rows.append(verdict.of_row(found, row, references, {} if found.get("switches") else others, overlap))
    title = f"{found['program']}, {found.get('ranks', '?')} ranks"
    series = {**result.curves(found), **{curve.label: curve.points for curve in shown}}
    labels = ("message size (bytes)", result.FIELDS[field])
    return {
        "title": title + (f": matrix of {', '.join(found['switches'])}" if found.get("switches") else ""),
        "note": notes(runs, shown) + (NO_GPU if with_reference and not gpus else []),
        "draw": lambda axes: charts.draw(axes, title, labels, series, own=len(result.curves(found))),
        "headings": ("message", "figure", "verdict", "grade"),
        "rows": [list(row) for row in rows],
        "names": {curve.label for curve in references} | {run["name"] for run in runs if run.get("name")},
    }


def notes(runs, shown):
    lines = [f"{run['name']}: {run['error']}" for run in runs if run.get("error")]
    libraries = sorted({run["library"].split(",")[0] for run in runs if run.get("library")})
    lines += [f"Measured with {'; '.join(libraries)}."] if libraries else []
    if shown:
        lines.append("Thin curves are references from the named systems: other machines, networks and libraries.")
    return lines


def load_jacobi(path):
    """Returns the runs in a file of `jacobi -csv` lines. Raises Refusal on other content."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            lines = [line for line in csv.reader(file, skipinitialspace=True) if line and line[0] != "variant"]
        return [{**dict(zip(JACOBI_FIELDS, line)), "ranks": int(line[5]), "seconds": float(line[7])} for line in lines]
    except OSError as error:
        raise Refusal(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, IndexError):
        raise Refusal(f"{path} is not an output of `jacobi -csv`") from None


def jacobi_section(jacobi_runs, with_reference):
    groups = {}
    for jacobi_run in jacobi_runs:
        groups.setdefault((jacobi_run["variant"], jacobi_run["nx"], jacobi_run["ny"]), []).append(jacobi_run)
    series, rows = {}, []
    for (variant, nx, ny), group in groups.items():
        for jacobi_run in group:
            alone = float(jacobi_run.get("one_device_seconds") or 0)
            if alone <= 0:
                continue
            efficiency = 100 * alone / (jacobi_run["ranks"] * jacobi_run["seconds"])
            series.setdefault(f"{variant}, {nx} x {ny}", []).append((jacobi_run["ranks"], efficiency))
            grade = verdict.grade(efficiency / 100)
            label = f"{variant}, {nx} x {ny}, {jacobi_run['ranks']} ranks"
            seconds = f"{jacobi_run['seconds']:.3f} s"
            rows.append([label, seconds, f"{efficiency:.1f} percent of linear scaling", grade])
    own = len(series)
    if with_reference:
        for row in reference.jacobi():
            if row["efficiency_percent"]:
                label = f"{row['system']}, {row['nx']} x {row['ny']}, {row['iterations']} iterations"
                series.setdefault(label, []).append((int(row["gpus"]), float(row["efficiency_percent"])))
    labels = ("ranks", "parallel efficiency (percent)")
    return {
        "title": "Jacobi scaling",
        "note": ["Parallel efficiency: time on one device, divided by the time on all devices and their number."],
        "draw": lambda axes: charts.draw(axes, "Jacobi scaling", labels, series, own=own, logarithmic=False),
        "headings": ("solve", "time", "verdict", "grade"),
        "rows": rows,
    }
