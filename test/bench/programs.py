#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The benchmark programs under mpiexec: columns, validation and its failures, JSON, refusals. BENCH_PROGRAMS, MPIEXEC
# and MPICC may name other builds.
import json
import os
import re
import shlex
import subprocess
import tempfile
import unittest

from fakes import corrupting_library

PREFIX = os.environ.get("MPI_PREFIX", "")
PROGRAMS = os.environ.get("BENCH_PROGRAMS") or os.path.join(PREFIX, "libexec", "weft", "bench")
MPIEXEC = shlex.split(os.environ.get("MPIEXEC", "")) or [os.path.join(PREFIX, "bin", "mpiexec")]
MPICC = os.environ.get("MPICC") or os.path.join(PREFIX, "bin", "mpicc")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
HEADERS = {
    "latency": ("# Weft MPI Latency Test v", "# Size          Latency (us)"),
    "latency_persistent": ("# Weft MPI Persistent Latency Test v", "# Size          Latency (us)"),
    "latency_mt": ("# Weft MPI Multi-threaded Latency Test v", "# Size          Latency (us)"),
    "bw": ("# Weft MPI Bandwidth Test v", "# Size      Bandwidth (MB/s)"),
    "bibw": ("# Weft MPI Bi-Directional Bandwidth Test v", "# Size      Bandwidth (MB/s)"),
    "multi_lat": ("# Weft MPI Multi Latency Test v", "# Size          Latency (us)"),
    "mbw_mr": ("# Weft MPI Multiple Bandwidth / Message Rate Test v", "# Size                  MB/s        Messages/s"),
    "alltoall": ("# Weft MPI All-to-All Personalized Exchange Latency Test v", "# Size       Avg Latency(us)"),
    "allreduce": ("# Weft MPI Allreduce Latency Test v", "# Size       Avg Latency(us)"),
    "iallreduce": (
        "# Weft MPI Non-blocking Allreduce Latency Test v",
        "# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)",
    ),
    "allreduce_persistent": ("# Weft MPI Persistent Allreduce Latency Test v", "# Size       Avg Latency(us)"),
    "allgather": ("# Weft MPI Allgather Latency Test v", "# Size       Avg Latency(us)"),
    "bcast": ("# Weft MPI Broadcast Latency Test v", "# Size       Avg Latency(us)"),
    "reduce_scatter_block": ("# Weft MPI Reduce-Scatter Block Latency Test v", "# Size       Avg Latency(us)"),
}
QUICK = ("-i", "5", "-x", "1")


def every_program():
    """Returns {name: (source, ranks)} from programs.csv, with nonblocking and persistent forms."""
    found = {}
    with open(os.path.join(ROOT, "bench", "programs.csv"), encoding="utf-8") as file:
        for line in file:
            if line.startswith("#"):
                continue
            name, source, ranks, forms, _ = line.split(";")
            for pattern in ["%s", *({"i": "i%s", "p": "%s_persistent"}[form] for form in forms)]:
                found[pattern % name] = (source, ranks)
    return found


def program_words(name):
    """Returns the command of a benchmark; all collectives are one program."""
    source = every_program()[name][0]
    return [os.path.join(PROGRAMS, source)] + ([name] if source != name else [])


def start(program, *options, ranks=2, before=()):
    """Returns (status, output, errors) of a run."""
    words = [*MPIEXEC, "-n", str(ranks), *before, *program_words(program), *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def rows(out):
    """Returns the fields of each line that is not a comment."""
    return [line.split() for line in out.splitlines() if line.strip() and not line.startswith("#")]


class Programs(unittest.TestCase):
    def test_columns_and_validation(self):
        for program, (title, columns) in HEADERS.items():
            status, out, err = start(program, *QUICK, "-m", "4:64K", "--validation")
            self.assertEqual(status, 0, err)
            lines = out.splitlines()
            if program == "mbw_mr":
                self.assertEqual(lines.pop(1), "# [ pairs: 1 ] [ window size: 64 ]")
            self.assertTrue(lines[0].startswith(title), out)
            self.assertTrue(lines[1].startswith(columns), out)
            self.assertEqual(lines[1].split()[-1], "Validation")
            found = rows(out)
            self.assertEqual([int(row[0]) for row in found], [1 << n for n in range(2, 17)])
            for row in found:
                self.assertRegex(row[1], r"^\d+\.\d\d$")
                self.assertGreaterEqual(float(row[1]), 0)
                self.assertEqual(row[-1], "Pass")

    def test_every_program_validates(self):
        listed = subprocess.run([os.path.join(PROGRAMS, "coll"), "--list"], capture_output=True, text=True, check=True)
        every = every_program()
        self.assertEqual(sorted(listed.stdout.split()), sorted(name for name in every if every[name][0] == "coll"))
        for name, (_, ranks) in every.items():
            if name in HEADERS or name in ("init", "hello", "io"):
                continue
            one_size = "barrier" in name or name in ("fop_latency", "cas_latency")
            sizes = () if one_size else ("-m", "16:64")
            status, out, err = start(name, *QUICK, *sizes, "-c", ranks={"2": 2, "even": 4, "any": 3}[ranks])
            self.assertEqual(status, 0, (name, out, err))
            self.assertEqual(out.count("Pass"), 1 if one_size else 3, (name, out))

    def test_neighbors_roots_and_teams(self):
        for name, ranks, *options in (
            ("neighbor_alltoall", 4, "-N", "cart:2:1"),
            ("ineighbor_allgatherv", 5, "-N", "cart:1:2", "-t", "10"),
            ("neighbor_alltoallw", 1),
            ("bcast", 3, "-k", "rotate"),
            ("gatherv", 3, "-k", "fixed:2"),
            ("iscatter", 3, "-k", "rotate"),
            ("reduce", 3, "-k", "fixed:1"),
            ("reduce_scatter", 3, "-M", "256"),
            ("latency_mt", 2, "-t", "3:2"),
            ("latency_mp", 2, "-t", "2"),
            ("partitioned_latency", 2, "-q", "1"),
        ):
            status, out, err = start(name, *QUICK, "-m", "4:256", "-c", *options, ranks=ranks)
            self.assertEqual(status, 0, (name, err))
            self.assertEqual(out.count("Pass"), 7, (name, out))

    def test_types_and_layouts(self):
        with tempfile.TemporaryDirectory() as folder:
            path, blocks = os.path.join(folder, "out.json"), os.path.join(folder, "blocks")
            with open(blocks, "w", encoding="utf-8") as file:
                file.write("# DISPLACEMENT,LENGTH\n5,2\n0, 1\n\n9\t1\n")
            status, out, err = start("latency", *QUICK, "-m", "1:64", "-c", "-T", "all", "-I", "--json", path)
            self.assertEqual(status, 0, err)
            self.assertEqual(re.findall("# Datatype: (.*)[.]", out), ["MPI_CHAR", "MPI_INT", "MPI_FLOAT"])
            self.assertEqual([int(row[0]) for row in rows(out)], [1, 2, 4, 8, 16, 32, 64] + 2 * [4, 8, 16, 32, 64])
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["rows"][7]["type"], "MPI_INT")
            for name, ranks, passes, *options in (
                ("latency_mt", 2, 5, "-T", "mpi_float", "-D", "vect:5:2", "-I"),
                ("latency_persistent", 2, 5, "-D", "indx:" + blocks),
                ("partitioned_latency", 2, 5, "-q", "2", "-T", "mpi_int", "-D", "vect:3:2"),
                ("bibw_persistent", 2, 5, "-T", "mpi_int", "-D", "cont", "-I"),
                ("mbw_mr", 4, 10, "-T", "mpi_int,mpi_float", "-D", "vect:8:2", "-I"),
                ("alltoallw", 3, 15, "-T", "all", "-D", "vect:3:1"),
                ("igatherv", 3, 5, "-T", "mpi_int", "-D", "indx:" + blocks, "-I", "-k", "rotate"),
                ("neighbor_alltoallv_persistent", 3, 5, "-D", "vect:16:4"),
                ("bcast", 3, 5, "-T", "mpi_float", "-D", "vect:6:2"),
                ("allreduce", 3, 15, "-T", "all", "-I"),
                ("ireduce_scatter", 3, 5, "-T", "mpi_char"),
                ("reduce_scatter_block_persistent", 2, 5, "-T", "mpi_int"),
            ):
                status, out, err = start(name, *QUICK, "-m", "16:256", "-c", *options, ranks=ranks)
                self.assertEqual(status, 0, (name, out, err))
                self.assertEqual(out.count("Pass"), passes, (name, out))
        for name in ("barrier", "init", "hello"):
            status, out, err = start(name, "-I")
            self.assertEqual(status, 0, (name, err))
        status, out, err = start("latency", *QUICK, "-m", "6:24", "-T", "mpi_char,mpi_int", "-D", "vect:6:3")
        self.assertEqual([row[0] for row in rows(out)], ["6", "12", "24", "12", "24"], err)
        status, out, err = start("allgather", *QUICK, "-m", "16:1K", "-D", "vect:8:1", "-M", "8K")
        self.assertIn("# Stops at 512 bytes", out)

    def test_in_place(self):
        for name in (
            *("allreduce", "ireduce", "reduce_scatter", "reduce_scatter_block_persistent", "allgather", "iallgatherv"),
            *("alltoall", "alltoallv_persistent", "ialltoallw", "gather", "gatherv", "iscatter", "scatterv"),
        ):
            layout = () if "reduce" in name else ("-D", "vect:5:2")
            status, out, err = start(name, *QUICK, "-m", "16:4K", "-c", "-l", "-T", "mpi_int", *layout, ranks=3)
            self.assertEqual(status, 0, (name, out, err))
            self.assertEqual(out.count("Pass"), 9, (name, out))

    def test_plain_columns(self):
        _, out, err = start("latency", *QUICK, "-m", "8:8")
        self.assertEqual(out.splitlines()[1], HEADERS["latency"][1], err)
        self.assertRegex(out.splitlines()[2], r"^8 {9} +\d+\.\d\d$")
        self.assertEqual(len(out.splitlines()[2]), 28)

    def test_full_and_several_ranks(self):
        for program in (
            "alltoall",
            "allreduce",
            "iallreduce",
            "allreduce_persistent",
            "allgather",
            "bcast",
            "reduce_scatter_block",
        ):
            for ranks in (1, 3):
                status, out, err = start(program, *QUICK, "-m", "16K", "-f", "-c", ranks=ranks)
                self.assertEqual(status, 0, err)
                columns = "Min Latency(us)   Max Latency(us)  Iterations"
                self.assertIn(columns, out)
                for size, average, *_, least, most, iterations, valid in rows(out):
                    self.assertLessEqual(float(least), float(average) + 0.01)
                    self.assertLessEqual(float(average), float(most) + 0.01)
                    self.assertEqual((iterations, valid), ("5", "Pass"), size)

    def test_many_pairs(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            options = (*QUICK, "-m", "8:4K", "-W", "4", "-f", "-c", "--json", path)
            status, out, err = start("mbw_mr", *options, ranks=4)
            self.assertEqual(status, 0, err)
            self.assertIn("# [ pairs: 2 ] [ window size: 4 ]", out)
            for size, total, rate, least, most, iterations, valid in rows(out):
                self.assertAlmostEqual(float(total), float(rate) * int(size) / 1e6, delta=0.01)
                self.assertAlmostEqual(float(total), 2 * float(least), delta=0.02)  # by the time of the slowest pair
                self.assertLessEqual(float(least), float(most))
                self.assertEqual((iterations, valid), ("5", "Pass"), size)
            with open(path, encoding="utf-8") as file:
                facts = json.load(file)
        for row, printed in zip(facts["rows"], rows(out)):
            self.assertAlmostEqual(row["messages_per_s"], float(printed[2]), delta=0.1)
            self.assertLessEqual(row["min_mb_s"], row["max_mb_s"])
        status, out, err = start("multi_lat", *QUICK, "-m", "8:4K", "-f", "-c", ranks=4)
        self.assertEqual(status, 0, err)
        for _, average, least, most, _, valid in rows(out):
            self.assertAlmostEqual(float(average), (float(least) + float(most)) / 2, delta=0.02)
            self.assertEqual(valid, "Pass")
        for program in ("multi_lat", "mbw_mr"):
            status, _, err = start(program, ranks=3)
            self.assertEqual(status, 2)
            self.assertIn(f"{program}: needs an even number of ranks, not 3", err)

    def test_percentiles(self):
        for program, ranks in (("latency", 2), ("multi_lat", 4), ("alltoall", 3), ("allreduce", 2)):
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "out.json")
                options = ("-i", "200", "-x", "1", "-m", "8:64", "-P", "1,50,99.5,100", "--json", path)
                status, out, err = start(program, *options, ranks=ranks)
                self.assertEqual(status, 0, err)
                with open(path, encoding="utf-8") as file:
                    facts = json.load(file)
            self.assertIn("P50 Tail Lat(us) P99.5 Tail Lat(us)", out)
            cost = float(re.search(r"# Percentiles .* adds ([\d.]+) us to each", out).group(1))
            self.assertGreater(cost, 0.001)
            self.assertAlmostEqual(cost, facts["clock_cost_us"], delta=0.001)
            for row in facts["rows"]:
                values = [row["percentiles_us"][name] for name in ("1", "50", "99.5", "100")]
                self.assertEqual(values, sorted(values))
                self.assertGreater(values[0], 0)
                # The mean lies between minimum and maximum, up to the overhead of two clock readings.
                self.assertGreater(row["latency_us"], 0.5 * values[0] - cost)
                self.assertLess(row["latency_us"], 1.5 * values[3] + 1)
        out = start("latency", *QUICK, "-m", "8:8", "-z")[1]
        self.assertIn("P50 Tail Lat(us)  P90 Tail Lat(us)  P99 Tail Lat(us)", out)
        self.assertEqual(len(rows(start("latency", *QUICK, "-m", "8:8", "-z75")[1])[0]), 3)

    def test_percentiles_include_a_slow_iteration(self):
        # One iteration of 20 waits 30 ms in the preloaded library: part of the mean, all of P100, not in P90.
        with tempfile.TemporaryDirectory() as folder:
            library = corrupting_library(folder, MPICC)
            before = ("env", "LD_PRELOAD=" + library, "CORRUPT=late")
            status, out, err = start("latency", "-i", "20", "-x", "2", "-m", "64:64", "-P", "50,100", before=before)
        self.assertEqual(status, 0, err)
        _, mean, middle, most = rows(out)[0]
        self.assertGreater(float(most), 14000)
        self.assertLess(float(middle), 5000)
        self.assertLess(float(mean), 0.5 * float(most))

    def test_odd_sizes(self):
        status, out, err = start("latency", *QUICK, "-m", "0:5", "-c")
        self.assertEqual([row[0] for row in rows(out)], ["0", "1", "2", "4"], err)
        status, out, err = start("allreduce", *QUICK, "-m", "8,1K,12K", "-c")
        self.assertEqual([row[0] for row in rows(out)], ["8", "1024", "12288"], err)
        status, out, err = start("bw", *QUICK, "-m", "1001:70000", "-W", "3", "-c")
        self.assertEqual(status, 0, err)
        self.assertEqual([row[0] for row in rows(out)], [str(1001 << n) for n in range(7)])

    def test_json(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, 'a "quoted" name.json')
            status, out, err = start("alltoall", *QUICK, "-m", "1:8", "-c", "--json", path)
            self.assertEqual(status, 0, err)
            with open(path, encoding="utf-8") as file:
                facts = json.load(file)
        self.assertEqual((facts["program"], facts["ranks"], facts["kinds"]), ("alltoall", 2, ["H H"]))
        self.assertEqual(facts["options"], [*QUICK, "-m", "1:8", "-c", "--json", path])
        self.assertTrue(facts["library"])
        self.assertEqual([row["size"] for row in facts["rows"]], [1, 2, 4, 8])
        for row, printed in zip(facts["rows"], rows(out)):
            self.assertAlmostEqual(row["latency_us"], float(printed[1]), delta=0.006)
            self.assertIs(row["valid"], True)
        status, _, err = start("alltoall", *QUICK, "-m", "1:8", "--json", "/nonexistent/file")
        self.assertEqual(status, 1)
        self.assertIn("--json /nonexistent/file: cannot write", err)

    def test_memory_limit(self):
        status, out, err = start("alltoall", *QUICK, "-m", "1K:1M", "-M", "8K")
        self.assertEqual(status, 0, err)
        self.assertEqual([row[0] for row in rows(out)], ["1024", "2048", "4096"])
        self.assertIn("# Stops at 4096 bytes: one buffer is limited to 8192 bytes (-M)", out)

    def test_refusals(self):
        for program, options, says in (
            ("latency", ("-y",), "-y: unknown option"),
            ("latency", ("-P", "0,50"), "-P 0,50: expected at most 8 percentages"),
            ("latency", ("-z101",), "-z 101: expected at most 8 percentages"),
            ("latency", ("-P", "50,"), "-P 50,: expected at most 8 percentages"),
            ("bw", ("-z",), "-z: this program has no percentiles"),
            ("latency", ("--frob",), "--frob: unknown option"),
            ("latency", ("-i", "0"), "-i 0: expected a whole number from 1 to 1000000000"),
            ("latency", ("-m", "8:4"), "-m: the largest size, 4, is below the smallest, 8"),
            ("latency", ("-m", "x"), "-m x: expected [MIN:]MAX"),
            ("latency", ("-m", "8,4"), "-m 8,4: expected [MIN:]MAX or a rising list"),
            ("latency", ("-m", "8,16,"), "-m 8,16,: expected [MIN:]MAX or a rising list"),
            ("allreduce", ("-m", "8,10"), "-m: 10 is not a multiple of 4"),
            ("latency", ("-m", "4G"), "is above 2147483647"),
            ("latency", ("-f",), "-f: only the programs of more than two ranks have it"),
            ("latency", ("-W", "4"), "-W: this program has no window"),
            ("bw", ("-W", "0"), "-W 0: expected a whole number from 1 to 65536"),
            ("bw", ("-d", "rocm"), "-d rocm: expected cuda or managed"),
            ("bw", ("D",), "D: two buffer kinds are needed"),
            ("bw", ("D", "X"), "X: expected a buffer kind"),
            ("bw", ("-s", "DX"), "-s DX: expected 'all' or pairs"),
            ("allreduce", ("-m", "6:64"), "-m: the smallest size, 6, is not a multiple of 4"),
            ("allreduce", ("-m",), "-m: its value is missing"),
            ("allreduce", ("-k", "rotate"), "-k: this program has no root to choose"),
            ("gather_persistent", ("-k", "rotate"), "-k: this program has no root to choose"),
            ("bcast", ("-k", "turn"), "-k turn: expected fixed:RANK or rotate"),
            ("bcast", ("-k", "fixed:2"), "-k fixed:2: there are 2 ranks"),
            ("alltoall", ("-N", "cart:1:1"), "-N: this program has no neighborhood"),
            ("neighbor_alltoall", ("-N", "cart:9:1"), "-N cart:9:1: expected cart:DIMENSIONS:RADIUS"),
            ("neighbor_alltoall", ("-N", "cart:1"), "-N cart:1: expected cart:DIMENSIONS:RADIUS"),
            ("latency", ("-t", "2"), "-t: this program has neither threads"),
            ("latency_mt", ("-t", "2:"), "-t: expected [SENDERS:]RECEIVERS, threads from 1 to 128"),
            ("latency_mp", ("-t", "129"), "-t: expected [SENDERS:]RECEIVERS, processes from 1 to 128"),
            ("latency", ("-q", "2"), "-q: this program has no partitions"),
            ("partitioned_latency", ("-q", "3", "-m", "8:64"), "-m: the smallest size, 8, is not a multiple of 3"),
            ("latency", ("-T", "mpi_double"), "-T mpi_double: expected all or some of mpi_char,mpi_int,mpi_float"),
            ("latency", ("-T", "mpi_int,"), "-T mpi_int,: expected all or some"),
            ("latency", ("-T", "mpi_int", "-m", "6:64"), "-m: the smallest size, 6, is not a multiple of 4"),
            ("latency", ("-T", "all", "-m", "6,10"), "-m: no size is a multiple of 4, as mpi_int needs"),
            ("bcast", ("-l",), "-l: this program has no call with MPI_IN_PLACE"),
            ("barrier", ("-T", "all"), "-T: this program has no data"),
            ("allreduce", ("-D", "cont"), "-D: only programs that move data have derived datatypes"),
            ("latency", ("-D", "rows"), "-D rows: expected cont, vect:STRIDE:BLOCKLENGTH or indx:FILE"),
            ("latency", ("-D", "vect:2:3"), "-D vect:2:3: expected vect:STRIDE:BLOCKLENGTH in elements"),
            ("latency", ("-D", "vect:8"), "-D vect:8: expected vect:STRIDE:BLOCKLENGTH in elements"),
            ("latency", ("-D", "vect:5:3", "-m", "8:64"), "-m: the smallest size, 8, is not a multiple of 3"),
            ("latency", ("-D", "indx:/nonexistent"), "-D indx:/nonexistent: the file cannot be read (No such file"),
            ("latency", ("-D", "indx:/dev/null"), "-D indx:/dev/null: the file lists no block"),
            ("latency", ("-D", "indx:" + __file__), f"-D indx:{__file__}: line 5: expected DISPLACEMENT,LENGTH"),
            ("allgather", ("-D", "vect:4096:1", "-M", "64K", "-m", "64:64"), "a buffer of 516098 bytes is above"),
            ("init", ("--frob",), "expected [-I] [--json FILE]"),
            ("ibcast", ("-t", "0"), "-t 0: expected a whole number from 1 to 1000000"),
        ):
            status, out, err = start(program, *options)
            self.assertEqual(status, 2, (options, out, err))
            self.assertIn(f"{program}: {says}" if not says.startswith("is ") else says, err)
            self.assertEqual(out, "")
        status, _, err = start("latency", ranks=3)
        self.assertEqual(status, 2)
        self.assertIn("latency: needs exactly 2 ranks, not 3", err)

    def test_help_and_version(self):
        for program in HEADERS:
            status, out, _ = start(program, "--help")
            self.assertEqual(status, 0)
            self.assertIn(f"Usage: {program} [options]", out)
            self.assertRegex(start(program, "-v")[1], r"^Weft MPI .* Test v[\d.]+\n$")

    def test_without_a_driver(self):
        missing = ("env", "WEFT_CUDA_DRIVER=/nonexistent/driver.so")
        status, out, err = start("latency", "-d", "cuda", "D", "D", before=missing)
        self.assertEqual(out, "")
        self.assertNotEqual(status, 0)  # 3 of the program, unless Weft's MPI_Init refuses the setting first
        self.assertRegex(err, r"/nonexistent/driver\.so")

    def test_validation_finds_bytes_in_gaps(self):
        with tempfile.TemporaryDirectory() as folder:
            library = corrupting_library(folder, MPICC)
            for where, program, options, says in (
                ("gap", "latency", ("-T", "mpi_int", "-D", "vect:2:1"), "written into a gap of a message"),
                ("last", "latency", ("-T", "mpi_float"), "message of 64 bytes: byte 63"),
                ("last", "allreduce", ("-T", "mpi_int"), "sum of 16 MPI_INT: element 15"),
                ("last", "allreduce", ("-T", "mpi_char"), "sum of 64 MPI_SIGNED_CHAR: element 63"),
            ):
                before = ("env", "LD_PRELOAD=" + library, "CORRUPT=" + where)
                status, out, err = start(program, *QUICK, "-m", "16:64", "-c", *options, before=before)
                self.assertEqual(status, 1, (program, where, out, err))
                self.assertEqual((rows(out)[0][-1], rows(out)[2][-1]), ("Pass", "Fail"), out)
                self.assertIn(says, err)

    def test_validation_finds_a_wrong_byte(self):
        with tempfile.TemporaryDirectory() as folder:
            library = corrupting_library(folder, MPICC)
            for program in HEADERS:
                for where, says in (("last", "instead of"), ("behind", "written behind the message")):
                    before = ("env", "LD_PRELOAD=" + library, "CORRUPT=" + where)
                    window = ("-W", "4") if "bw" in program else ()
                    status, out, err = start(program, *QUICK, "-m", "32:128", "-c", *window, before=before)
                    self.assertEqual(status, 1, (program, where, out, err))
                    self.assertEqual([row[-1] for row in rows(out)], ["Pass", "Fail", "Fail"], (program, where))
                    self.assertTrue(re.search(says, err), err)
                    self.assertIn(f"{program}: validation failed", err)


if __name__ == "__main__":
    unittest.main()
