#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The Jacobi solver under mpiexec: every variant gives the single-device result for every partition of the rows; invalid
# options are refused with their range. JACOBI_PROGRAM and MPIEXEC may name other builds.
import contextlib
import math
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import tempfile
import unittest
import zlib

PREFIX = os.environ.get("MPI_PREFIX", "")
PROGRAM = os.environ.get("JACOBI_PROGRAM") or os.path.join(PREFIX, "libexec", "weft", "jacobi")
MPIEXEC = shlex.split(os.environ.get("MPIEXEC", "")) or [os.path.join(PREFIX, "bin", "mpiexec")]
RANKS = int(os.environ.get("JACOBI_RANKS", "2"))
SIMULATED = os.environ.get("JACOBI_SIMULATED")  # a driver without a GPU
DEVICE = os.environ.get("JACOBI_DEVICE", "host")
ITERATIONS = int(os.environ.get("JACOBI_NITER", "57"))
VARIANTS = ("cuda_aware", "host_staged", "overlap", "window")
if DEVICE == "cuda" and not SIMULATED:
    VARIANTS += ("stream", "device")  # their MPI calls and kernel need a GPU
VARIANTS = tuple(os.environ.get("JACOBI_VARIANTS", " ".join(VARIANTS)).split())
UNIT = "GPU" if DEVICE == "cuda" else "rank"


def jacobi(*options, device=DEVICE):
    """Returns (status, output, errors) of a run."""
    preload = ["env", "LD_PRELOAD=" + SIMULATED, "JACOBI_CUDA_DRIVER=" + SIMULATED] if SIMULATED else []
    words = [*MPIEXEC, "-n", str(RANKS), *preload, PROGRAM, *map(str, options)]
    if device:
        words += ["-device", device]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def read_png(path):
    """Returns (width, height, rows of palette entries, palette) of a palette image."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        name, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        (crc,) = struct.unpack(">I", data[at + 8 + size : at + 12 + size])
        assert crc == zlib.crc32(name + content)
        chunks[name] = content
        at += 12 + size
    width, height, depth, colours = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colours, data[-8:-4]) == (8, 3, b"IEND")
    lines = zlib.decompress(chunks[b"IDAT"])
    rows = [lines[y * (width + 1) : (y + 1) * (width + 1)] for y in range(height)]
    assert len(lines) == height * (width + 1) and all(row[0] == 0 for row in rows)
    return width, height, [row[1:] for row in rows], chunks[b"PLTE"]


def solution(nx, ny, iterations):
    """Returns the grid after some sweeps, by a slow reference."""
    edge = [math.sin(2 * math.pi * y / (ny - 1)) for y in range(ny)]
    old = [[edge[y]] + [0.0] * (nx - 2) + [edge[y]] for y in range(ny)]
    for _ in range(iterations):
        new = [row[:] for row in old]
        for y in range(1, ny - 1):
            for x in range(1, nx - 1):
                new[y][x] = (old[y - 1][x] + old[y + 1][x] + old[y][x - 1] + old[y][x + 1]) / 4
        new[0], new[ny - 1] = new[ny - 2][:], new[1][:]
        new[0][0] = new[0][-1] = edge[0]
        new[ny - 1][0] = new[ny - 1][-1] = edge[-1]
        old = new
    return old


def several(count, unit):
    return "%d %s%s" % (count, unit, "" if count == 1 else "s")


class Jacobi(unittest.TestCase):
    def check(self, *options):
        status, out, err = jacobi(*options)
        self.assertEqual(status, 0, f"{options}\n{out}{err}")
        found = re.search(r"Largest difference to the result of one \w+: (\S+) \((\d+) and (\d+) iterations\): ok", out)
        self.assertIsNotNone(found, out)
        self.assertEqual(float(found.group(1)), 0.0, out)  # the same arithmetic for each cell: no rounding differences
        self.assertEqual(found.group(2), found.group(3))
        return out, int(found.group(2))

    def test_equals_one_device(self):
        for variant in VARIANTS:
            fewest = (2 if variant == "device" else 1) * RANKS + 2
            for nx, ny in ((64, fewest), (132, 21), (257, 12), (3, 9)):  # the fewest rows; uneven; odd width
                self.check("-nx", nx, "-ny", ny, "-niter", ITERATIONS, "-variant", variant)

    def test_checks_of_the_norm_do_not_change_the_result(self):
        for variant in VARIANTS:
            for every in (1, 7, 1000):
                size = ("-nx", 96, "-ny", 17, "-niter", ITERATIONS)
                _, iterations = self.check(*size, "-nccheck", every, "-variant", variant)
                self.assertEqual(iterations, ITERATIONS)

    def test_stops_at_the_tolerance(self):
        counts = set()
        for variant in VARIANTS:
            _, iterations = self.check("-nx", 10, "-ny", 12, "-niter", 100000, "-variant", variant)
            counts.add(iterations)
        self.assertEqual(len(counts), 1)
        self.assertLess(counts.pop(), 5000)

    def test_output(self):
        out, _ = self.check("-nx", 64, "-ny", 32, "-niter", 101)
        self.assertRegex(out, r"(?m)^ +0, \d+\.\d{6}$")
        self.assertRegex(out, r"(?m)^ +100, \d+\.\d{6}$")
        self.assertIn("Num %ss: %d." % (UNIT, RANKS), out)
        times = r"(?m)^64x32: 1 %s: +[\d.]+ s, %s: +[\d.]+ s, speedup: +[\d.]+, efficiency: +[\d.]+$"
        self.assertRegex(out, times % (UNIT, several(RANKS, UNIT)))
        self.assertEqual("no GPU: host memory" in out, DEVICE == "host")

    def test_csv_and_skip(self):
        status, out, err = jacobi("-nx", 64, "-ny", 32, "-niter", 5, "-csv")
        self.assertEqual(status, 0, err)
        self.assertRegex(out, r"^mpi, 64, 32, 5, 1, %d, 1, \d+\.\d+, \d+\.\d+\n$" % RANKS)
        status, out, err = jacobi("-nx", 64, "-ny", 32, "-niter", 5, "-csv", "-skip_single_gpu", "-variant", "overlap")
        self.assertEqual(status, 0, err)
        self.assertRegex(out, r"^mpi_overlap, 64, 32, 5, 1, %d, 1, \d+\.\d+, nan\n$" % RANKS)
        status, out, _ = jacobi("-nx", 64, "-ny", 32, "-niter", 5, "-skip_single_gpu")
        self.assertEqual(status, 0)
        self.assertRegex(out, rf"(?m)^64x32: {several(RANKS, UNIT)}: +[\d.]+ s$")

    def test_picture(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.png")
            self.check("-nx", 9, "-ny", 14, "-niter", 6, "-plot", path)
            width, height, rows, palette = read_png(path)
            self.assertEqual((width, height), (9, 14))
            wanted = solution(9, 14, 6)
            for y in range(1, 13):  # the two outer rows are copies
                for x in range(9):
                    self.assertAlmostEqual(rows[y][x], 127 + 127 * wanted[y][x], delta=1, msg=(x, y))
            blue, white, orange = palette[:3], palette[3 * 127 : 3 * 128], palette[3 * 254 : 3 * 255]
            self.assertTrue(blue[2] > blue[0] and min(white) > 230 and orange[0] > orange[2])
            self.check("-nx", 2050, "-ny", 40, "-niter", 2, "-plot", path)  # every third cell
            width, height, rows, _ = read_png(path)
            self.assertEqual((width, height), (684, 14))
            self.assertEqual({row[300] for row in rows}, {127})
            self.assertEqual(os.listdir(folder), ["a.png"])
            for name, says in (("a.jpg", "expected FILE.png"), ("no/a.png", "cannot be written (No such file")):
                status, out, err = jacobi("-nx", 9, "-ny", 14, "-plot", os.path.join(folder, name))
                self.assertNotEqual(status, 0)
                self.assertIn(says, err)
                self.assertNotIn("speedup", out)

    def test_progress_bar(self):
        size = ["-nx", "600", "-ny", "600", "-niter", "100000", "-nccheck", "1000", "-skip_single_gpu"]
        size += ["-device", "host"]
        words = [*MPIEXEC, "-n", str(RANKS), PROGRAM, *size]
        child, terminal = pty.fork()
        if child == 0:
            os.environ["TERM"] = "xterm"
            os.execv(words[0], words)
        shown = b""
        while b"%, norm" not in shown:  # raises if the terminal closes before
            shown += os.read(terminal, 4096)
        os.kill(child, signal.SIGTERM)
        with contextlib.suppress(OSError):
            while os.read(terminal, 4096):
                pass
        os.close(terminal)
        os.waitpid(child, 0)
        self.assertIn(b"\rDistributed [", shown)
        size[5] = "3000"
        done = subprocess.run([*words[: -len(size)], *size], capture_output=True, start_new_session=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(b"%, norm", done.stdout + done.stderr)

    def test_refusals(self):
        for options, says in (
            (("-nx", 2), "-nx 2: expected a whole number from 3 to 1073741824"),
            (("-ny", "x"), "-ny x: expected a whole number from 3 to 1073741824"),
            (("-niter", 0), "-niter 0: expected a whole number from 1 to 1000000000"),
            (("-nccheck", "1.5"), "-nccheck 1.5: expected a whole number from 1 to 1000000000"),
            (
                ("-variant", "fast"),
                "-variant fast: expected one of cuda_aware, host_staged, overlap, window, stream, device",
            ),
            (("-variant", "stream", "-device", "host"), "-variant stream: needs a GPU on every rank"),
            (("-device", "rocm"), "-device rocm: expected one of auto, cuda, host"),
            (("-size", 5), "-size: unknown option"),
            (("12",), "12: unexpected argument"),
            (("-nx",), "-nx: its value is missing"),
        ):
            status, out, err = jacobi(*options, device=None)
            self.assertNotEqual(status, 0, options)
            self.assertIn("jacobi: " + says, err)
            self.assertNotIn("speedup", out)
        if RANKS > 1:
            status, _, err = jacobi("-ny", RANKS + 1)
            self.assertNotEqual(status, 0)
            self.assertIn("ranks need at least %d rows" % (RANKS + 2), err)


if __name__ == "__main__":
    unittest.main()
