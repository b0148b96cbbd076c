# SPDX-License-Identifier: BSD-3-Clause
# weft trace, on known traffic of host memory and of emulated GPUs; weft report of traces and samples; the trace in a
# browser, if installed.
import json
import os
import re
import shutil
import subprocess

import pytest
from weft_mpi import trace
from weft_mpi.report import job

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))
MESSAGES, BYTES, LARGE, LARGE_MESSAGES, COLLECTIVES = 500, 100, 1 << 20, 20, 300  # as in top.c


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("trace") / "top")
    subprocess.run([PREFIX + "/bin/mpicc", os.path.join(HERE, "top.c"), "-o", path], check=True)
    return path


@pytest.fixture
def traced(weft, tmp_path):
    """Returns traced(words...), which traces a program and returns the Result and the trace."""

    def call(*words):
        path = str(tmp_path / "trace.json")
        result = weft("trace", "-o", path, *words)
        assert os.listdir(tmp_path) == ["trace.json"], result.err  # no temporary files
        return result, trace.load(path)

    return call


def check(found):
    """A valid trace: complete ranges with a process and a track, in order, nested, no negative durations."""
    tracks, named = {}, set()
    for event in found["traceEvents"]:
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int) and event["name"]
        if event["ph"] == "M":
            named.add((event["name"], event["pid"], event["tid"]))
            continue
        assert event["ph"] == "X" and event["ts"] >= 0 and event["dur"] >= 0
        tracks.setdefault((event["pid"], event["tid"]), []).append(event)
    for (rank, track), events in tracks.items():
        assert ("thread_name", rank, track) in named
        stack, last = [], 0
        for event in events:
            begin, end = round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)
            assert begin >= last
            last = begin
            while stack and stack[-1] <= begin and not (begin == end == stack[-1]):
                stack.pop()
            assert not stack or end <= stack[-1], (event, stack)
            stack.append(end)
    return tracks


def calls_of(tracks, rank, name):
    return [event for (pid, _), events in tracks.items() if pid == rank for event in events if event["name"] == name]


def test_known_traffic(traced, program):
    result, found = traced(PREFIX + "/bin/mpiexec", "-n", "3", program, "known")
    assert result.status == 0 and "3 ranks" in result.out
    tracks = check(found)
    for rank in range(3):
        sends = calls_of(tracks, rank, "MPI_Send")
        args = [event["args"] for event in sends]
        assert args.count({"bytes": BYTES, "peer": (rank + 1) % 3, "tag": 1, "communicator": 1}) == MESSAGES
        assert (
            args.count({"bytes": LARGE, "peer": (rank + 1) % 3, "tag": 1, "communicator": 1})
            == LARGE_MESSAGES
            == len(args) - MESSAGES
        )
        assert len(calls_of(tracks, rank, "p2p.eager")) >= MESSAGES
        receives = [event["args"] for event in calls_of(tracks, rank, "MPI_Recv")]
        assert receives.count({"bytes": LARGE, "peer": (rank + 2) % 3, "tag": 1, "communicator": 1}) == LARGE_MESSAGES
        assert len(calls_of(tracks, rank, "p2p.send_rts")) >= LARGE_MESSAGES
        reductions = calls_of(tracks, rank, "MPI_Allreduce")
        assert len(reductions) == COLLECTIVES and {event["args"]["bytes"] for event in reductions} == {32}
    # A reduction ends in no rank before it has begun in all: the clocks agree.
    for at in range(COLLECTIVES):
        events = [calls_of(tracks, rank, "MPI_Allreduce")[at] for rank in range(3)]
        assert min(event["ts"] + event["dur"] for event in events) >= max(event["ts"] for event in events)


def test_spawned_jobs(traced, program):
    """The ranks of both jobs have processes and names of their own."""
    result, found = traced(PREFIX + "/bin/mpiexec", "-n", "2", program, "spawn", "50")
    assert result.status == 0 and "4 ranks" in result.out
    tracks = check(found)
    names = ["rank 0", "rank 1", "rank 0 of spawned job 1", "rank 1 of spawned job 1"]
    assert trace.names_of_processes(found) == dict(enumerate(names))
    communicators = {event["args"]["communicator"] for rank in range(4) for event in calls_of(tracks, rank, "MPI_Send")}
    assert (
        len(communicators) == 1 and min(communicators) > 2
    )  # the merged one: neither MPI_COMM_WORLD nor MPI_COMM_SELF
    for process in range(4):
        sends = [event["args"] for event in calls_of(tracks, process, "MPI_Send")]
        assert sends == 50 * [{"bytes": BYTES, "peer": (process + 1) % 4, "tag": 7, "communicator": min(communicators)}]
        assert len(calls_of(tracks, process, "MPI_Comm_spawn")) == (process < 2)


def test_gpu_copies(traced, emulated):
    latency = os.path.join(PREFIX, "libexec", "weft", "bench", "latency")
    words = ("-d", "cuda", "-m", "1048576:1048576", "-i", "5", "-x", "1", "D", "D")
    mapped = ("-x", "WEFT_GPU_MAPPING=always")
    result, found = traced(PREFIX + "/bin/mpiexec", "-n", "2", *mapped, latency, *words)
    assert result.status == 0
    tracks = check(found)
    copies = [event for events in tracks.values() for event in events if event["cat"] == "copy"]
    assert len(copies) >= 10 and {event["args"]["bytes"] for event in copies} == {1 << 20}
    names = {event["args"]["name"] for event in found["traceEvents"] if event["name"] == "thread_name"}
    assert any(name.startswith("GPU: copies") for name in names)


def test_status_and_refusals(weft, traced, program, tmp_path):
    path = str(tmp_path / "t.json")
    assert weft("trace", "-o", path, "/not/there").status == 2
    nothing = weft("trace", "-o", path, "true")
    assert nothing.status == 1 and "no rank of Weft has recorded" in nothing.err
    assert weft("trace", "-o", "/not/there/t.json", "true").status == 2
    assert os.listdir(tmp_path) == []
    aborted, found = traced(PREFIX + "/bin/mpiexec", "-n", "2", program, "abort")
    assert aborted.status == 3 and check(found)
    environment = dict(os.environ, WEFT_TRACE_FOLDER="/not/there")
    refused = subprocess.run([program, "known"], env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "WEFT_TRACE_FOLDER" in refused.stderr


def test_hosts_are_aligned_by_real_time():
    """Two hosts whose monotonic clocks differ by an hour."""
    hour = 3600 * 10**9
    files = [
        ({"rank": rank, "size": 2, "job": 1, "host": rank, "realtime": 5 * hour, "monotonic": hour * (rank + 1)},
         {0: ("", [(hour * (rank + 1) - 100 + rank, hour * (rank + 1) + 50, 8, 1 - rank, 3, 4, "MPI_Send")])})
        for rank in range(2)
    ]  # fmt: skip
    found = trace.merge(files, ["program"])
    first, second = (event for event in found["traceEvents"] if event["ph"] == "X")
    assert (first["ts"], second["ts"]) == (0, 0.001) and (first["dur"], second["dur"]) == (0.15, 0.149)
    assert [event["args"]["name"] for event in found["traceEvents"] if event["name"] == "process_name"] == [
        "rank 0 on host 0", "rank 1 on host 1"
    ]  # fmt: skip


def test_hosts_are_aligned_by_messages():
    """The second host's clock is 5 s behind at first, 6 s behind 10 s later; the real times are wrong by an hour."""
    second = 10**9
    clocks = [(0, 5 * second, 2000), (10 * second, 6 * second, 7000)]
    files = [
        ({"rank": rank, "size": 2, "job": 1, "host": rank, "realtime": rank * 3600 * second, "monotonic": 0,
          "clocks": clocks * rank, "name": f"node{rank}"},
         {0: (None, [(begin, begin + 1000, 8, 1 - rank, 3, 4, "MPI_Send")])})
        for rank, begin in ((0, 10 * second + second // 2), (1, 5 * second))
    ]  # fmt: skip
    found = trace.merge(files, ["program"])
    assert [event["ts"] for event in found["traceEvents"] if event["ph"] == "X"] == [0, 0]
    assert found["otherData"]["clocks"] == [{"job": 0, "host": 1, "error_ns": 7000}]
    assert trace.clock_lines(found["otherData"]["clocks"]) == [
        "clocks of 2 hosts aligned by messages: errors at most 7 us"
    ]


def test_fake_hosts(traced, program, monkeypatch):
    """The hosts have one clock: what was measured is wrong by at most the stated error."""
    monkeypatch.setenv("WEFT_FAKE_HOSTS", "2")
    monkeypatch.setenv("UCX_TLS", "tcp")
    monkeypatch.setenv("FI_PROVIDER", "tcp")
    path = os.environ.get("MPI_PREFIX") + "/bin/mpiexec"
    if (
        "no network"
        in subprocess.run([path, "-n", "2", program, "known"], capture_output=True, text=True, check=False).stderr
    ):
        pytest.skip("needs a network library (libucx0 or libfabric1)")
    result, found = traced(path, "-n", "3", program, "known")
    assert result.status == 0 and "clocks of 2 hosts aligned by messages: errors at most" in result.out
    (clock,) = found["otherData"]["clocks"]
    assert clock["host"] == 1 and 0 < clock["error_ns"] < 50_000_000
    tracks = check(found)
    for at in range(COLLECTIVES):
        events = [calls_of(tracks, rank, "MPI_Allreduce")[at] for rank in range(3)]
        latest = max(event["ts"] for event in events)
        assert min(event["ts"] + event["dur"] for event in events) >= latest - clock["error_ns"] / 1000


def test_a_truncated_file(tmp_path):
    path = tmp_path / "host.1.trace"
    path.write_text(
        "weft-trace 4 rank 0 size 1 job 1 host 0 pid 1 monotonic 9 realtime 9\n0 1 2 0 -1 -1 0 MPI_Wait\n0 1 "
    )
    assert trace.parse(str(path))[1] == {0: (None, [(1, 2, 0, -1, -1, 0, "MPI_Wait")])}
    path.write_text("")
    assert trace.parse(str(path)) is None
    path.write_text("weft-trace 1 rank 0\n")
    with pytest.raises(trace.Failure, match="format 1"):
        trace.parse(str(path))


def test_report(weft, traced, program, tmp_path):
    pytest.importorskip("matplotlib")
    traced(PREFIX + "/bin/mpiexec", "-n", "2", program, "known")
    sample = {"seconds": 2.0, "size": 2, "ranks": [
        {"rank": 0, "inside": 0.9, "waiting": 0.8, "delaying": 0, "waits_for": {"1": 0.7, "unknown": 0.1}},
        {"rank": 1, "inside": 0.1, "waiting": 0, "delaying": 0.7, "waits_for": {}},
    ]}  # fmt: skip
    (tmp_path / "top.json").write_text(2 * (json.dumps(sample) + "\n"))
    page = str(tmp_path / "page.html")
    found = weft("report", str(tmp_path / "trace.json"), str(tmp_path / "top.json"), "-o", page, "--json")
    assert found.status == 0, found.err
    rows = json.loads(found.out)
    calls = {row["name"]: row["verdict"] for row in rows["Time in MPI calls, 2 ranks"]}
    assert calls["MPI_Allreduce"].startswith("%d calls; longest in rank " % (2 * COLLECTIVES))
    assert len(rows["Timeline around the longest call, 2 ranks"]) == 2
    (steps,) = (found for title, found in rows.items() if title.startswith("Steps during MPI_"))
    assert any(row["name"].startswith("p2p.") for row in steps)
    first, second = rows["A running job, 2 ranks"]
    assert first["verdict"] == "waits 80 %, most for rank 1; the others waited for it 0 s in all"
    assert (first["value"], first["unit"]) == (90.0, "% in MPI")
    assert second["verdict"] == "waits 0 %; the others waited for it 2.8 s in all"
    assert "A running job" in open(page, encoding="utf-8").read()
    (tmp_path / "top.json").write_text('{"seconds": 1}\n')
    assert weft("report", str(tmp_path / "top.json"), "-o", page).status == 2
    (tmp_path / "trace.json").write_text('{"traceEvents":[]}')
    assert weft("report", str(tmp_path / "trace.json"), "-o", page).status == 2


def test_timeline():
    """Rank 1 is late for a call in which rank 0 waits 10 ms, with a call inside of it."""
    calls = [(0, 9000, 10000, "MPI_Recv"), (0, 9500, 100, "MPI_Type_size"), (0, 60000, 5e6, "MPI_Finalize"),
             (1, 18900, 200, "MPI_Send"), (1, 40000, 900, "MPI_Send")]  # fmt: skip
    events = [{"ph": "X", "cat": "call", "tid": 0, "pid": pid, "ts": ts, "dur": dur, "name": name}
              for pid, ts, dur, name in calls]  # fmt: skip
    names = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "rank %d" % pid}} for pid in (0, 1)]
    (section,) = job.timeline_sections({"traceEvents": names + events})
    assert section["note"] == [
        "The longest call is MPI_Recv of rank 0, 10 ms. Of all ranks, rank 1 is in MPI for the shortest part of this time."
    ]
    assert section["rows"] == [["rank 0", "10 ms", "30 ms", ""], ["rank 1", "0.2 ms", "30 ms", ""]]
    assert job.timeline_sections({"traceEvents": names}) == []


def test_steps():
    """The call with the most steps, of two the shorter one, with the ranges of all ranks at its time."""
    ranges = [(0, 0, "call", 100, 400, "MPI_Waitall"), (0, 0, "step", 110, 10, "p2p.send_rts"),
              (0, 0, "step", 120, 10, "p2p.eager"), (0, 0, "call", 1000, 40, "MPI_Waitall"),
              (0, 0, "step", 1001, 20, "p2p.get_device"), (0, 0, "step", 1030, 5, "p2p.finish_copy"),
              (0, 0, "call", 2000, 9000, "MPI_Finalize"), (0, 0, "step", 2001, 1, "p2p.eager"),
              (0, 0, "step", 2003, 1, "p2p.eager"), (0, 0, "step", 2005, 1, "p2p.eager"),
              (0, 1001, "copy", 1010, 15, "copy"), (1, 0, "call", 900, 400, "MPI_Recv"),
              (1, 0, "call", 5000, 1, "MPI_Send")]  # fmt: skip
    events = [{"ph": "X", "pid": pid, "tid": tid, "cat": kind, "ts": ts, "dur": dur, "name": name}
              for pid, tid, kind, ts, dur, name in ranges]  # fmt: skip
    names = [trace.named("process_name", pid, 0, "rank %d" % pid) for pid in (0, 1)]
    names += [trace.named("thread_name", pid, 0, "thread 0") for pid in (0, 1)]
    names.append(trace.named("thread_name", 0, 1001, "GPU: copies in"))
    (section,) = job.steps_sections({"traceEvents": names + events})
    assert section["title"] == "Steps during MPI_Waitall of rank 0" and "40 us" in section["note"][0]
    assert section["rows"] == [
        ["MPI_Recv", "60 us", "1 in the chart", ""],
        ["MPI_Waitall", "40 us", "1 in the chart", ""],
        ["p2p.get_device", "20 us", "1 in the chart", ""],
        ["copy", "15 us", "1 in the chart", ""],
        ["p2p.finish_copy", "5 us", "1 in the chart", ""],
    ]
    drawn = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job.charts, "timeline", lambda *words: drawn.update(rows=words[3], series=words[4]))
        section["draw"](None)
    assert drawn["rows"] == ["rank 0: calls", "rank 0: steps", "rank 0: copies in", "rank 1: calls"]
    assert drawn["series"]["copy"] == [(2, 10, 15)] and drawn["series"]["MPI_Recv"] == [(3, -10, 60)]
    calls = [event for event in events if event["cat"] == "call"]
    assert job.steps_sections({"traceEvents": names + calls}) == []


# The rules of a viewer: a range begins inside of its parent and does not end after it.
VIEWER = """<!DOCTYPE html><meta charset="utf-8"><body><script>
const trace = %s, open = {}, last = {};
let ranges = 0, problems = 0;
for (const event of trace.traceEvents) {
  if (event.ph !== "X") continue;
  const track = event.pid + "/" + event.tid, end = Math.round((event.ts + event.dur) * 1000);
  const begin = Math.round(event.ts * 1000), stack = open[track] = open[track] || [];
  if (!(event.dur >= 0) || begin < (last[track] || 0)) ++problems;
  while (stack.length && stack[stack.length - 1] <= begin && !(begin === end)) stack.pop();
  if (stack.length && end > stack[stack.length - 1] && begin !== end) ++problems;
  stack.push(end);
  last[track] = begin;
  ++ranges;
}
document.body.textContent = "ranges " + ranges + " problems " + problems;
</script></body>"""


def test_in_a_browser(traced, program, tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium here")
    found = traced(PREFIX + "/bin/mpiexec", "-n", "2", program, "known")[1]
    page = tmp_path / "viewer.html"
    page.write_text(VIEWER % json.dumps(found))
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=%s" % (tmp_path / "profile")]
    shown = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, check=True, timeout=120
    ).stdout
    ranges = sum(event["ph"] == "X" for event in found["traceEvents"])
    assert re.search("ranges %d problems 0" % ranges, shown)
