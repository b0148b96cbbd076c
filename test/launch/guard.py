#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# mpiexec --guard, which other launchers start before a rank: exit codes, signals, input, and processes that it leaves behind.
# Under Hydra it passes the rank's connection on. Argument: the program test/launch/peer.cpp.
import os
import re
import signal
import socket
import subprocess
import time
import unittest

from support import MPIEXEC, PEER, Mark, clean_environment, hydras, run, shell, start, time_limit

GUARD = (MPIEXEC, "--guard", "end")
STUBBORN = "trap '' TERM INT HUP; sleep 300"  # a child that ignores signals


def guarded(*command, **options):
    return run(*command, launcher=GUARD, **options)


class Guard(unittest.TestCase):
    def test_exit_codes(self):
        self.assertEqual(guarded("true"), (0, "", ""))
        self.assertEqual(guarded(*shell("exit 7")), (7, "", ""))
        status, _, errors = guarded("not-there")
        self.assertEqual((status, errors), (127, "mpiexec: cannot start 'not-there' (No such file or directory)\n"))
        self.assertEqual(guarded("/etc")[0], 126)
        for words in ((), ("true",)):
            status, _, errors = run(*words, launcher=(MPIEXEC, "--guard"))
            self.assertEqual(status, 2)
            self.assertIn("--guard is used by mpiexec", errors)

    def test_a_signal_is_reported(self):
        status, _, errors = guarded(*shell("kill -SEGV $$"), variables={"PMI_RANK": "3"})
        self.assertEqual(status, 128 + signal.SIGSEGV)
        self.assertRegex(errors, r"mpiexec: rank 3 \(pid \d+ on \S+\) was killed by signal 11")

    def test_input(self):
        for rank, expected in ((None, "text"), ("0", "text"), ("1", "")):
            variables = {} if rank is None else {"PMI_RANK": rank}
            self.assertEqual(guarded("cat", input="text", variables=variables), (0, expected, ""), rank)

    def test_signals_reach_the_rank(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGQUIT):
            script = f"trap 'echo got; exit 5' {int(number)}; echo ready; while :; do sleep 0.05; done"
            with start(*shell(script), launcher=GUARD, text=True) as process:
                self.assertEqual(process.stdout.readline(), "ready\n")
                process.send_signal(number)
                self.assertEqual((process.communicate(timeout=20)[0], process.returncode), ("got\n", 5), number)

    def kill(self, victim, script=f"({STUBBORN}) & {STUBBORN}"):
        """Starts a rank with a child, kills a process by victim(guard) and returns the guard's status."""
        mark = Mark()
        with start(*shell(script), launcher=GUARD, variables=mark.variables) as process:
            mark.wait_for(5)  # guard, supervisor, rank, its child, two sleeps
            os.kill(victim(process.pid), signal.SIGKILL)
            process.communicate(timeout=20)
        mark.wait_until_gone(time_limit(3))
        return process.returncode

    def test_nothing_is_left_behind(self):
        def child_of(pid):
            return int(subprocess.check_output(["ps", "-o", "pid=", "--ppid", str(pid)], text=True).split()[0])

        self.assertEqual(self.kill(lambda guard: guard), -signal.SIGKILL)
        self.assertEqual(self.kill(child_of), 1)  # the supervisor
        self.assertEqual(self.kill(lambda guard: child_of(child_of(guard))), 137)  # the rank

    def test_children_that_outlive_the_rank(self):
        mark, begin = Mark(), time.monotonic()
        status, output, _ = guarded(*shell(f"({STUBBORN}) & echo done"), variables=mark.variables)
        self.assertEqual((status, output), (0, "done\n"))  # end of file although the child had the pipe
        self.assertLess(time.monotonic() - begin, time_limit(5))
        self.assertEqual(mark.processes(), [])

    def test_the_end_of_the_launcher_ends_the_rank(self):
        mark = Mark()
        command = " ".join((*GUARD, "sleep", "300"))
        launcher = subprocess.Popen(["sh", "-c", f"{command} & wait"], env=clean_environment(**mark.variables))
        mark.wait_for(4)
        launcher.kill()
        launcher.wait()
        mark.wait_until_gone(time_limit(3))

    def test_a_killed_rank_aborts_the_job(self):
        for mode, expected in (("end", b"cmd=abort exitcode=137\n"), ("continue", b"")):
            ours, theirs = socket.socketpair()
            os.set_inheritable(theirs.fileno(), True)
            variables = {"PMI_FD": str(theirs.fileno()), "PMI_RANK": "0"}
            words = (MPIEXEC, "--guard", mode)
            with start(
                *shell("kill -9 $$"), launcher=words, variables=variables, pass_fds=[theirs.fileno()]
            ) as process:
                theirs.close()
                process.communicate(timeout=20)
            ours.settimeout(10)
            with ours.makefile("rb") as stream:
                received = stream.read()  # up to end of file: nobody holds the connection
            ours.close()
            self.assertEqual(received, expected, mode)

    def test_under_hydra(self):
        for path in hydras():
            status, output, errors = run("-n", 3, *GUARD, PEER, "exchange", launcher=(path,))
            self.assertEqual((status, errors), (0, ""))
            self.assertEqual(len(re.findall(r"rank \d/3 local \d/3 hosts 3 by hydra", output)), 3, output)
            self.assertEqual(run("-n", 3, *GUARD, PEER, "abort", 42, launcher=(path,))[0], 42)
            # A failed rank ends ranks that wait for ever, with its code.
            script = "[ $PMI_RANK = 1 ] && kill -9 $$; sleep 300"
            self.assertEqual(run("-n", 3, *GUARD, *shell(script), launcher=(path,))[0], 137)


if __name__ == "__main__":
    if not hydras():
        print("no Hydra found: only the guard itself is tested", flush=True)
    unittest.main(verbosity=2)
