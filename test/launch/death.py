#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# However a job ends, no process is left after two seconds.
import os
import pty
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import CORES, MPIEXEC, PEER, Mark, clean_environment, run, shell, start

LIMIT = 2.0  # seconds
# A rank with a child, a grandchild in its own session that ignores SIGTERM, and an orphan.
FAMILY = "sleep 300 & (trap '' TERM HUP INT; setsid sleep 301 &) ; (setsid sh -c 'sleep 302; true' &) ; "


def proc(pid, name):
    """The text of a file of /proc/PID; empty if the process has ended."""
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class Death(unittest.TestCase):
    def setUp(self):
        self.mark = Mark()

    def start(self, *arguments, **options):
        return start(*arguments, variables=self.mark.variables, **options)

    def start_family(self, ranks=2, end="wait"):
        job = self.start("-n", ranks, *shell(FAMILY + end))
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.stderr.close)
        self.mark.wait_for(2 + 5 * ranks)  # mpiexec and its supervisor; per rank a shell with four descendants
        return job

    def test_mpiexec_is_killed(self):
        job = self.start_family()
        job.kill()
        job.wait()
        self.mark.wait_until_gone(LIMIT)

    def test_all_mpiexec_processes_are_killed(self):
        job = self.start_family()
        for pid in self.mark.processes():
            if "mpiexec" in proc(pid, "cmdline"):
                os.kill(pid, signal.SIGKILL)
        job.wait()
        self.mark.wait_until_gone(LIMIT)

    def test_supervisor_is_killed(self):
        job = self.start_family()
        os.kill(self.supervisor(), signal.SIGKILL)
        self.assertEqual(job.wait(10), 1)
        self.mark.wait_until_gone(LIMIT)
        self.assertIn(b"the supervisor of the ranks", job.stderr.read())

    def supervisor(self):
        for pid in self.mark.processes():
            if proc(pid, "comm") == "weft-supervisor\n":
                return pid
        raise AssertionError("no supervisor")

    def test_supervisor_is_stopped_and_mpiexec_killed(self):
        job = self.start_family()
        os.kill(self.supervisor(), signal.SIGSTOP)
        job.kill()
        job.wait()
        self.mark.wait_until_gone(LIMIT)

    @unittest.skipIf("TEST_SANITIZED" in os.environ, "sanitizers read /proc")
    def test_without_proc(self):
        # Children in the process groups of the ranks are found without /proc.
        unshare = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh")
        if shutil.which("unshare") is None or subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("needs user namespaces")
        script = "(trap '' TERM; while true; do sleep 300; done) & test $PMI_RANK = 0 && { sleep 0.3; exit 3; }; wait"
        status, _, errors = run(
            "-n", 2, *shell(script), launcher=(*unshare, MPIEXEC), variables=self.mark.variables
        )  # fmt: skip
        self.assertEqual(status, 3, errors)
        self.assertEqual(self.mark.processes(), [])

    def test_culprit_is_the_rank_that_was_killed(self):
        # Rank 0 aborts when it notices that the socket of rank 1 is closed, which is earlier than its end as a process.
        script = (
            "if [ $PMI_RANK = 1 ]; then exec {0} -c 'import os, sys, time; fifo = os.open(sys.argv[1], os.O_WRONLY); "
            "time.sleep(0.2); os.kill(os.getpid(), 9)' {1}; fi; cat {1} > /dev/null; exec {2} abort 4"
        )
        with tempfile.TemporaryDirectory() as folder:
            fifo = os.path.join(folder, "fifo")
            os.mkfifo(fifo)
            for _ in range(10):
                status, _, errors = run("-n", 2, *shell(script.format(sys.executable, fifo, PEER)))
                self.assertEqual(status, 128 + 9, errors)
                self.assertIn("rank 1 ", errors)
                self.assertIn("was killed by signal 9", errors)

    def test_a_rank_is_killed(self):
        job = self.start_family(end="test $PMI_RANK = 1 && { sleep 0.7; kill -KILL $$; }; wait")
        begin = time.monotonic()
        self.assertEqual(job.wait(10), 128 + 9)
        self.assertEqual(self.mark.processes(), [])
        self.assertLess(time.monotonic() - begin, 0.7 + LIMIT)

    def test_a_rank_fails_while_others_ignore_sigterm(self):
        begin = time.monotonic()
        script = "test $PMI_RANK = 0 && { sleep 0.2; exit 3; }; trap '' TERM INT; while true; do sleep 0.1; done"
        status, _, _ = run("-n", 3, *shell(script), variables=self.mark.variables)
        self.assertEqual(status, 3)
        self.assertEqual(self.mark.processes(), [])
        self.assertLess(time.monotonic() - begin, LIMIT + 0.5)

    def test_stopped_processes_are_ended_too(self):
        job = self.start("-n", 2, *shell("test $PMI_RANK = 0 && { sleep 0.3; exit 3; }; kill -STOP $$"))
        with job:
            self.assertEqual(job.wait(10), 3)
        self.assertEqual(self.mark.processes(), [])

    def test_abort(self):
        begin = time.monotonic()
        status, _, _ = run("-n", 2, *shell(f"{FAMILY} exec {PEER} abort 4"), variables=self.mark.variables)
        self.assertEqual(status, 4)
        self.assertEqual(self.mark.processes(), [])
        self.assertLess(time.monotonic() - begin, LIMIT + 0.5)

    def test_leftover_processes_of_a_successful_job(self):
        status, output, errors = run("-n", 2, *shell(FAMILY + "echo ok"), variables=self.mark.variables)
        self.assertEqual((status, output, errors), (0, "ok\nok\n", ""))
        self.assertEqual(self.mark.processes(), [])

    def test_a_helper_may_finish_its_work(self):
        # The rank ends at once; output of a process it leaves behind still arrives.
        status, output, _ = run("-n", 1, *shell("(sleep 0.2; echo late) & echo early"))
        self.assertEqual((status, output), (0, "early\nlate\n"))

    def test_nested_jobs(self):
        inner = f"{MPIEXEC} -n 2 sh -c '{FAMILY.replace(chr(39), chr(34))} wait'"
        job = self.start("-n", 1, *shell(inner))
        with job:
            self.mark.wait_for(2 + 1 + 1 + 2 * 5)
            job.kill()
            job.wait()
            self.mark.wait_until_gone(LIMIT)

    def test_random_moments(self):
        # Short version of the nightly test with a thousand runs.
        for _ in range(25):
            job = self.start("-n", 4, PEER, "fences", 100_000)
            with job:
                time.sleep(random.uniform(0, 0.08))
                job.kill()
                job.wait()
            self.mark.wait_until_gone(LIMIT)


class Signals(unittest.TestCase):
    def setUp(self):
        self.mark = Mark()

    def test_forwarded_to_the_ranks(self):
        script = "trap 'echo got it; exit 0' {0}; echo ready; while true; do sleep 0.05; done"
        for name in ("INT", "TERM", "USR1", "USR2"):
            with start("-n", 2, *shell(script.format(name)), variables=self.mark.variables) as job:
                self.assertEqual([job.stdout.readline() for _ in range(2)], [b"ready\n"] * 2)
                job.send_signal(getattr(signal, "SIG" + name))
                self.assertEqual(job.stdout.read(), b"got it\n" * 2)
                self.assertEqual(job.wait(10), 0)

    def test_default_action_ends_the_job(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2):
            with start("-n", 2, *shell("echo ready; exec sleep 300"), variables=self.mark.variables) as job:
                self.assertEqual([job.stdout.readline() for _ in range(2)], [b"ready\n"] * 2)
                job.send_signal(number)
                self.assertEqual(job.wait(10), 128 + number)
            self.assertEqual(self.mark.processes(), [])

    def test_sigusr1_does_not_end_ranks_without_a_handler(self):
        with start("-n", 2, *shell("echo ready; exec sleep 300"), variables=self.mark.variables) as job:
            self.assertEqual([job.stdout.readline() for _ in range(2)], [b"ready\n"] * 2)
            job.send_signal(signal.SIGUSR1)
            self.assertEqual(job.stderr.readline(), b"mpiexec: what the ranks do:\n")
            self.assertIn(b"has not called MPI_Init", job.stderr.readline())
            job.send_signal(signal.SIGTERM)
            self.assertEqual(job.wait(10), 128 + signal.SIGTERM)

    def test_second_interrupt_kills(self):
        script = "trap '' INT TERM; echo ready; while true; do sleep 0.05; done"
        with start("-n", 2, *shell(script), variables=self.mark.variables) as job:
            self.assertEqual([job.stdout.readline() for _ in range(2)], [b"ready\n"] * 2)
            job.send_signal(signal.SIGINT)
            time.sleep(0.3)
            self.assertIsNone(job.poll())
            begin = time.monotonic()
            job.send_signal(signal.SIGINT)
            self.assertEqual(job.wait(10), 130)
            self.assertLess(time.monotonic() - begin, 1)
        self.assertEqual(self.mark.processes(), [])

    def start_ignoring_sigterm(self):
        """A job whose two ranks run and ignore SIGTERM."""
        script = "trap '' INT TERM; echo ready; while true; do sleep 0.05; done"
        job = start("-n", 2, *shell(script), variables=self.mark.variables)
        for end in (job.stdout.close, job.stderr.close, job.kill):
            self.addCleanup(end)
        self.assertEqual([job.stdout.readline() for _ in range(2)], [b"ready\n"] * 2)
        return job

    def check_ended(self, job, at_least, at_most):
        begin = time.monotonic()
        self.assertEqual(job.wait(at_most + 5), 128 + signal.SIGTERM)
        self.assertGreaterEqual(time.monotonic() - begin, at_least)
        self.assertLess(time.monotonic() - begin, at_most)
        self.mark.wait_until_gone(LIMIT)

    def test_sigterm_kills_after_five_seconds(self):
        job = self.start_ignoring_sigterm()
        job.send_signal(signal.SIGTERM)
        job.send_signal(signal.SIGTERM)  # as timeout(1), which signals its child and its group
        self.check_ended(job, 4, 7)

    def test_second_sigterm_kills(self):
        job = self.start_ignoring_sigterm()
        job.send_signal(signal.SIGTERM)
        time.sleep(0.8)
        self.assertIsNone(job.poll())
        job.send_signal(signal.SIGTERM)
        self.check_ended(job, 0, 1)

    def test_sigterm_reaches_stopped_ranks(self):
        script = "trap 'echo got it; exit 0' TERM; echo ready; kill -STOP $$; while true; do sleep 0.05; done"
        with start("-n", 2, *shell(script), variables=self.mark.variables) as job:
            self.assertEqual([job.stdout.readline() for _ in range(2)], [b"ready\n"] * 2)
            deadline = time.monotonic() + LIMIT
            while self.states().count("T") < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            begin = time.monotonic()
            job.send_signal(signal.SIGTERM)
            self.assertEqual(job.stdout.read(), b"got it\n" * 2)
            self.assertEqual(job.wait(10), 0)
            self.assertLess(time.monotonic() - begin, LIMIT)

    def test_timeout_ends_a_job_whose_output_nobody_reads(self):
        script = "trap '' TERM; echo ready; exec 2>/dev/null; while true; do head -c 100000 /dev/zero; done"
        command = ["timeout", "0.5", MPIEXEC, "-n", "2", *shell(script)]
        environment = clean_environment(**self.mark.variables)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as job:
            self.assertEqual(job.wait(12), 124)
            self.mark.wait_until_gone(LIMIT)

    def test_suspend_and_resume(self):
        script = "i=0; while true; do i=$((i+1)); echo $i; sleep 0.05; done"
        with start("-n", 1, *shell(script), variables=self.mark.variables) as job:
            try:
                job.stdout.readline()
                job.send_signal(signal.SIGTSTP)
                self.assertTrue(os.WIFSTOPPED(os.waitpid(job.pid, os.WUNTRACED)[1]))
                deadline = time.monotonic() + LIMIT  # mpiexec stops at once, the rank after the supervisor is notified
                while self.states().count("T") < 2 and time.monotonic() < deadline:
                    time.sleep(0.01)
                self.assertGreaterEqual(self.states().count("T"), 2, self.states())  # mpiexec and the rank
                job.send_signal(signal.SIGCONT)
                for _ in range(20):
                    self.assertTrue(job.stdout.readline())
            finally:
                job.kill()

    def test_stopped_children_of_ranks_continue(self):
        for ranks in (1, CORES + 1):  # sessions of their own, a common session
            with self.subTest(ranks=ranks):
                self.stop_and_continue(ranks)

    def stop_and_continue(self, ranks):
        """Ctrl-Z stops the process group of a rank, although its session has no terminal."""
        script = "sh -c 'while true; do sleep 0.05; done' & echo ready; wait"
        with start("-n", ranks, *shell(script), variables=self.mark.variables) as job:
            try:
                for _ in range(ranks):
                    job.stdout.readline()
                job.send_signal(signal.SIGTSTP)
                self.assertTrue(os.WIFSTOPPED(os.waitpid(job.pid, os.WUNTRACED)[1]))
                deadline = time.monotonic() + LIMIT
                stopped = 1 + 2 * ranks  # mpiexec, two shells of each rank
                while self.states().count("T") < stopped and time.monotonic() < deadline:
                    time.sleep(0.01)
                self.assertGreaterEqual(self.states().count("T"), stopped, self.states())
                job.send_signal(signal.SIGCONT)
                while self.states().count("T") > 0 and time.monotonic() < deadline + LIMIT:
                    time.sleep(0.01)
                self.assertEqual(self.states().count("T"), 0, self.states())
            finally:
                job.kill()

    def test_sessions_of_ranks(self):
        """A session for each rank, or one for all if they outnumber the cores; never mpiexec's own."""
        script = "set -- $(cat /proc/$$/stat); echo $1 $5 $6"
        for ranks in (CORES, CORES + 1):
            with self.subTest(ranks=ranks), start("-n", ranks, *shell(script), variables=self.mark.variables) as job:
                rows = [line.split() for line in job.stdout.read().decode().splitlines()]
                self.assertEqual(len(rows), ranks)
                for pid, group, _ in rows:
                    self.assertEqual(group, pid)
                sessions = {session for _, _, session in rows}
                self.assertNotIn(str(os.getsid(0)), sessions)
                if ranks > CORES:
                    self.assertEqual(len(sessions), 1)
                else:
                    self.assertEqual(sessions, {pid for pid, _, _ in rows})

    def states(self):
        """State letters of the job's processes."""
        fields = (proc(pid, "stat").rpartition(")")[2].split() for pid in self.mark.processes())
        return [field[0] for field in fields if field]

    def test_ignored_signals_stay_ignored(self):
        command = ["nohup", MPIEXEC, "-n", "1", *shell("echo ready; exec sleep 300")]
        environment = clean_environment(**self.mark.variables)
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as job:
            job.stdout.readline()
            job.send_signal(signal.SIGHUP)
            time.sleep(0.2)
            self.assertIsNone(job.poll())
            job.kill()
        self.mark.wait_until_gone(LIMIT)


class Terminal(unittest.TestCase):
    def test_terminal_input_reaches_rank_0(self):
        pid, terminal = pty.fork()
        if pid == 0:
            script = "if [ $PMI_RANK = 0 ]; then printf 'name? '; read name; echo hello $name; cat; fi"
            os.execve(MPIEXEC, [MPIEXEC, "-n", "2", *shell(script)], clean_environment())
        text = b""
        sent = False
        end = time.monotonic() + 20
        while time.monotonic() < end:
            try:
                text += os.read(terminal, 4096)
            except OSError:
                break
            if b"name? " in text and not sent:  # a prompt without a newline is forwarded
                os.write(terminal, b"weaver\nmore\n\x04")
                sent = True
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertIn(b"hello weaver\r\nmore", text)

    def test_interrupt_key(self):
        mark = Mark()
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(
                MPIEXEC, [MPIEXEC, "-n", "2", *shell("echo ready; sleep 300")], clean_environment(**mark.variables)
            )
        text = b""
        while text.count(b"ready") < 2:
            text += os.read(terminal, 4096)
        os.write(terminal, b"\x03")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 130)
        self.assertEqual(mark.processes(), [])
        os.close(terminal)


if __name__ == "__main__":
    unittest.main(verbosity=2)
