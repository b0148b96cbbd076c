# SPDX-License-Identifier: BSD-3-Clause
# A PMI-1 server that counts messages and simulates other processes, and jobs of scale.c below it.
import json
import os
import re
import resource
import selectors
import socket
import statistics
import subprocess
from collections import defaultdict

KINDS = ("messages", "bytes", "put", "get", "barrier_in")
BYTES_PER_RANK = 16  # of the job, in a process (docs/scale.md)
PAGES_KIB = 16  # by which equal processes differ
KEPT_OUT = ("PMI", "WEFT_", "OMPI_", "SLURM_")  # variables of the job of this program
KEPT = ("WEFT_NET_UCX_LIBRARY", "WEFT_NET_OFI_LIBRARY")


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


class Run:
    """A job of `size` processes, `local` on each host, of which the first `started` are real. `stage`: the argument of
    scale.c. `fake_hosts`: the hosts into which Weft splits the machine."""

    def __init__(self, size, local, started, stage, network="", fake_hosts=1):
        self.size, self.local, self.started, self.stage = size, local, started, stage
        self.network, self.fake_hosts = network, fake_hosts
        self.counts, self.lines = {}, []

    def run(self, program, prefix):
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))  # two for each process
        server = Server(self.size, self.local, self.started)
        environment = clean_environment(prefix, self.network)
        # Whether UCX's thread has an arena of its own, of 148 KiB, would depend on when it first runs.
        environment.update(PMI_PORT=server.address, WEFT_FAKE_HOSTS=str(self.fake_hosts), MALLOC_ARENA_MAX="1")
        processes = [
            subprocess.Popen([program, self.stage], env=dict(environment, PMI_ID=str(rank)), stdout=subprocess.PIPE,
                             text=True)
            for rank in range(self.started)
        ]  # fmt: skip
        server.serve()
        texts = [line for process in processes for line in process.communicate()[0].splitlines()]
        self.lines = [json.loads(text) for text in texts if text.startswith("{")]  # not those of UCX
        if any(process.returncode for process in processes):
            raise SystemExit("scale: a process of the job failed")
        self.counts = {rank: counts for rank, counts in server.counts.items() if rank >= 0}
        return self

    def at(self, stage):
        """The lines of all processes at that stage."""
        return [line for line in self.lines if line["stage"] == stage]

    def mean(self, key, stage):
        return sum(line[key] for line in self.at(stage)) / self.started

    def median(self, key, stage):
        """The lower one of two in the middle: a thread of the network library makes some processes larger."""
        return statistics.median_low(line[key] for line in self.at(stage))

    def private(self, stage):
        """KiB of private memory of a process since its start."""
        return self.median("private", stage) - self.median("private", "start")

    def mean_count(self, kind):
        return sum(counts[kind] for counts in self.counts.values()) / self.started


def clean_environment(prefix, network):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(KEPT_OUT) or k in KEPT}
    paths = [os.path.join(prefix, "lib"), *filter(None, [environment.get("LD_LIBRARY_PATH")])]
    environment["LD_LIBRARY_PATH"] = ":".join(paths)
    if network:
        environment["WEFT_NET"] = network
    return environment
