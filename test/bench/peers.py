#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# bench/peers.py without other libraries: medians, ratios and bars of given figures; UCX's table; whole runs on host
# memory with fakes of Open MPI and ucx_perftest, one of which hangs; NCCL's programs on the emulated driver.
import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PREFIX = os.environ["MPI_PREFIX"]
PROGRAMS = os.path.join(PREFIX, "libexec", "weft", "bench")
sys.path.insert(0, os.path.join(ROOT, "bench"))
sys.dont_write_bytecode = True
import comparison  # noqa: E402
import peer_programs  # noqa: E402
import peers  # noqa: E402
from fakes import executable, fake_nccl, fake_openmpi  # noqa: E402

LATENCY, WINDOW, LONG, RATE = (
    next(job for job in peer_programs.JOBS if job.name == name) for name in ("latency", "window", "long window", "rate")
)

UCX_INFO = """\
#!/bin/sh
echo "# Library version: 9.8.7"
"""
UCX_PERFTEST = """\
#!/usr/bin/env python3
import os, socket, sys, time
words = sys.argv[1:]
port = int(words[words.index("-p") + 1])
if "127.0.0.1" not in words:
    server = socket.create_server(("127.0.0.1", port))
    time.sleep(60)
    sys.exit(1)
if os.environ.get("FAKE_UCX") == "hang":
    time.sleep(60)
scale = 0.5 if os.environ.get("UCX_RNDV_THRESH") else 1
path = words[words.index("-b") + 1]
print("x.batch,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr")
for line in open(path):
    print(line.split()[0] + ",9,1,2,%g,4,%g,6,%g" % (8 * scale, 100 / scale, 1000 / scale))
"""


def fake_ucx(folder):
    executable(os.path.join(folder, "bin", "ucx_info"), UCX_INFO)
    executable(os.path.join(folder, "bin", "ucx_perftest"), UCX_PERFTEST)
    return folder


def run(*options, **variables):
    """Returns (status, output, errors) of peers.py on host memory."""
    words = [sys.executable, os.path.join(ROOT, "bench", "peers.py"), "--weft", PREFIX, "--memory", "H", *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=150, stdin=subprocess.DEVNULL,
                          env={**os.environ, **variables})  # fmt: skip
    return done.returncode, done.stdout, done.stderr


class Figures(unittest.TestCase):
    def test_medians_ratios_bars(self):
        figures = {
            "Weft": {"latency 8": [9.0, 4.0, 5.0], "window 64K": [91e3, 100e3], "rate 8": [1e6]},
            "Open MPI": {"latency 8": [10.0, 30.0, 9.0], "window 64K": [50e3]},
            "UCX": {"latency 8": [8.0], "window 64K": [191e3]},
        }
        rows = {row["point"]: row for row in peers.compare(figures, (LATENCY, WINDOW, RATE), 2)}
        row = rows["latency 8"]
        self.assertEqual(row["figures"], {"Weft": 5.0, "Open MPI": 10.0, "UCX": 8.0})
        self.assertEqual(row["ratio"], 0.625)  # lowest is best
        self.assertEqual(row["bars"], [{"column": "Weft", "bar": 4.8, "met": False}])
        row = rows["window 64K"]
        self.assertEqual((row["figures"]["Weft"], row["ratio"]), (95.5e3, 0.5))  # highest is best
        self.assertTrue(row["bars"][0]["met"])
        self.assertNotIn("ratio", rows["rate 8"])
        self.assertFalse(rows["rate 8"]["bars"][0]["met"])
        self.assertEqual(rows["latency 1M"]["figures"], {})

    def test_bars_of_collectives(self):
        """With 4 ranks or more, relative to NCCL of the same run and to the link time."""
        jobs = [job for job in peer_programs.JOBS if job.name in ("large allreduce", "large alltoall")]
        figures = {"Weft": {"allreduce 16M": [100.0], "alltoall 16M": [150.0]}, "NCCL": {"allreduce 16M": [110.0]}}
        rows = {row["point"]: row["bars"] for row in peers.compare(figures, jobs, 4)}
        self.assertEqual(rows["allreduce 16M"], [{"column": "Weft", "bar": 93.5, "met": False}])
        self.assertEqual(rows["alltoall 16M"], [{"column": "Weft", "bar": 152.5, "met": True}])
        rows = {row["point"]: row["bars"] for row in peers.compare(figures, jobs, 2)}
        self.assertEqual(rows["allreduce 16M"], [])

    def test_points(self):
        large = next(job for job in peer_programs.JOBS if job.name == "large allreduce")
        self.assertEqual(peer_programs.points_of(large), {16 << 20: "allreduce 16M", 256 << 20: "allreduce 256M"})
        self.assertEqual(list(peer_programs.points_of(LATENCY))[:3], [8, 1024, 8192])
        self.assertEqual(peers.within(WINDOW, 1 << 20).sizes, "8K,64K,1M")

    def test_ucx_table(self):
        header = "x.batch,iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr"
        text = f"[1.2] UCX WARN something\n{header}\nwindow_64K,640,0.1,2,3.5,90,100.0,7,8.0\n"
        # from 2^20 to 10^6 bytes
        self.assertEqual(peer_programs.ucx_figures(text, WINDOW), {"window 64K": 100 * 1.048576})
        self.assertEqual(peer_programs.ucx_figures(text, LATENCY), {"window 64K": 3.5})
        self.assertEqual(peer_programs.ucx_figures(text, RATE), {"window 64K": 8.0})
        for broken in ("", header, "no table"):
            with self.assertRaises(peer_programs.Failure):
                peer_programs.ucx_figures(broken, WINDOW)
        lines = list(peer_programs.ucx_batch(peers.within(LATENCY, 1024), "D"))
        self.assertEqual(lines[1], "latency_1K -t tag_lat -n 10000 -w 200 -s 1024 -m cuda")

    def test_ucx_does_as_many_windows(self):
        line = next(iter(peer_programs.ucx_batch(LONG, "D")))
        self.assertEqual(line, "long_window_64K -t tag_bw -O 64 -n 64000 -w 12800 -s 65536 -m cuda")

    def test_time_limit(self):
        class Peer:
            name, jobs = "slow", ("latency", "rate")

            def measure(self, job, *_):
                return {job.name: 1.0}

        rounds = comparison.Rounds([Peer()], 2, "H", 0, 1)  # the time limit has passed
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(rounds.run((LATENCY, RATE), 3), 1)
        self.assertEqual(rounds.failures, {"slow": {"latency": "no time left", "rate": "no time left"}})
        self.assertIn("slow, rate: left out: no time left", said.getvalue())


class Runs(unittest.TestCase):
    def test_compares_with_fakes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            openmpi, ucx = fake_openmpi(os.path.join(folder, "o"), PREFIX), fake_ucx(os.path.join(folder, "u"))
            status, out, err = run("--openmpi", openmpi, "--ucx", ucx, "--rounds", "2", "--sizes", "8K", "--ranks", "2",
                                   "--jobs", "latency,rate,allreduce,bcast", "--json", path)  # fmt: skip
            self.assertEqual((status, err), (0, ""), out)
            with open(path, encoding="utf-8") as file:
                facts = json.load(file)
        self.assertEqual(facts["rounds"], 2)
        self.assertEqual(facts["missing"], {"NCCL": "not given"})
        self.assertEqual(facts["failures"], {})
        self.assertIn("Weft", facts["libraries"]["Open MPI"])  # the fake
        self.assertEqual(facts["libraries"]["UCX"], "UCX 9.8.7")
        rows = {row["point"]: row for row in facts["rows"]}
        self.assertEqual(set(rows), {"latency 8", "latency 1K", "latency 8K", "rate 8", "allreduce 8", "bcast 8"})
        for point, row in rows.items():
            for peer, value in row["figures"].items():
                self.assertEqual(value, statistics.median(facts["figures"][peer][point]))
                self.assertEqual(len(facts["figures"][peer][point]), 2)
        self.assertEqual(rows["latency 8"]["figures"]["UCX"], 4.0)  # its better configuration
        self.assertEqual(rows["rate 8"]["figures"]["UCX"], 2000.0)
        self.assertEqual(set(rows["allreduce 8"]["figures"]), {"Weft", "Open MPI"})
        line = next(line for line in out.splitlines() if line.startswith("latency 8 "))
        self.assertEqual(line.split()[5], "4.00")
        self.assertIn("NCCL           left out: not given", out)

    def test_one_hangs_one_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            openmpi = fake_openmpi(os.path.join(folder, "o"), PREFIX)
            executable(os.path.join(openmpi, "bin", "mpirun"), "#!/bin/sh\necho no luck >&2\nexit 7\n")
            ucx = fake_ucx(os.path.join(folder, "u"))
            path = os.path.join(folder, "out.json")
            status, out, err = run("--openmpi", openmpi, "--ucx", ucx, "--rounds", "2", "--limit", "5",
                                   "--jobs", "rate", "--nccl", folder, "--json", path, FAKE_UCX="hang")  # fmt: skip
            self.assertEqual(status, 0, err)
            with open(path, encoding="utf-8") as file:
                facts = json.load(file)
            running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=False).stdout
            self.assertNotIn(ucx, running)
        self.assertRegex(err, r"UCX, rate: left out: killed after [45] s")
        self.assertIn("Open MPI, rate: left out: status 7: no luck", err)
        self.assertEqual(err.count("left out"), 2)  # not repeated in the second round
        self.assertEqual(facts["missing"], {"NCCL": f"{folder} has no libnccl.so.2"})
        self.assertEqual(set(facts["rows"][0]["figures"]), {"Weft"})
        self.assertEqual(len(facts["figures"]["Weft"]["rate 8"]), 2)

    def test_refusals(self):
        for options, says in (
            (("--jobs", "x"), "--jobs x: no such job"),
            (("--sizes", "big"), "--sizes big: expected"),
        ):
            status, _, err = run(*options)
            self.assertEqual(status, 2)
            self.assertIn(says, err)


class Nccl(unittest.TestCase):
    """The preloaded library over a fake NCCL: every byte of every program is validated."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.library = os.path.join(cls.folder.name, "libnccl.so.2")
        fake_nccl(cls.folder.name, PREFIX)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def start(self, program, ranks, *options, windows="0", library=None):
        preload = os.path.join(PROGRAMS, "libweft-bench-nccl.so")
        words = [os.path.join(PREFIX, "bin", "mpiexec"), "-n", str(ranks), "env", "LD_PRELOAD=" + preload]
        words += ["BENCH_NCCL=" + (library or self.library), "BENCH_NCCL_WINDOWS=" + windows]
        words += [os.path.join(PROGRAMS, program), "-d", "cuda", "-i", "3", "-x", "1", *options]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)

    def test_programs(self):
        for program, ranks, sends in (("latency", 2, 7), ("bw", 2, 1), ("bibw", 2, 1), ("mbw_mr", 4, 1),
                                      ("alltoall", 3, 21), ("allreduce", 3, 0), ("allgather", 3, 0),
                                      ("bcast", 3, 0), ("reduce_scatter_block", 3, 0)):  # fmt: skip
            for windows in ("0", "1") if program in ("latency", "allreduce") else ("1",):
                done = self.start(program, ranks, "-m", "8,16K", "-c", windows=windows)
                self.assertEqual(done.returncode, 0, (program, done.stdout, done.stderr))
                self.assertEqual(done.stdout.count("Pass"), 2, done.stdout)
                words = done.stderr[done.stderr.index("fake NCCL:") :].split()
                self.assertGreaterEqual(int(words[2]), sends, done.stderr)  # NCCL was used
                self.assertEqual(int(words[4]), 0 if sends else 14, done.stderr)
                self.assertEqual(int(words[6]), 2 * int(windows), done.stderr)

    def test_failures_are_named(self):
        done = self.start("latency", 2, "-m", "8:8", library="/nonexistent/libnccl.so.2")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nonexistent/libnccl.so.2", done.stderr)


if __name__ == "__main__":
    unittest.main()
