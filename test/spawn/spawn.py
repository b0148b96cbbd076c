#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Spawned processes and jobs that connect, under mpiexec and without. usage: spawn.py PROGRAM [SPAWNS]
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "launch"))
SPAWNS = int(sys.argv.pop(2)) if len(sys.argv) > 2 else 0
from support import PEER as PROGRAM  # noqa: E402
from support import Mark, clean_environment, hydras, run, start  # noqa: E402

PRTERUN = os.environ.get("TEST_PRTERUN", "")


class Processes(unittest.TestCase):
    def setUp(self):
        self.mark = Mark()
        self.folder = os.path.realpath(tempfile.mkdtemp())

    def tearDown(self):
        self.mark.wait_until_gone(10)
        shutil.rmtree(self.folder)

    def run_job(self, *arguments, ranks=1, options=(), timeout=100, **variables):
        """(exit code, output, errors)"""
        return run(
            *options, "-n", ranks, PROGRAM, *arguments, variables={**self.mark.variables, **variables}, timeout=timeout
        )

    def run_alone(self, *arguments, **options):
        return run(*arguments, launcher=(PROGRAM,), variables=self.mark.variables, **options)

    def check_good(self, result, count):
        status, output, errors = result
        self.assertEqual((status, output.count("good"), errors), (0, count, ""), result)


@unittest.skipIf(SPAWNS, "many")
class Spawn(Processes):
    def test_messages_collectives_windows_and_files(self):
        for parents, children in ((1, 1), (2, 3)):
            with self.subTest(parents=parents, children=children):
                file = os.path.join(self.folder, f"file{parents}")
                self.check_good(self.run_job("parent", children, file, ranks=parents), parents + children)

    def test_a_process_without_a_launcher(self):
        self.check_good(self.run_alone("parent", "2", os.path.join(self.folder, "file")), 3)

    def test_under_hydra(self):
        for hydra in hydras():
            with self.subTest(hydra=hydra):
                file = os.path.join(self.folder, "hydra" + str(len(os.listdir(self.folder))))
                # Processes of one host need no network.
                options = {"launcher": (hydra,), "variables": {**self.mark.variables, "WEFT_NET": "none"}}
                self.check_good(run("-n", 2, PROGRAM, "parent", 2, file, **options, timeout=100), 4)
                self.check_good(run("-n", 3, PROGRAM, "halves", **options, timeout=100), 3)

    def prterun(self, *arguments, ranks=1, **variables):
        if not os.path.exists(PRTERUN):
            self.skipTest("needs Open MPI's prterun (TEST_PRTERUN)")
        prefix = os.path.dirname(os.path.dirname(PRTERUN))
        command = (PRTERUN, "--allow-run-as-root", "--prefix", prefix, "--map-by", "slot:OVERSUBSCRIBE")
        variables = {"WEFT_NET": "none", **self.mark.variables, **variables}
        return run("-n", ranks, PROGRAM, *arguments, launcher=command, variables=variables, timeout=100)

    def test_under_prterun(self):
        for parents, children in ((1, 2), (2, 1)):
            with self.subTest(parents=parents, children=children):
                file = os.path.join(self.folder, f"prterun{parents}")
                self.check_good(self.prterun("parent", children, file, ranks=parents), parents + children)

    def test_info_keys_under_prterun(self):
        keys = ("wd", self.folder, "env", "SPAWN_TEST=a b", "path", os.path.dirname(PROGRAM), "bind_to", "none")
        status, output, errors = self.prterun("info", os.path.basename(PROGRAM), 2, *keys)
        self.assertEqual((status, errors), (0, ""), output)
        self.assertIn("rank 0: class 0, 2 started, 0 not", output)
        self.assertEqual(output.count(f"folder {self.folder} variable a b"), 2, output)
        self.assertIn("'two words' ''", output)
        status, output, _ = self.prterun("info", "/no/such/program", 1)
        self.assertIn("rank 0: class 1, 0 started, 1 not", output)

    def test_a_program_without_mpi_under_prterun(self):
        _, output, _ = self.prterun("info", "/bin/true", 1)
        self.assertRegex(output, "ended before (its|their) job has called MPI_Init")

    def test_published_names_under_prterun(self):
        self.check_good(self.prterun("names", "weft test " + uuid.uuid4().hex), 1)

    def test_several_programs_in_one_job(self):
        status, output, errors = self.run_job("multiple", ranks=2)
        self.assertEqual((status, errors), (0, ""))
        lines = sorted(line for line in output.splitlines() if line.startswith("child"))
        self.assertEqual(
            [line.split(" folder")[0] for line in lines],
            [
                "child 0 of 3 app 0 arguments 'a'",
                "child 1 of 3 app 1 arguments 'b'",
                "child 2 of 3 app 1 arguments 'b'",
            ],
        )

    def test_many(self):
        status, output, errors = self.run_job("many", 30)
        self.assertEqual((status, errors), (0, ""), output)

    def test_output_is_tagged(self):
        _, output, _ = self.run_job("multiple", options=("--tag-output",))
        self.assertIn("[2,2]<stdout>: child 2 of 3", output)
        self.assertIn("[1,0]<stdout>: good", output)


@unittest.skipIf(SPAWNS, "many")
class Info(Processes):
    def info(self, command, processes, *keys, **options):
        """Lines of the parents and of the children."""
        status, output, errors = self.run_job("info", command, processes, *keys, **options)
        self.assertEqual((status, errors), (0, ""), output)
        lines = output.replace("line\nend", "line end").splitlines()
        return [line for line in lines if line.startswith("rank")], sorted(
            line for line in lines if line.startswith("child")
        )

    def test_arguments_and_default_directory(self):
        (parent,), (child,) = self.info(PROGRAM, 1)
        self.assertEqual(parent, "rank 0: class 0, 1 started, 0 not: ")
        self.assertIn("arguments 'two words' '' 'line end' folder " + os.getcwd(), child)

    def test_directory_environment_and_binding(self):
        keys = (
            "wdir",
            self.folder,
            "env",
            "SPAWN_TEST=a b\nOTHER=1",
            "bind_to",
            "core",
            "map_by",
            "slot:OVERSUBSCRIBE",
        )
        _, children = self.info(PROGRAM, 2, *keys, "host", "localhost", "arch", os.uname().machine)
        for child in children:
            self.assertIn(f"folder {self.folder} variable a b cpus ", child)
            self.assertLessEqual(int(child.split()[-1]), 2)  # hardware threads of one core

    def test_path_and_file(self):
        os.symlink(PROGRAM, os.path.join(self.folder, "spawned-program"))
        _, (child,) = self.info("spawned-program", 1, "path", "/nowhere:" + self.folder)
        self.assertIn("child 0 of 1", child)
        with open(os.path.join(self.folder, "keys"), "w", encoding="utf-8") as file:
            file.write(f"# keys\nwdir = {self.folder}\nenv = SPAWN_TEST=file\n")
        _, (child,) = self.info(PROGRAM, 1, "file", os.path.join(self.folder, "keys"))
        self.assertIn(f"folder {self.folder} variable file", child)
        for key in ("wdir", "wd"):
            _, (child,) = self.info("spawned-program", 1, key, self.folder)
            self.assertIn(f"folder {self.folder}", child)

    def test_a_script_that_closes_descriptors(self):
        script = os.path.join(self.folder, "script")
        with open(script, "w", encoding="utf-8") as file:
            file.write(f"#!{sys.executable}\nimport subprocess, sys\n")
            file.write(f"sys.exit(subprocess.call([{PROGRAM!r}, *sys.argv[1:]]))\n")
        os.chmod(script, 0o755)
        (parent,), children = self.info(script, 2)
        self.assertEqual(parent, "rank 0: class 0, 2 started, 0 not: ")
        self.assertEqual([child[: len("child 0 of 2")] for child in children], ["child 0 of 2", "child 1 of 2"])

    def test_soft(self):
        parents, children = self.info(PROGRAM, 4, "soft", "1:3:2", ranks=2)
        self.assertEqual(len(children), 3)
        for parent in parents:
            self.assertIn("class 0, 3 started, 1 not", parent)

    def test_errors(self):
        cases = (
            ("/no/such/program", (), "cannot start '/no/such/program' (No such file or directory)"),
            (PROGRAM, ("host", "some-other-host"), "is another host: Weft's mpiexec starts processes on its own"),
            (PROGRAM, ("arch", "pdp11"), "arch = pdp11"),
            (PROGRAM, ("wdir", "/no/such/folder"), "cannot enter the directory '/no/such/folder'"),
            (PROGRAM, ("map_by", "moon"), "bad value 'moon'"),
            ("/bin/true", (), "has ended before its job has called MPI_Init"),
        )
        for command, keys, text in cases:
            with self.subTest(command=command, keys=keys):
                parents, children = self.info(command, 2, *keys, ranks=2)
                self.assertEqual(children, [])
                for parent in parents:
                    self.assertIn("class 1, ", parent)
                    self.assertTrue(text in parent or "see the error of rank" in parent, parent)
                self.assertTrue(any(text in parent for parent in parents), parents)
        (parent,), _ = self.info(PROGRAM, 2, "soft", "5:6")
        self.assertIn("has no number from 1 to maxprocs = 2", parent)


@unittest.skipIf(SPAWNS, "many")
class Ends(Processes):
    def test_a_killed_child_ends_the_job(self):
        status, output, errors = self.run_job("dies", signal.SIGKILL)
        self.assertEqual(status, 128 + signal.SIGKILL, errors)
        self.assertIn("output before the end", output)
        self.assertRegex(errors, r"mpiexec: rank 0 \(pid \d+ on .*\) of spawned job 1 was killed by signal 9")

    def test_an_abort_of_a_child(self):
        status, _, errors = self.run_job("dies", 0)
        self.assertEqual(status, 42, errors)
        self.assertIn("of spawned job 1 aborted the job with code 42", errors)

    def test_children_end_with_a_killed_singleton(self):
        with subprocess.Popen(
            [PROGRAM, "dies", "19"],
            env=clean_environment(**self.mark.variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as parent:
            self.assertEqual(parent.stdout.readline(), "output before the end\n")
            parent.kill()
        self.mark.wait_until_gone(10)

    def test_a_child_that_leaves_without_disconnecting_ends_waits(self):
        for options, name in ((), "MPI_ERR_PROC_ABORTED"), (("--continue-on-failure",), "MPIX_ERR_PROC_FAILED"):
            with self.subTest(options=options):
                leak = {"ASAN_OPTIONS": "detect_leaks=0"}  # the child leaves objects behind
                status, output, errors = self.run_job("leaves", options=options, timeout=30, **leak)
                self.assertEqual((status, errors, output.count("good")), (0, "", 2), output)
                for call in ("wait", "any source", "receive", "barrier"):
                    self.assertRegex(output, f"{call}: .*it has left MPI without MPI_Comm_disconnect")
                self.assertIn(name, output)


@unittest.skipIf(SPAWNS, "many")
class Ports(Processes):
    def test_two_jobs_by_a_published_name(self):
        name = "weft test " + uuid.uuid4().hex
        for accepts, connects in ((2, 1), (1, 2), (0, 0)):
            with self.subTest(accepts=accepts, connects=connects):
                launch = [("-n", n, PROGRAM) if n else () for n in (accepts, connects)]
                options = [{} if n else {"launcher": (PROGRAM,)} for n in (accepts, connects)]
                with start(*launch[0], "accept", name, variables=self.mark.variables, text=True, **options[0]) as job:
                    self.assertEqual(job.stdout.readline(), "published\n")
                    self.check_good(
                        run(*launch[1], "connect", name, variables=self.mark.variables, **options[1]), connects or 1
                    )
                    output, errors = job.communicate(timeout=60)
                self.check_good((job.returncode, output, errors), accepts or 1)

    def test_a_side_with_a_dead_rank_refuses(self):
        name = "weft test " + uuid.uuid4().hex
        job = ("--continue-on-failure", "-n", 2, PROGRAM, "accept_broken", name)
        with start(*job, variables=self.mark.variables, text=True) as accepting:
            self.assertEqual(accepting.stdout.readline(), "published\n")
            status, output, errors = self.run_job("connect_broken", name, ranks=2, timeout=30)
            accepted, _ = accepting.communicate(timeout=30)
        self.assertEqual((status, errors), (0, ""))
        self.assertRegex(accepted, "accept: .*process 1 has failed")
        # The other job ends after its error: it may be gone, with its name or while this one connects.
        refused = re.findall("the other job has failed to connect|connect: MPIX?_ERR_(?:PORT|PROC_[A-Z]+): ", output)
        self.assertEqual((len(refused), output.count("good")), (2, 2), output)

    def test_a_job_that_leaves_without_accepting(self):
        name = "weft test " + uuid.uuid4().hex
        options = {"variables": self.mark.variables, "text": True}
        with start("-n", 1, PROGRAM, "leave_port", name, stdin=subprocess.PIPE, **options) as leaving:
            self.assertEqual(leaving.stdout.readline(), "published\n")
            with start("-n", 1, PROGRAM, "connect_broken", name, **options) as connecting:
                self.assertEqual(connecting.stdout.readline(), "connecting\n")
                leaving.stdin.close()
                output, errors = connecting.communicate(timeout=30)  # half of jobs.connect_timeout_s
        self.assertEqual((connecting.returncode, errors), (0, ""))
        self.assertRegex(output, "connect: MPI_ERR_PORT: .*has left MPI without accepting the connection")

    def test_two_halves_of_one_job(self):
        self.check_good(self.run_job("halves", ranks=3), 3)

    def test_join(self):
        ends = socket.socketpair()
        jobs = []
        for end in ends:
            os.set_inheritable(end.fileno(), True)
            jobs.append(
                start(
                    "join",
                    end.fileno(),
                    launcher=(PROGRAM,),
                    variables=self.mark.variables,
                    text=True,
                    pass_fds=[end.fileno()],
                )
            )
        for end in ends:
            end.close()
        for job in jobs:
            output, errors = job.communicate(timeout=60)
            self.check_good((job.returncode, output, errors), 1)

    def test_wrong_calls(self):
        self.check_good(self.run_job("wrong", ranks=2), 2)


@unittest.skipUnless(SPAWNS, "not many")
class Many(Processes):
    def test_many(self):
        for parents in (1, 2):
            status, output, errors = self.run_job("many", SPAWNS, ranks=parents, timeout=900)
            self.assertEqual((status, errors), (0, ""), output)
            print(output, file=sys.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
