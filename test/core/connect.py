#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Two jobs, started by two mpiexecs, connect and disconnect. usage: connect.py PROGRAM [CONNECTIONS | random SEEDS].
# With `random`, several jobs connect and disconnect in turn, in an order given by the seed.
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
SEEDS = int(sys.argv.pop(3)) if sys.argv[2:3] == ["random"] else 0
if SEEDS:
    sys.argv.pop(2)
CONNECTIONS = int(sys.argv.pop(2)) if len(sys.argv) > 2 else 3
NIGHTLY = CONNECTIONS > 3
from support import PEER as PROGRAM  # noqa: E402
from support import Mark, start  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "network"))
from needs import exists  # noqa: E402

NO_SINGLE_COPY = (
    "weft: slow path p2p.no_single_copy (disabled by WEFT_SHM_SINGLE_COPY=off): two copies through shared memory, "
    "about half the bandwidth\n"
)
WITHDRAWN = re.compile(  # when the job accepts the request before it receives the withdrawal
    r"weft: a process of another job cannot connect: (the process has withdrawn its connect request "
    r"\(jobs.connect_timeout_s\)|shared memory: connecting to a process of the other job failed .*)\n"
)
NETWORKS = {"ucx": ("libucp.so.0", {"UCX_TLS": "tcp"}), "ofi": ("libfabric.so.1", {"FI_PROVIDER": "tcp"})}


class Jobs(unittest.TestCase):
    def setUp(self):
        self.mark = Mark()
        self.folder = tempfile.TemporaryDirectory()
        self.hung = False

    def tearDown(self):
        self.folder.cleanup()

    def collect(self, jobs):
        """[(exit code, output, errors)]; no process is left."""
        results = []
        end = time.monotonic() + 100
        for job in jobs:
            try:
                output, errors = job.communicate(timeout=max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.hung = True
                for hung in jobs:
                    hung.terminate()
                output, errors = job.communicate()
            results.append((job.returncode, output, errors))
        self.assertFalse(self.hung, f"no end within 100 s: {results}")
        self.assertEqual(self.mark.processes(), [])
        return results

    def check_good(self, results, ranks=(2, 2)):
        for (status, output, errors), size in zip(results, ranks):
            self.assertEqual((status, output.count("good")), (0, size), f"{results}")
            self.assertEqual(errors.replace(NO_SINGLE_COPY, ""), "", f"{results}")


@unittest.skipIf(SEEDS, "random")
class Connect(Jobs):
    def run_jobs(self, mode, connections=1, ranks=(2, 2), connector=None, only=None, **variables):
        """[(exit code, output, errors)] of the accepting and the connecting job. The other job is killed if only one
        of them is to end by itself."""
        address = os.path.join(self.folder.name, "address")
        jobs = []
        for role, size in zip(("accept", "connect"), ranks):
            own = {**self.mark.variables, **variables, **(connector or {} if role == "connect" else {})}
            jobs.append(start("-n", size, PROGRAM, role, address, mode, connections, variables=own, text=True))
        if only is not None:
            jobs[only].wait(timeout=60)
            jobs[1 - only].terminate()
        return self.collect(jobs)

    def test_messages_between_jobs_and_inside_of_them(self):
        for ranks in ((2, 2), (1, 1), (1, 3)):
            with self.subTest(ranks):
                self.check_good(self.run_jobs("traffic", CONNECTIONS, ranks), ranks)

    def test_without_single_copy(self):
        self.check_good(self.run_jobs("traffic", WEFT_SHM_SINGLE_COPY="off"))

    def test_jobs_end_while_they_are_connected(self):
        self.check_good(self.run_jobs("exits"))

    def check_killed(self, **variables):
        (status, output, errors), (killed, _, _) = self.run_jobs("killed", **variables)
        self.assertEqual((status, output.count("good")), (0, 2), errors)
        self.assertEqual(killed, 137)
        return max(float(line.split()[-2]) for line in errors.splitlines() if "loss noticed" in line)

    def test_a_killed_job_is_noticed(self):
        self.assertLess(self.check_killed(), 2)

    def test_jobs_with_different_settings_do_not_connect(self):
        results = self.run_jobs("traffic", connector={"WEFT_COLL_SHARED": "off"}, only=1)
        self.assertEqual(results[1][0], 3)
        self.assertIn("WEFT_COLL_SHARED is off", results[1][2])

    def test_over_a_network(self):
        for network, (library, variables) in NETWORKS.items():
            if not exists(library):
                print(f"no {library}", file=sys.stderr)
                continue
            other = {"WEFT_FIRST_FAKE_HOST": "1"}
            for hosts in ({}, {"WEFT_FAKE_HOSTS": "2"}) if NIGHTLY else ({"WEFT_FAKE_HOSTS": "2"},):
                with self.subTest(network, **hosts):
                    results = self.run_jobs(
                        "traffic",
                        3 if NIGHTLY else 2,
                        connector=other,
                        TEST_REACH="anywhere",
                        WEFT_NET=network,
                        **variables,
                        **hosts,
                    )
                    self.check_good(results)
            if NIGHTLY:
                with self.subTest(network, killed=True):
                    self.check_killed(connector=other, TEST_REACH="anywhere", WEFT_NET=network, **variables)

    def test_a_request_that_times_out_is_not_accepted_later(self):
        results = self.run_jobs("withdrawn")
        self.check_good([(*result[:2], WITHDRAWN.sub("", result[2])) for result in results])

    def test_a_late_reply_to_a_request_that_timed_out(self):
        with self.subTest("shared memory"):
            self.check_good(self.run_jobs("late_reply", 1, (1, 1)), (1, 1))
        library, variables = NETWORKS["ucx"]  # not libfabric: src/core/README.md
        if not exists(library):
            return
        with self.subTest("ucx"):
            other = {"WEFT_FIRST_FAKE_HOST": "1"}
            results = self.run_jobs("late_reply", 1, (1, 1), other, TEST_REACH="anywhere", WEFT_NET="ucx", **variables)
            self.check_good(results, (1, 1))

    def test_a_process_that_dropped_the_connection_answers_the_disconnect_notice(self):
        with self.subTest("shared memory"):
            self.check_good(self.run_jobs("abandoned", 1, (1, 1)), (1, 1))
        for network, (library, variables) in NETWORKS.items():
            if not exists(library):
                continue
            with self.subTest(network):
                hosts = {"TEST_REACH": "anywhere", "WEFT_NET": network, **variables}
                results = self.run_jobs("abandoned", 1, (1, 1), {"WEFT_FIRST_FAKE_HOST": "1"}, **hosts)
                self.check_good(results, (1, 1))

    def test_a_network_that_cannot_be_opened_is_named(self):
        missing = {"WEFT_NET": "ucx", "WEFT_NET_UCX_LIBRARY": "/missing.so"}
        results = self.run_jobs("traffic", only=0, TEST_REACH="anywhere", **missing)
        self.assertEqual(results[0][0], 3)
        self.assertIn("no network can be opened:\n  ucx: ", results[0][2])

    def test_an_address_without_a_network_is_refused_by_other_hosts(self):
        results = self.run_jobs("traffic", connector={"WEFT_FIRST_FAKE_HOST": "1"}, only=1)
        self.assertEqual(results[1][0], 3)
        self.assertIn("has opened no network", results[1][2])


@unittest.skipUnless(SEEDS, "not random")
class RandomConnections(Jobs):
    """Several jobs connect and disconnect in turn, while messages of their other connections are in flight."""

    def run_jobs(self, seed, steps, hosts, **variables):
        generator = random.Random(seed)
        ranks = [generator.randint(1, 2) for _ in hosts]
        file = os.path.join(self.folder.name, "address")
        jobs = []
        for number, (size, host) in enumerate(zip(ranks, hosts)):
            own = {**self.mark.variables, **variables, "WEFT_FIRST_FAKE_HOST": host}
            command = (PROGRAM, number, file, "random", steps, seed, hosts)
            jobs.append(start("-n", size, *command, variables=own, text=True))
        self.check_good(self.collect(jobs), ranks)

    def test_on_one_host(self):
        if not any(exists(library) for library, _ in NETWORKS.values()):
            self.skipTest("no network library: as the next test")
        for seed in range(1, SEEDS + 1):
            with self.subTest(seed=seed):
                self.run_jobs(seed, 8 if SEEDS == 1 else 40, "000", WEFT_NET="auto")

    def test_on_one_host_without_a_network(self):
        for seed in range(1, SEEDS + 1):
            with self.subTest(seed=seed):
                self.run_jobs(seed, 8 if SEEDS == 1 else 40, "000", WEFT_NET="none", TEST_NO_NETWORK="1")

    def test_on_several_hosts(self):
        for network, (library, variables) in NETWORKS.items():
            if not exists(library):
                print(f"no {library}", file=sys.stderr)
                continue
            for seed in range(1, SEEDS + 1):
                with self.subTest(network, seed=seed):
                    self.run_jobs(seed, 8 if SEEDS == 1 else 40, "001", WEFT_NET=network, **variables)


if __name__ == "__main__":
    begin = time.monotonic()
    unittest.main(verbosity=2)
