# SPDX-License-Identifier: BSD-3-Clause
# Jobs of real processes on fake hosts for scale.py: the model of docs/scale.md beside measured points, and the time to
# start and end a program that does nothing, compared with MPICH under Hydra.
import json
import math
import os
import resource
import statistics
import subprocess
import time

from scale_server import BYTES_PER_RANK, KINDS, Run, clean_environment

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RANKS_PER_HOST = 8
AGREES, SHRINKS = "5", "1"
LIMIT = 600  # seconds of one command
EMPTY = "#include <mpi.h>\nint main(int argc, char** argv) { MPI_Init(&argc, &argv); return MPI_Finalize(); }\n"
# Bars: time of Weft to that of MPICH; measured figures to the model.
START_BAR, MODEL_BAR = 0.5, (0.9, 1.1)


def model_private(base, size):
    """KiB of private memory after MPI_Init. `base`: (size, KiB) of a small job with as many ranks on a host."""
    return base[1] + (size - base[0]) * BYTES_PER_RANK / 1024


def model_messages(hosts):
    """Messages of a rank to the launcher from MPI_Init to MPI_Finalize, mean, on a power of 2 of hosts: 11, and of the
    first rank of each host one for each address of another one, at the distances 1, 2, 4, ... in both directions."""
    return 11 + (2 * math.log2(hosts) - 1) / RANKS_PER_HOST


def hosts_rows(program, prefix, network, sizes):
    """One row for each size; the first is the base of the model."""
    rows = []
    for size in sizes:
        run = Run(size, size, size, "end", network, size // RANKS_PER_HOST).run(program, prefix)
        row = {"ranks": size, "hosts": size // RANKS_PER_HOST, "network": network or "auto"}
        row.update({kind: round(run.mean_count(kind), 1) for kind in KINDS})
        row["model: messages"] = round(model_messages(row["hosts"]), 1)
        row["most messages"] = max(counts["messages"] for counts in run.counts.values())
        row["private KiB"] = round(run.private("init"), 1)
        row["shared KiB"] = round(run.mean("shared", "init"), 1)
        row["private KiB at the end"] = round(run.private("end"), 1)
        base = (rows[0]["ranks"], rows[0]["private KiB"]) if rows else (size, row["private KiB"])
        row["model: private KiB"] = round(model_private(base, size), 1)
        row["sockets"] = max(line["sockets"] for line in run.at("init"))
        rows.append(row)
        print(
            "%(ranks)4d ranks on %(hosts)3d hosts: %(messages).1f messages, model %(model: messages).1f, %(bytes).0f bytes; "
            "%(private KiB).1f KiB private, model %(model: private KiB).1f, %(private KiB at the end).1f at the end" % row,
            flush=True,
        )  # fmt: skip
    return rows


def fault_rows(folder, prefix, network, sizes):
    """Agreements and the detection of a death, in us."""
    program = build(
        os.path.join(prefix, "bin", "mpicc"), os.path.join(ROOT, "bench", "fault_tolerance.c"), folder, "ft"
    )
    rows = []
    for size in sizes:
        environment = clean_environment(prefix, network)
        environment["WEFT_FAKE_HOSTS"] = str(size // RANKS_PER_HOST)
        command = [os.path.join(prefix, "bin", "mpiexec"), "--continue-on-failure", "-n", str(size), program]
        done = subprocess.run([*command, AGREES, SHRINKS], env=environment, stdin=subprocess.DEVNULL, timeout=LIMIT,
                              capture_output=True, text=True, check=False)  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if not lines:
            raise SystemExit("scale: no figures of %d ranks\n%s" % (size, done.stderr[-1000:]))
        figures = json.loads(lines[0])
        row = {"ranks": size, "hosts": size // RANKS_PER_HOST, "left": figures["left"]}
        row.update({name: figures[name] for name in ("agree", "detection", "agree after a failure")})
        rows.append(row)
        print("%(ranks)4d ranks: agree %(agree).0f us, death noticed by all after %(detection).0f us" % row, flush=True)
    return rows


def build(compiler, source, folder, name):
    program = os.path.join(folder, name)
    subprocess.run([compiler, "-std=gnu99", "-O2", source, "-o", program], check=True)
    return program


def timed(command, environment):
    """Returns seconds by the clock and of all processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, timeout=LIMIT, check=True)
    seconds = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start_rows(folder, prefix, network, mpich, size, rounds):
    """Time of an empty program on as many hosts under both launchers, in alternating rounds. Hydra's fork launcher
    starts a proxy for each name of a host."""
    source = os.path.join(folder, "empty.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write(EMPTY)
    hosts = size // RANKS_PER_HOST
    weft = clean_environment(prefix, network)
    weft["WEFT_FAKE_HOSTS"] = str(hosts)
    names = ",".join("h%d" % host for host in range(hosts))
    hydra = ["-launcher", "fork", "-hosts", names, "-ppn", str(RANKS_PER_HOST)]
    jobs = {}
    for name, root, options, environment in (
        ("Weft", prefix, [], weft),
        ("MPICH", mpich, hydra, {k: v for k, v in clean_environment(mpich, "").items() if k != "LD_LIBRARY_PATH"}),
    ):
        program = build(os.path.join(root, "bin", "mpicc"), source, folder, "empty-" + name)
        command = [os.path.join(root, "bin", "mpiexec"), *options, "-n", str(size), program]
        jobs[name] = (command, environment)
    times = {name: [] for name in jobs}
    for number in range(rounds):
        for name in sorted(jobs, reverse=number % 2 == 0):
            times[name].append([round(value, 2) for value in timed(*jobs[name])])
            print("%-5s %4d ranks: %.2f s, %.2f s of the cores" % (name, size, *times[name][-1]), flush=True)
    row = {"ranks": size, "hosts": hosts, "rounds": times}
    for index, what in enumerate(("seconds", "core seconds")):
        pairs = list(zip(times["Weft"], times["MPICH"], strict=True))
        row["ratio of " + what] = round(statistics.median(one[index] / other[index] for one, other in pairs), 3)
    return row


def judge(hosts, start):
    """Prints the bars; returns whether one is missed."""
    least, most = MODEL_BAR
    missed = False
    for name in ("private KiB", "messages"):
        worst = max((row[name] / row["model: " + name] for row in hosts), key=lambda ratio: abs(ratio - 1))
        print("%s to the model: %.3f, allowed %.1f to %.1f" % (name, worst, least, most))
        missed |= not least <= worst <= most
    if start:
        print("start and end to MPICH: %(ratio of seconds).3f, of the cores %(ratio of core seconds).3f" % start)
        missed |= max(start["ratio of seconds"], start["ratio of core seconds"]) > START_BAR
    return missed
