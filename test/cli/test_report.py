# SPDX-License-Identifier: BSD-3-Clause
# weft report: verdicts, references, the page, and the page in a browser, if installed.
import html.parser
import json
import os
import shutil
import subprocess

import pytest
import screenshots
from weft_mpi.report import reference, verdict

SIZES = [1 << shift for shift in range(23)]
NVLINK = {"processor": "CPU", "cores": 32, "gpus": ["NVIDIA H200"] * 2, "nvlink_gb_s": 450}


def result_file(path, program, field, figure, **more):
    rows = [{"size": size, "kinds": "D D", field: figure(size)} for size in SIZES]
    found = {"format": 1, "program": program, "ranks": 2, "library": "Weft", "rows": rows, "machine": NVLINK, **more}
    path.write_text(json.dumps(found))
    return str(path)


@pytest.fixture
def files(tmp_path):
    matrix = [{"name": name, "library": "Weft", "error": None, "rows": [{"size": 8, "kinds": "D D", "latency_us": us}]}
              for name, us in (("all on", 4.0), ("without gdrcopy", 6.0))]  # fmt: skip
    crashed = {"name": "Open MPI", "library": "", "error": "it crashed (SIGSEGV)", "rows": []}
    switches = {"format": 1, "program": "latency", "ranks": 2, "switches": ["gdrcopy"], "runs": [*matrix, crashed]}
    (tmp_path / "m.json").write_text(json.dumps(switches))
    (tmp_path / "jacobi.csv").write_text(
        "variant, nx, ny, niter, nccheck, ranks, devices a rank, seconds, seconds on one device\n"
        "overlap, 16384, 32768, 1000, 1, 2, 1, 2.05, 4.02\noverlap, 16384, 32768, 1000, 1, 4, 1, 1.03, 4.02\n"
        "overlap, 64, 64, 10, 1, 1, 1, 1.03, 0\n"
    )
    return [
        result_file(tmp_path / "a.json", "latency", "latency_us", lambda size: 4.4 + size / 388e3),
        result_file(tmp_path / "b.json", "bw", "bandwidth_mb_s", lambda size: min(388e3, size * 50.0)),
        str(tmp_path / "m.json"),
        str(tmp_path / "jacobi.csv"),
    ]


class Strict(html.parser.HTMLParser):
    """Counts elements and checks that they are properly nested."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_texts_of_files_are_no_html(weft, tmp_path):
    pytest.importorskip("matplotlib")
    hostile = "<script>&<b>"
    machine = {**NVLINK, "processor": hostile, "gpus": [hostile] * 2}
    names = {"library": hostile, "machine": machine}
    rows = [{"size": 8, "kinds": hostile, "latency_us": 4.0}]
    runs = [{"name": hostile, "library": hostile, "error": None, "rows": rows}]
    matrix = tmp_path / "matrix.json"
    matrix.write_text(json.dumps({"format": 1, "program": "latency", "ranks": 2, "runs": runs * 2, **names}))
    curve = result_file(tmp_path / "curve.json", "latency", "latency_us", lambda size: 4.4 + size / 388e3, **names)
    page = tmp_path / "page.html"
    assert weft("report", curve, str(matrix), "-o", str(page)).status == 0
    parser, text = Strict(), page.read_text()
    parser.feed(text)
    assert parser.open == [] and not {"script", "b"} & set(parser.seen)
    assert text.count("&lt;script&gt;") >= 2, text


def test_page(weft, files, tmp_path):
    pytest.importorskip("matplotlib")
    html_file, picture, text = (str(tmp_path / name) for name in ("r.html", "r.png", "r.md"))
    done = weft("report", *files, "-o", html_file, "--png", picture, "--markdown", text)
    assert done.status == 0, done.err
    assert "4 sections" in done.out
    with open(html_file, encoding="utf-8") as file:
        content = file.read()
    assert os.path.getsize(html_file) < 3 << 20
    parser = Strict()
    parser.feed(content)
    assert parser.open == [] and parser.seen.count("svg") >= 4 and "script" not in parser.seen
    assert "http://" not in content.replace("http://www.w3.org/", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    assert "86 percent of NVLink (450 GB/s)" in content and "juliet" in content and "DGX A100" in content
    assert "it crashed (SIGSEGV)" in content and "97.6 percent of linear scaling" in content
    identifiers = [part.split('"')[0] for part in content.split(' id="')[1:]]
    assert len(identifiers) == len(set(identifiers))
    with open(text, encoding="utf-8") as file:
        assert "| 4 MiB, device to device |" in file.read()
    with open(picture, "rb") as file:
        assert file.read(4) == b"\x89PNG"
    assert "good" in weft("report", *files, "-o", html_file, "--json", "--no-reference").out


def test_a_sentence_of_all_rows_is_said_once(weft, tmp_path):
    pytest.importorskip("matplotlib")
    rows = [{"size": size, "kinds": "H H", "latency_us": 1.0} for size in SIZES]
    found = {"format": 1, "program": "latency", "ranks": 2, "library": "Weft", "rows": rows, "machine": {}}
    (tmp_path / "a.json").write_text(json.dumps(found))
    page = tmp_path / "r.html"
    assert weft("report", str(tmp_path / "a.json"), "-o", str(page), "--no-reference").status == 0
    assert page.read_text().count("to compare with") == 1
    assert '<th scope="col">verdict</th>' not in page.read_text()


def comparison(first, second, **more):
    """A comparison of two libraries with the spreads of their rounds."""
    runs = [
        {"name": name, "library": name, "error": None,
         "rows": [{"size": 8, "kinds": "H H", "latency_us": median, "spread": spread}]}
        for name, (median, *spread) in (("Weft", first), ("Open MPI", second))
    ]  # fmt: skip
    return {"format": 1, "program": "latency", "ranks": 2, "switches": [], "runs": runs, **more}


def rows_of(weft, tmp_path, found):
    """Returns the rows of `weft report --json`, and the page."""
    (tmp_path / "r.json").write_text(json.dumps(found))
    page = tmp_path / "r.html"
    done = weft("report", str(tmp_path / "r.json"), "-o", str(page), "--json")
    assert done.status == 0, done.err
    (rows,) = json.loads(done.out).values()
    return rows, page.read_text()


def test_overlapping_rounds_are_no_verdict(weft, tmp_path):
    pytest.importorskip("matplotlib")
    (row,), _ = rows_of(weft, tmp_path, comparison((1.0, 0.8, 1.3), (1.1, 0.9, 1.4)))
    assert (row["verdict"], row["grade"], row["ratio"]) == (
        "no verdict: the rounds of the libraries overlap",
        None,
        None,
    )
    (row,), _ = rows_of(weft, tmp_path, comparison((1.0, 0.9, 1.1), (2.0, 1.9, 2.1)))
    assert (row["verdict"], row["grade"]) == ("2 times better than Open MPI", "good")


def test_numbers_and_load(weft, tmp_path):
    pytest.importorskip("matplotlib")
    machine = {"processor": "Xeon", "cores": 2, "load": 3.25, "gpus": []}
    (row,), page = rows_of(weft, tmp_path, comparison((2.0, 1.9, 2.1), (1.0, 0.9, 1.1), machine=machine))
    assert (row["value"], row["unit"], row["ratio"], row["grade"]) == (2.0, "us", 0.5, "poor")
    assert "Xeon, 2 cores, load 3.2 (busy: " in page or "Xeon, 2 cores, load 3.3 (busy: " in page
    _, page = rows_of(weft, tmp_path, comparison((2.0, 1.9, 2.1), (1.0, 0.9, 1.1), machine={**machine, "load": 0.5}))
    assert "load 0.5<" in page and "busy" not in page


@pytest.mark.parametrize("program, field", [("bw", "bandwidth_mb_s"), ("alltoall", "latency_us")])
def test_a_machine_without_gpus_is_compared_with_none(program, field, weft, tmp_path):
    pytest.importorskip("matplotlib")
    rows = [{"size": size, "kinds": "H H", field: 100.0} for size in SIZES]
    machine = {"processor": "Xeon", "cores": 2, "gpus": []}
    found = {"format": 1, "program": program, "ranks": 2, "library": "Weft", "rows": rows, "machine": machine}
    rows, page = rows_of(weft, tmp_path, found)
    assert "GH200" not in page and "has no GPU" in page
    assert all(row["ratio"] is None and row["grade"] is None for row in rows)


def test_labels_of_axes_do_not_overlap():
    pytest.importorskip("matplotlib")
    from weft_mpi import charts

    def overlaps(drawing):
        figure = charts.figure_of(drawing)
        figure.canvas.draw()
        (axes,) = figure.axes
        for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
            boxes = [label.get_window_extent() for label in labels if label.get_text() and label.get_visible()]
            for one, other in zip(boxes, boxes[1:]):
                if one.overlaps(other):
                    return True
        boxes = [text.get_window_extent() for text in axes.get_legend().get_texts()]
        return any(one.overlaps(other) for at, one in enumerate(boxes) for other in boxes[at + 1 :])

    for sizes in (SIZES, [1, 1000, 1024, 1100, 1 << 20]):
        series = {"a": [(size, 1.0 + size) for size in sizes]}
        assert not overlaps(lambda axes, series=series: charts.draw(axes, "t", ("x", "y"), series))
    many = list(range(128))
    calls = {f"MPI_Neighbor_alltoallw_{number}": [1.0] * 128 for number in range(8)}
    assert not overlaps(lambda axes: charts.bars(axes, "t", ("x", "y"), many, calls))
    names = [f"rank {rank} on host {rank // 8}: steps" for rank in many]
    bars = {name: [(row, row, 1.0) for row in many] for name in calls}
    assert not overlaps(lambda axes: charts.timeline(axes, "t", "ms", names, bars))


def test_dark_mode(weft, files, tmp_path):
    """A browser that prefers dark pages shows a dark page: nearly no pixel of the picture is bright."""
    pytest.importorskip("matplotlib")
    page = str(tmp_path / "r.html")
    assert weft("report", files[0], "-o", page).status == 0
    with open(page, encoding="utf-8") as file:
        assert "prefers-color-scheme: dark" in file.read()
    image = pytest.importorskip("PIL.Image")
    if not screenshots.browser():
        pytest.skip("needs chromium")
    shot = str(tmp_path / "dark.png")
    words = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/dark", "--window-size=900,1200",
             "--force-dark-mode", "--blink-settings=preferredColorScheme=0", "--screenshot=" + shot]  # fmt: skip
    subprocess.run([screenshots.browser(), *words, "file://" + page], capture_output=True, timeout=100, check=True)
    counts = image.open(shot).convert("L").histogram()
    assert sum(counts[200:]) < 0.1 * sum(counts)


def test_a_long_name_is_said_once(weft, tmp_path):
    pytest.importorskip("matplotlib")
    rows = [{"size": size, "kinds": "D D", "latency_us": 6.0} for size in (16, 1024, 65536)]
    found = {"program": "latency", "ranks": 2, "rows": rows, "machine": {"gpus": ["NVIDIA H200"]}}
    (tmp_path / "a.json").write_text(json.dumps(found))
    page = tmp_path / "r.html"
    assert weft("report", str(tmp_path / "a.json"), "-o", str(page)).status == 0
    table = page.read_text().rpartition("<table>")[2]
    assert "[a]</td>" in table and "with-cuda" not in table
    assert '<p class="note">[a] Open MPI' in page.read_text()


def test_in_a_browser(weft, files, tmp_path):
    pytest.importorskip("matplotlib")
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if not browser:
        pytest.skip("needs chromium")
    page, shot = str(tmp_path / "r.html"), str(tmp_path / "shot.png")
    assert weft("report", *files, "-o", page).status == 0
    words = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/profile",
        "--enable-logging=stderr",
        "--v=0",
        "--screenshot=" + shot,
        "--window-size=1000,3000",
    ]
    words.append("file://" + page)
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert os.path.getsize(shot) > 20000, done.stderr
    assert "CONSOLE" not in done.stderr


@pytest.mark.parametrize(
    "width",
    [screenshots.WIDTHS[0], *(pytest.param(width, marks=pytest.mark.nightly) for width in screenshots.WIDTHS[1:])],
)
def test_fits_the_screen(width, weft, files, tmp_path):
    pytest.importorskip("matplotlib")
    if not screenshots.browser():
        pytest.skip("needs chromium")
    page = str(tmp_path / "r.html")
    assert weft("report", *files, "-o", page).status == 0
    assert screenshots.measure(page, width)["wide"] == []


def test_refusals(weft, files, tmp_path, monkeypatch):
    (tmp_path / "old.json").write_text('{"format": 0, "program": "x", "rows": []}')
    (tmp_path / "bad.csv").write_text("overlap,1,2\n")
    page = str(tmp_path / "r.html")
    for words, reason in (
        (("/not/there.json",), "cannot be read"),
        (("/not/there.csv",), "cannot be read"),
        ((str(tmp_path / "old.json"),), "format 0"),
        ((str(tmp_path / "bad.csv"),), "jacobi -csv"),
    ):
        refused = weft("report", *words, "-o", page)
        assert refused.status == 2 and reason in refused.err and len(refused.err.splitlines()) == 1
    assert weft("report", files[0], "-o", "/not/there/r.html").status == 2
    assert weft("report").status == 2
    assert not os.path.exists(page)


ROW = {"size": 8, "kinds": "D D", "latency_us": 4.0}


@pytest.mark.parametrize("text", [
    "[" * 100000 + "]" * 100000, '{"program": "x", "rows": ' + '{"a":' * 100000 + "1" + "}" * 100001,
    '{"program": "x", "rows": ' + "1" * 5000 + "}",
    *(json.dumps({"program": "latency", **more}) for more in (
        {"rows": "abc"}, {"rows": ["abc"]}, {"rows": [[]]}, {"rows": {"size": 8}}, {"rows": 5}, {"rows": [{}]},
        {"rows": [{**ROW, "size": "8"}]}, {"rows": [{**ROW, "size": -1}]}, {"rows": [{**ROW, "size": True}]},
        {"rows": [{**ROW, "size": 10**400}]}, {"rows": [{**ROW, "latency_us": "fast"}]},
        {"rows": [{**ROW, "latency_us": None}]}, {"rows": [{**ROW, "latency_us": float("nan")}]},
        {"rows": [{**ROW, "latency_us": float("inf")}]}, {"rows": [{**ROW, "kinds": 7}]}, {"rows": [ROW, {"size": 8}]},
        {"rows": [{**ROW, "type": []}]}, {"program": ["x"], "rows": [ROW]}, {"rows": [ROW], "ranks": "two"},
        {"rows": [ROW], "machine": "fast"}, {"rows": [ROW], "machine": {"gpus": "H200"}},
        {"rows": [ROW], "machine": {"gpus": [7]}}, {"rows": [ROW], "machine": {"date": 7}},
        {"rows": [ROW], "machine": {"nvlink_gb_s": "450"}}, {"rows": [ROW], "switches": "gdrcopy"},
        {"runs": "abc"}, {"runs": [5]}, {"runs": [{"rows": [ROW]}]}, {"runs": [{"name": 7, "rows": [ROW]}]},
        {"runs": [{"name": "x", "error": 5, "rows": []}]}, {"runs": [{"name": "x", "rows": "abc"}]},
    )),
])  # fmt: skip
def test_hostile_results(text, weft, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "r.json").write_text(text)
    refused = weft("report", str(tmp_path / "r.json"), "-o", str(tmp_path / "r.html"))
    assert refused.status == 2 and len(refused.err.splitlines()) == 1 and len(refused.err) < 1000
    assert "is not a result" in refused.err


@pytest.mark.parametrize("row", [{**ROW, "latency_us": 0}, {**ROW, "size": 0}, {"size": 8, "latency_us": 10**18}])
def test_unusual_results(row, weft, tmp_path):
    pytest.importorskip("matplotlib")
    (tmp_path / "r.json").write_text(json.dumps({"program": "latency", "rows": [row, ROW]}))
    assert weft("report", str(tmp_path / "r.json"), "-o", str(tmp_path / "r.html")).status == 0


def row(size=8, kinds="D D", **figure):
    return {"size": size, "kinds": kinds, **figure}


def test_verdicts():
    curve = reference.Curve("elsewhere", "D D", 0, "", False, [(8, 8.0)])
    found = {"program": "latency", "ranks": 2, "rows": [row(latency_us=4.0)], "machine": NVLINK}

    def judged(**figure):
        return verdict.of_row(found, row(**figure), [curve], {})[2:]

    assert judged(latency_us=4.0) == ("2 times better than elsewhere", verdict.GOOD)
    assert judged(latency_us=16.0) == ("2 times worse than elsewhere", verdict.POOR)
    assert judged(latency_us=10.0)[1] == verdict.FAIR
    assert "no reference" in judged(latency_us=4.0, size=9)[0]
    assert judged(latency_us=4.0, kinds="H H")[1] == ""
    assert judged(latency_us=8.1) == ("as good as elsewhere", verdict.GOOD)
    assert judged(latency_us=(16 << 20) / 45e3, size=16 << 20) == ("10 percent of NVLink (450 GB/s)", verdict.POOR)
    assert verdict.of_row(found, row(latency_us=4.0), [], {"Open MPI": 5.0})[2] == "1.2 times better than Open MPI"
    both = {"program": "bibw", "ranks": 2, "rows": [row(bandwidth_mb_s=1.0)], "machine": NVLINK}
    assert verdict.of_row(both, row(size=1 << 22, bandwidth_mb_s=740e3), [], {})[2].startswith("82 percent")
    allreduce = {**both, "program": "allreduce"}
    assert verdict.by_link(allreduce, row(size=1 << 22, bandwidth_mb_s=1.0), "bandwidth_mb_s", None) is None
    assert verdict.size_words(3 << 30) == "3 GiB" and verdict.kind_words("H M") == "host to managed"


def test_which_reference_is_compared_with():
    far = reference.Curve("far", "D D", 0, "", True, [(8, 1.0)])
    near = reference.Curve("near", "D D", 0, "", False, [(8, 2.0)])
    same = reference.Curve("same", "D D", 2, "H200", False, [(8, 9.0)])
    found = {"program": "latency", "ranks": 2, "rows": [row(latency_us=4.0)], "machine": NVLINK}

    def judged(*curves):
        return verdict.of_row(found, row(latency_us=4.0), curves, {})[2:]

    assert judged(far, near, same) == ("2.2 times better than same", verdict.GOOD)
    assert judged(far, near) == ("2 times worse than near", verdict.POOR)
    assert judged(far) == ("4 times worse than far (between nodes)", "")
    assert reference.same_gpu(same, "NVIDIA H200") and not reference.same_gpu(same, "NVIDIA GH200 480GB")
    assert reference.curves("latency", "NVIDIA H200")[0].gpu == "H200"
    sizes = {curve.ranks: curve.points[0][0] for curve in reference.curves("alltoall") if "NCCL" in curve.label}
    assert sizes == {2: 4, 8: 1}  # bytes of one block, of 8 in all


def test_references_name_their_sources():
    for program in ("latency", "bw", "alltoall", "allreduce", "bibw"):
        curves = reference.curves(program)
        assert curves and all(curve.label and curve.points for curve in curves)
    assert reference.jacobi()
