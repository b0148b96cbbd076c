#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Shell scripts and wrappers between a rank and its launcher: descriptors closed or replaced,
# two programs at once, variables removed.
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from support import PEER, clean_environment, hydras, run

# Closes all descriptors from 3 on, as Python's subprocess does.
CLOSING = 'python3 -c "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"'
EXCHANGE = f"{PEER} exchange"
PRTERUN = os.environ.get("TEST_PRTERUN", "")
GARBAGE = """
import os, random, socket
process, _, _, name, secret = os.environ["WEFT_JOB_SOCKET"].split(":")
draw, kept = random.Random(int(process)), []
for i in range(300):
    one = socket.socket(socket.AF_UNIX)
    one.connect("\\0" + name)
    kept.append(one)
    try:
        one.send(draw.choice((b"", b"cmd=", b"cmd=join\\n", b"cmd=join process=0 secret=x\\n", draw.randbytes(100), b"x" * 70000,
                              f"cmd=join process={draw.choice((-1, 99, 2**31 - 1, 2**40))} secret={secret}\\n".encode())))
    except OSError:
        pass
    if i % 3 == 0:
        kept.pop(draw.randrange(len(kept))).close()
"""


def works(*tool):
    """Whether this system can run a program by the tool."""
    found = shutil.which(tool[0]) is not None
    return found and subprocess.run([*tool, "true"], capture_output=True, check=False, timeout=60).returncode == 0


class Script(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def bash(self, script, ranks=2, **options):
        """(exit code, output, errors) of a job of scripts; each rank has a folder of its own."""
        script = f"mkdir $PMI_RANK && cd $PMI_RANK\n{script}"
        return run("-n", ranks, "bash", "-c", script, cwd=self.folder, timeout=40, **options)

    def check_job(self, output, ranks=2, jobs=1):
        """The lines of PEER: every rank of each job, in any order."""
        lines = re.findall(r"rank (\d+)/(\d+) local \d+/\d+ hosts \d+ by weft mpiexec id (\S+)", output)
        self.assertEqual(sorted(int(rank) for rank, _, _ in lines), sorted(list(range(ranks)) * jobs), output)
        self.assertEqual({size for _, size, _ in lines}, {str(ranks)}, output)
        self.assertEqual(len({job for _, _, job in lines}), jobs, output)


class LostDescriptor(Script):
    def test_scripts_that_use_descriptors(self):
        for script in (
            f"exec 3>&1\n{EXCHANGE}",
            f"exec 3>>log\necho start >&3\n{EXCHANGE}\necho end >&3",
            f"echo x >list\nwhile read -r line <&3; do {EXCHANGE}; done 3<list",
            f"{{ {EXCHANGE} 2>&1 1>&3 | sed 's/^/err: /'; }} 3>&1",
            f"exec 983>log\n{EXCHANGE}",  # the very number
            f"exec 983<&-\n{EXCHANGE}",
            f"exec {{log}}>log 200>lock\n{EXCHANGE}",
            f"{CLOSING} {EXCHANGE}",
            f"nohup {CLOSING} setsid -w env A=b {CLOSING} {EXCHANGE} 2>/dev/null",
            f"env -u PMI_FD {EXCHANGE}",
            f"env -u PMI_RANK {CLOSING} {EXCHANGE}",
        ):
            with self.subTest(script=script):
                shutil.rmtree(self.folder)
                os.mkdir(self.folder)
                status, output, errors = self.bash(script)
                self.assertEqual((status, errors), (0, ""))
                self.check_job(output)

    def test_programs_one_after_the_other(self):
        """The connection is found by each in its own way."""
        for commands in (
            (EXCHANGE, f"{CLOSING} {EXCHANGE}", EXCHANGE),
            (f"{CLOSING} {EXCHANGE}", EXCHANGE, f"{CLOSING} {EXCHANGE}"),
            (f"{CLOSING} {PEER} fork", f"{PEER} fork", f"{CLOSING} {EXCHANGE}"),
        ):
            with self.subTest(commands=commands):
                shutil.rmtree(self.folder)
                os.mkdir(self.folder)
                status, output, errors = self.bash(" && ".join(commands), ranks=3)
                self.assertEqual((status, errors), (0, ""))
                self.check_job(output, ranks=3, jobs=sum("exchange" in command for command in commands))

    def test_an_intact_descriptor_is_used(self):
        """Without a message to mpiexec's socket, which nobody has here."""
        status, output, errors = self.bash(
            f"WEFT_JOB_SOCKET=$(echo $WEFT_JOB_SOCKET | sed s/weft-pmi/nobody/) {EXCHANGE}"
        )
        self.assertEqual((status, errors), (0, ""))
        self.check_job(output)

    def test_abort_and_failure_after_joining(self):
        status, _, errors = self.bash(f"{CLOSING} {PEER} abort 42", ranks=3)
        self.assertEqual(status, 42)
        self.assertRegex(errors, r"rank 2 \(pid \d+ on .*\) aborted the job with code 42: first line\nand a % sign")
        shutil.rmtree(self.folder)
        os.mkdir(self.folder)
        status, _, errors = self.bash(f"{CLOSING} {PEER} quit; true")
        self.assertEqual(status, 1)
        self.assertRegex(errors, r"rank 1 \(pid \d+ on .*\) exited without calling MPI_Finalize")

    def test_mpiexec_refuses_those_that_do_not_know_the_secret(self):
        status, output, errors = self.bash(
            f"WEFT_JOB_SOCKET=${{WEFT_JOB_SOCKET%?}}x {CLOSING} {EXCHANGE}; echo $?", ranks=1
        )
        self.assertEqual((status, output), (0, "3\n"))
        self.assertIn("(it refuses this process)", errors)

    def test_garbage_at_the_socket_of_mpiexec(self):
        with open(os.path.join(self.folder, "garbage.py"), "w", encoding="utf-8") as file:
            file.write(GARBAGE)
        status, output, errors = self.bash(f"{CLOSING} python3 ../garbage.py && {CLOSING} {EXCHANGE}")
        self.assertEqual((status, errors), (0, ""))
        self.check_job(output)

    @unittest.skipUnless(works("unshare", "-rn"), "no network namespaces")
    def test_everything_is_lost(self):
        status, output, errors = self.bash(f"{CLOSING} unshare -rn {EXCHANGE}; echo $?", ranks=1)
        self.assertEqual((status, output), (0, "3\n"))
        for part in (
            "descriptor 983 (PMI_FD), the connection to the launcher, was closed or replaced before MPI_Init, by a shell "
            "or a wrapper, and mpiexec cannot be reached at its socket (Connection refused)",
            "--network=host",
        ):
            self.assertIn(part, errors)
        self.assertNotIn("alone", errors)

    def test_removed_variables(self):
        status, output, errors = self.bash(f"env -i {EXCHANGE}; echo $?")
        self.assertEqual((status, output), (0, "3\n3\n"))
        self.assertEqual(errors.count("mpiexec has started this process, but its variables are gone"), 2, errors)
        # A script that removes only the variables of PMI wants a process alone.
        shutil.rmtree(self.folder)
        os.mkdir(self.folder)
        status, output, errors = self.bash(f"unset PMI_FD PMI_RANK PMI_SIZE; {EXCHANGE}", ranks=1)
        self.assertEqual((status, errors), (0, ""))
        self.assertIn("rank 0/1 local 0/1 hosts 1 by singleton", output)

    def test_another_launcher_in_a_script(self):
        for path in hydras():
            for option in ("", "-pmi-port"):
                with self.subTest(launcher=path, option=option):
                    shutil.rmtree(self.folder)
                    os.mkdir(self.folder)
                    status, output, errors = self.bash(f"{path} {option} -n 2 {EXCHANGE}")
                    self.assertEqual((status, errors), (0, ""))
                    ranks = re.findall(r"rank (\d/2) local \d/2 hosts 2 by hydra", output)
                    self.assertEqual(sorted(ranks), ["0/2", "0/2", "1/2", "1/2"], output)

    def test_other_launchers_name_the_cause(self):
        for path in hydras():
            with self.subTest(launcher=path):
                status, output, errors = self.bash(f"{CLOSING} {EXCHANGE}; echo $?", ranks=1, launcher=(path,))
                self.assertEqual((status, output), (0, "3\n"))
                self.assertRegex(
                    errors,
                    r"descriptor \d+ \(PMI_FD\), the connection to the launcher, was closed or replaced before MPI_Init, "
                    "by a shell or a wrapper: let the script use other numbers",
                )


class TwoPrograms(Script):
    AT_ONCE = """
{first} {peer} hold held &
while test ! -e held; do sleep 0.01; done
{second} {peer} exchange
echo second $?
rm held
wait $! && echo first $?
"""

    def at_once(self, first="", second="", **options):
        return self.bash(self.AT_ONCE.format(peer=PEER, first=first, second=second), **options)

    def test_the_second_names_the_first(self):
        for number, (first, second) in enumerate((a, b) for a in ("", CLOSING) for b in ("", CLOSING)):
            with self.subTest(first=first, second=second):
                self.setUp()
                status, output, errors = self.at_once(first, second, ranks=1 + number % 2)
                self.assertEqual(status, 0, errors)
                holders = re.findall(r"process (\d+) holds", output)
                self.assertEqual(len(holders), 1 + number % 2, output)
                self.assertEqual(output.count("second 3\n"), len(holders), output)
                self.assertEqual(output.count("first 0\n"), len(holders), output)
                for pid in holders:
                    self.assertIn(f"another process (pid {pid}) of this rank is in MPI already", errors)

    def test_the_second_runs_alone_if_asked_to(self):
        for second in ("", CLOSING):
            with self.subTest(second=second):
                self.setUp()
                variables = {"WEFT_LAUNCH_SINGLETON": "second"}
                status, output, errors = self.at_once(second=second, ranks=1, variables=variables)
                self.assertEqual((status, errors), (0, ""))
                self.assertIn("rank 0/1 local 0/1 hosts 1 by singleton", output)
                self.assertIn("second 0\nfirst 0\n", output)

    def test_all_run_alone_if_asked_to(self):
        status, output, errors = self.bash(EXCHANGE, variables={"WEFT_LAUNCH_SINGLETON": "on"})
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(output.count("rank 0/1 local 0/1 hosts 1 by singleton"), 2)

    def test_the_second_under_other_launchers(self):
        for path in hydras():
            with self.subTest(launcher=path):
                self.setUp()
                status, output, errors = self.at_once(ranks=1, launcher=(path,))
                self.assertEqual(status, 0, errors)
                pid = re.search(r"process (\d+) holds", output).group(1)
                self.assertIn(f"another process (pid {pid}) of this rank is in MPI already", errors)

    @unittest.skipUnless(os.path.exists(PRTERUN), "needs Open MPI's prterun (TEST_PRTERUN)")
    def test_the_second_under_pmix(self):
        prefix = os.path.dirname(os.path.dirname(PRTERUN))
        prterun = (PRTERUN, "--allow-run-as-root", "--prefix", prefix, "--map-by", "slot:OVERSUBSCRIBE")
        script = f"cd {self.folder}\n" + self.AT_ONCE.format(peer=PEER, first="", second="")
        for singleton in ("off", "second"):
            with self.subTest(singleton=singleton):
                variables = {"WEFT_LAUNCH_SINGLETON": singleton}
                command = ("-n", 1, "bash", "-c", script)
                status, output, errors = run(*command, launcher=prterun, timeout=40, variables=variables)
                self.assertEqual(status, 0, errors)
                pid = re.search(r"process (\d+) holds", output).group(1)
                if singleton == "off":
                    self.assertIn("second 3\nfirst 0\n", output)
                    self.assertIn(f"another process (pid {pid}) of this rank is in MPI already", errors)
                else:
                    self.assertIn("rank 0/1 local 0/1 hosts 1 by singleton", output)
                    self.assertIn("second 0\nfirst 0\n", output)

    def test_many_at_once_never_hang(self):
        """The fate of the second depends on whether it comes before the end of the first."""
        for script in (
            f"{EXCHANGE} & {EXCHANGE}; wait",
            f"{CLOSING} {EXCHANGE} & {CLOSING} {EXCHANGE} & {EXCHANGE}; wait",
        ):
            for _ in range(3):
                with self.subTest(script=script):
                    self.setUp()
                    status, output, errors = self.bash(f"( {script} ); true", ranks=1)
                    self.assertEqual(status, 0, errors)
                    ranks, refused = output.count("by weft mpiexec"), errors.count("of this rank is in MPI already")
                    self.assertGreaterEqual(ranks, 1, output + errors)
                    self.assertEqual(ranks + refused, script.count("exchange"), output + errors)

    def test_a_rank_that_has_gone_on_is_named(self):
        """The first program of rank 0, for which rank 1 waits, is killed."""
        status, _, errors = self.bash(
            f"if test $PMI_RANK = 0; then {PEER} hold held & while test ! -e held; do sleep 0.01; done; kill -KILL $!; "
            f"wait $!; fi; {EXCHANGE}"
        )
        self.assertEqual(status, 1)
        self.assertRegex(
            errors, r"mpiexec: rank 1 \(.*\) waits in its MPI program number 1 for rank 0, which has left that program"
        )


class Wrappers(Script):
    @unittest.skipIf("TEST_SANITIZED" in os.environ, "the tools do not run programs with sanitizers")
    def test_tools_around_a_program(self):
        for tool, options in (("valgrind", "-q"), ("gdb", "-q -batch -return-child-result -ex run --args")):
            if not works(tool, *options.split()):
                continue
            for closing in ("", CLOSING):
                with self.subTest(tool=tool, closing=closing):
                    self.setUp()
                    status, output, errors = self.bash(f"{closing} {tool} {options} {EXCHANGE}", ranks=1)
                    self.assertEqual(status, 0, errors)
                    self.check_job(output, ranks=1)

    def test_variables_of_a_slurm_shell_do_not_matter(self):
        variables = clean_environment(
            SLURM_STEP_NUM_TASKS="8", SLURM_STEP_ID="0", SLURM_PROCID="0", SLURM_PTY_PORT="40001",
            SLURM_TASK_PID=str(os.getpid()),
        )  # fmt: skip
        done = subprocess.run([PEER], env=variables, capture_output=True, text=True, check=False, timeout=30)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("rank 0/1 local 0/1 hosts 1 by singleton", done.stdout)
        variables["SLURM_TASK_PID"] = "1"
        del variables["SLURM_PTY_PORT"]
        done = subprocess.run([PEER], env=variables, capture_output=True, text=True, check=False, timeout=30)
        self.assertEqual(done.returncode, 3)
        self.assertIn("SLURM_STEP_NUM_TASKS=8 implies several processes", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
