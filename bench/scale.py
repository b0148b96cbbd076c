#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Cost of the job's size for one process: messages and bytes to the launcher, memory, time of MPI_Init. A PMI-1 server
# in this program counts them. It can simulate a job far larger than the machine with one real host, since MPI_Init
# communicates only with the launcher and the own host.
import argparse
import json
import os
import platform
import re
import selectors
import socket
import subprocess
import sys
import tempfile
from collections import defaultdict

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULT = os.path.join(ROOT, "bench", "results", "scale.json")


class Server:
    """PMI-1 server over TCP for the first `started` of `size` processes, on hosts of `local` processes each."""

    def __init__(self, size, local, started):
        self.size, self.local, self.started = size, local, started
        self.values = {}
        self.waiting = []
        self.counts = defaultdict(lambda: defaultdict(int))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        self.left = started

    @property
    def address(self):
        return "127.0.0.1:%d" % self.listener.getsockname()[1]

    def serve(self):
        while self.left:
            ready = self.selector.select(60)
            if not ready:
                raise SystemExit("scale: no message from any process for a minute")
            for key, _ in ready:
                if key.data is None:
                    connection, _ = self.listener.accept()
                    self.selector.register(connection, selectors.EVENT_READ, {"rank": -1, "text": b""})
                else:
                    self.read(key.fileobj, key.data)
        self.listener.close()

    def read(self, connection, peer):
        try:
            bytes_read = connection.recv(65536)
        except ConnectionResetError:
            bytes_read = b""
        if not bytes_read:
            self.selector.unregister(connection)
            connection.close()
            self.left -= 1
            return
        peer["text"] += bytes_read
        while b"\n" in peer["text"]:
            line, peer["text"] = peer["text"].split(b"\n", 1)
            fields = dict(word.split("=", 1) for word in line.decode().split())
            self.handle(connection, peer, fields, len(line) + 1)

    def handle(self, connection, peer, fields, length):
        command = fields["cmd"]
        if command == "initack":
            peer["rank"] = int(fields["pmiid"])
        counts = self.counts[peer["rank"]]
        kind = command if command in ("put", "get", "barrier_in") else "other"
        counts[kind] += 1
        counts["messages"] += 1
        counts["bytes"] += length
        if command == "barrier_in":
            self.waiting.append((connection, counts))
            if len(self.waiting) == self.started:
                for other, theirs in self.waiting:
                    self.reply(other, theirs, "cmd=barrier_out rc=0\n")
                self.waiting = []
            return
        self.reply(connection, counts, self.text_for(command, peer["rank"], fields))

    @staticmethod
    def reply(connection, counts, text):
        counts["bytes"] += len(text)
        connection.sendall(text.encode())

    def text_for(self, command, rank, fields):
        if command == "initack":
            return "cmd=initack\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n" % (self.size, rank)
        if command == "abort":
            raise SystemExit("scale: process %d aborted" % rank)
        if command == "put":
            self.values[fields["key"]] = fields["value"]
            return "cmd=put_result rc=0 msg=success\n"
        if command == "get":
            # A simulated process has the values of rank 0.
            value = self.values.get(fields["key"]) or self.values.get(re.sub(r"\.\d+", ".0", fields["key"]))
            if fields["key"] == "PMI_process_mapping":
                value = "(vector,(0,%d,%d))" % (-(-self.size // self.local), self.local)
            return "cmd=get_result rc=%d msg=x value=%s\n" % (0 if value else -1, value or "unknown")
        return {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
            "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n",
            "get_my_kvsname": "cmd=my_kvsname kvsname=scale\n",
            "get_appnum": "cmd=appnum appnum=0\n",
            "finalize": "cmd=finalize_ack rc=0\n",
        }[command]


def measure(program, prefix, size, local, started, stage, network):
    """Returns means over the real processes of a job of `size` processes."""
    server = Server(size, local, started)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PMI", "WEFT_", "OMPI_", "SLURM_"))}
    environment.update(PMI_PORT=server.address, LD_LIBRARY_PATH=os.path.join(prefix, "lib"))
    if network:
        environment["WEFT_NET"] = network
    command = [program, "init"] if stage == "init" else [program]
    processes = [
        subprocess.Popen(command, env=dict(environment, PMI_ID=str(rank)), stdout=subprocess.PIPE, text=True)
        for rank in range(started)
    ]
    server.serve()
    lines = [json.loads(line) for process in processes for line in process.communicate()[0].splitlines()]
    if any(process.returncode for process in processes):
        raise SystemExit("scale: a process of the job failed")
    row = {"ranks": size, "ranks a host": local, "started": started, "network": network or "auto"}
    for kind in ("messages", "bytes", "put", "get", "barrier_in"):
        row[kind] = round(sum(counts[kind] for rank, counts in server.counts.items() if rank >= 0) / started, 1)
    base = [line for line in lines if line["stage"] == "start"]
    for name in ("init", "everyone"):
        there = [line for line in lines if line["stage"] == name]
        if not there:
            continue
        mean = lambda key, of: sum(line[key] for line in of) / len(of)  # noqa: E731
        row[name] = {
            "seconds": round(mean("seconds", there), 4),
            "private KiB": round(mean("private", there) - mean("private", base)),
            "shared KiB": round(mean("shared", there)),
        }
    return row


def show(row):
    init = row["init"]
    print(
        "%7d ranks, %3d a host, %3d started, net %-5s %6.1f messages %8.0f bytes (%.1f put, %.1f get, %.1f fence); "
        "MPI_Init %.3f s, %d KiB private, %d KiB shared"
        % (row["ranks"], row["ranks a host"], row["started"], row["network"], row["messages"], row["bytes"],
           row["put"], row["get"], row["barrier_in"], init["seconds"], init["private KiB"], init["shared KiB"]),
        flush=True,
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description="Measures the cost of the job's size for one process.")
    parser.add_argument("--prefix", required=True, help="prefix of Weft")
    parser.add_argument("--most", type=int, default=64, help="largest job of real processes (64)")
    parser.add_argument("--simulated", default="1000,10000,100000,1000000", help="sizes of simulated jobs")
    parser.add_argument("--network", default="", help="value of WEFT_NET")
    parser.add_argument("--json", metavar="FILE", help="result file, such as " + os.path.relpath(RESULT, ROOT))
    chosen = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "scale")
        compiler = os.path.join(chosen.prefix, "bin", "mpicc")
        subprocess.run([compiler, "-O2", os.path.join(ROOT, "bench", "scale.c"), "-o", program], check=True)
        size = 2
        while size <= chosen.most:
            rows.append(measure(program, chosen.prefix, size, size, size, "everyone", chosen.network))
            show(rows[-1])
            size *= 2
        for size in map(int, filter(None, chosen.simulated.split(","))):
            rows.append(measure(program, chosen.prefix, size, 1, 1, "init", chosen.network))
            show(rows[-1])
    if chosen.json:
        with open(chosen.json, "w", encoding="utf-8") as file:
            cpus = len(os.sched_getaffinity(0))
            json.dump({"machine": {"system": platform.platform(), "cores": cpus}, "rows": rows}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
