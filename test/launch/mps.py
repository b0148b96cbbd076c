#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# mpiexec --mps on with an emulated MPS: the private daemon and that of the site, refusals, failures, and what is left.
# Arguments: emulator, peer.
import os
import signal
import stat
import sys
import time
import unittest

from mps_support import Site
from support import run, start, time_limit

LIMIT = 5.0  # seconds until a job has left nothing
# A rank that starts mps-client by MPI_Comm_spawn: PMI-1 on the descriptor of the rank.
SPAWN = """
import os, socket
server = socket.socket(fileno=os.dup(int(os.environ["PMI_FD"]))).makefile("rw", newline="\\n")
def ask(text):
    server.write(text + "\\n"); server.flush()
    return server.readline()
ask("cmd=init pmi_version=1 pmi_subversion=1")
answer = ask("mcmd=spawn\\nnprocs=1\\nexecname=mps-client\\ntotspawns=1\\nspawnssofar=1\\nargcnt=0\\n"
             "preput_num=0\\ninfo_num=0\\nendcmd")
assert "rc=0" in answer, answer
ask("cmd=finalize")
"""
EXCLUSIVE = "0, GPU-a1, Exclusive_Process, [N/A]\n"


class WithSite(unittest.TestCase):
    def setUp(self):
        self.site = Site()
        self.addCleanup(self.site.close)

    def run_job(self, *arguments, **variables):
        return run("--mps", "on", *arguments, variables=self.site.variables(**variables))

    def start_job(self, **variables):
        """A running job whose two clients have connected."""
        job = start("--mps", "on", "-n", 2, "mps-client", 300, variables=self.site.variables(**variables))
        for end in (job.stdout.close, job.stderr.close, job.kill):
            self.addCleanup(end)
        self.clients = [job.stdout.readline().decode().split() for _ in range(2)]
        return job

    def end(self, job):
        """Ends a job; when mpiexec has ended, nothing is left. Returns its errors."""
        job.terminate()
        self.assertEqual(job.wait(time_limit(30)), 128 + signal.SIGTERM)
        self.assertEqual((self.site.mark.processes(), self.site.folders()), ([], []))
        return job.stderr.read().decode()

    def check_nothing_left(self):
        self.site.mark.wait_until_gone(time_limit(LIMIT))
        end = time.monotonic() + time_limit(LIMIT)
        while self.site.folders() and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(self.site.folders(), [])


class Daemon(WithSite):
    def test_private_daemon(self):
        job = self.start_job()
        (pipe, log, server, _), second = self.clients
        self.assertEqual(second[:3], [pipe, log, server])
        folder = os.path.dirname(pipe)
        self.assertEqual(os.path.dirname(folder), self.site.tmp)
        for path in (folder, pipe, log):
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o700)
        self.assertEqual(self.site.processes("nvidia-cuda-mps-server"), [int(server)])
        self.assertEqual(self.end(job), "")

    def test_a_job_that_succeeds_leaves_nothing(self):
        status, output, errors = self.run_job("-n", 2, "mps-client")
        self.assertEqual((status, len(output.splitlines()), errors), (0, 2, ""))
        self.assertEqual((self.site.mark.processes(), self.site.folders()), ([], []))

    def test_off_is_the_default(self):
        for option in ((), ("--mps", "off")):
            status, output, _ = run(*option, "-n", 1, "mps-client", variables=self.site.variables())
            self.assertEqual((status, output), (1, "Cannot find MPS control daemon process\n"))

    def test_daemon_of_the_site_is_used_and_stays(self):
        pipe = os.path.join(self.site.root.name, "site")
        self.assertEqual(self.site.control("", pipe), (0, ""))
        status, output, errors = self.run_job("--report-bindings", "mps-client", CUDA_MPS_PIPE_DIRECTORY=pipe)
        self.assertEqual((status, output.split()[0]), (0, pipe))
        self.assertIn(f"MPS: the daemon of {pipe}", errors)
        status, output, errors = self.run_job("-x", f"CUDA_MPS_PIPE_DIRECTORY={pipe}", "mps-client")
        self.assertEqual((status, output.split()[0]), (0, pipe), errors)
        self.assertEqual(self.site.folders(), [])
        status, servers = self.site.control("get_server_list", pipe)
        self.assertEqual((status, len(servers.split())), (0, 1))
        self.assertEqual(self.site.control("", pipe)[0], 1)  # it still runs
        self.assertEqual(self.site.control("quit", pipe), (0, ""))
        self.assertEqual(self.site.mark.processes(), [])

    def test_a_dead_daemon_of_the_site_is_none(self):
        pipe = os.path.join(self.site.root.name, "site")
        self.assertEqual(self.site.control("", pipe), (0, ""))
        for pid in self.site.processes("nvidia-cuda-mps-control"):
            os.kill(pid, signal.SIGKILL)
        self.site.mark.wait_until_gone(time_limit(LIMIT))
        status, output, errors = self.run_job("--report-bindings", "mps-client", CUDA_MPS_PIPE_DIRECTORY=pipe)
        self.assertEqual(status, 0, errors)
        self.assertIn("MPS: a daemon of this job", errors)
        self.assertTrue(output.startswith(self.site.tmp))

    @unittest.skipIf(os.geteuid() != 0, "needs a second user")
    def test_a_daemon_of_another_user_is_none(self):
        pipe = os.path.join(self.site.root.name, "site")
        os.makedirs(os.path.join(pipe, "log.d"))
        for folder in (self.site.root.name, pipe, os.path.join(pipe, "log.d")):
            os.chmod(folder, 0o777)
        if self.site.control("", pipe, user=65534)[0] != 0:
            self.skipTest("another user cannot execute the emulator")
        status, output, errors = self.run_job("mps-client", CUDA_MPS_PIPE_DIRECTORY=pipe)
        self.assertEqual(status, 0, errors)
        self.assertTrue(output.startswith(self.site.tmp), output)
        self.assertEqual(self.site.control("quit", pipe), (0, ""))

    def test_visible_devices(self):
        """UUIDs mean the same to daemon and clients; with numbers the daemon would number the GPUs anew."""
        for value, of_daemon in (("GPU-00000000-1111", True), ("1,0", False)):
            job = self.start_job(CUDA_VISIBLE_DEVICES=value)
            self.assertEqual([client[3] for client in self.clients], [value] * 2)
            with open(f"/proc/{self.site.processes('nvidia-cuda-mps-control')[0]}/environ", "rb") as file:
                self.assertEqual(f"CUDA_VISIBLE_DEVICES={value}".encode() in file.read(), of_daemon)
            self.end(job)

    def test_settings_of_the_site_reach_daemon_and_ranks(self):
        limits = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "25", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=2G"}
        job = self.start_job(**limits)
        for name in ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "mps-client"):
            with open(f"/proc/{self.site.processes(name)[0]}/environ", "rb") as file:
                self.assertIn(b"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2G", file.read().split(b"\0"))
        self.end(job)

    def test_spawned_processes_share_the_daemon(self):
        status, output, errors = self.run_job("-n", 1, sys.executable, "-c", SPAWN)
        self.assertEqual(status, 0, errors)
        self.assertTrue(output.startswith(self.site.tmp), output)
        self.check_nothing_left()

    def test_a_job_in_a_job_uses_its_daemon(self):
        status, output, errors = self.run_job("-n", 1, "mpiexec", "--mps", "on", "-n", 2, "mps-client")
        self.assertEqual(status, 0, errors)
        self.assertEqual(len({line.split()[0] for line in output.splitlines()}), 1)
        self.check_nothing_left()

    def test_long_tmpdir(self):
        """The path of a socket has 107 bytes at most."""
        long = os.path.join(self.site.tmp, "x" * 100)
        os.mkdir(long)
        status, output, errors = self.run_job("mps-client", TMPDIR=long)
        self.assertEqual(status, 0, errors)
        self.assertRegex(output, "^/tmp/weft-mps-")
        self.assertFalse(os.path.exists(os.path.dirname(output.split()[0])))


class Refused(WithSite):
    def check(self, word, *arguments, status=1, **variables):
        begin = time.monotonic()
        code, output, errors = self.run_job(*(arguments or ("echo", "started")), **variables)
        self.assertEqual((code, output), (status, ""), errors)
        self.assertIn(word, errors)
        self.assertLess(time.monotonic() - begin, time_limit(LIMIT))
        self.check_nothing_left()

    def test_without_the_control_program(self):
        os.remove(os.path.join(self.site.bin, "nvidia-cuda-mps-control"))
        self.check("nvidia-cuda-mps-control is not on PATH", PATH=self.site.bin)

    def test_options(self):
        self.check("--mps on contradicts", "--continue-on-failure", "true", status=2)
        self.check("--mps on contradicts", "--with-ft", "ulfm", "true", status=2)
        self.check("have nvidia-cuda-mps-control -d run on each host", "--launcher", "hydra", "true", status=2)
        status, _, errors = run("--mps", "yes", "true")
        self.assertEqual(status, 2)
        self.assertIn("off, on", errors)

    def test_gpus(self):
        user = "GPU-a1, 4711, python\n"
        self.check("MIG instances", EMUMPS_GPUS="0, GPU-a1, Default, Enabled\n")
        self.check("MIG instances", CUDA_VISIBLE_DEVICES="MIG-5c6f")
        self.check("Prohibited", EMUMPS_GPUS="0, GPU-a1, Prohibited, Disabled\n")
        self.check("held by python (pid 4711)", EMUMPS_GPUS=EXCLUSIVE, EMUMPS_PROCESSES=user)
        self.check("No devices were found", EMUMPS_GPUS="No devices were found\n")
        # A GPU in this mode is the daemon's; others hold none of the visible ones.
        for variables in (
            {},
            {"EMUMPS_PROCESSES": "GPU-b2, 4711, python\n"},
            {"EMUMPS_PROCESSES": user, "EMUMPS_GPUS": EXCLUSIVE + "1, GPU-b2, Default, [N/A]\n",
             "CUDA_VISIBLE_DEVICES": "GPU-b2"},
        ):  # fmt: skip
            status, output, errors = self.run_job("mps-client", **{"EMUMPS_GPUS": EXCLUSIVE, **variables})
            self.assertEqual((status, len(output.split())), (0, 4), errors)

    def test_unchecked_gpus_are_reported(self):
        os.remove(os.path.join(self.site.bin, "nvidia-smi"))
        status, _, errors = self.run_job("mps-client")
        self.assertEqual(status, 0, errors)
        self.assertIn("nvidia-smi is not on PATH", errors)

    def test_daemon_does_not_start(self):
        self.check("ends with exit code 1: no permission to use the GPUs", EMUMPS_FAULT="refuses")
        self.check("ended at once; its log ends with: Failed to open the GPUs", EMUMPS_FAULT="dies")
        self.check("cannot create a folder", TMPDIR="/proc/none")


class Ends(WithSite):
    def test_foreign_links_and_folders_stay(self):
        status, output, errors = self.run_job("mps-client")
        self.assertEqual(status, 0, errors)
        host = os.path.basename(os.path.dirname(output.split()[0]))[:-6]
        target = os.path.join(self.site.root.name, "other")
        os.mkdir(target)
        link, folder = (os.path.join(self.site.tmp, host + letters) for letters in ("aaaaaa", "bbbbbb"))
        os.symlink(target, link)
        paths = [link, target]
        if os.geteuid() == 0:
            os.mkdir(folder)
            os.chown(folder, 65534, -1)
            paths.append(folder)
        status, _, errors = self.run_job("mps-client")
        self.assertEqual(status, 0, errors)
        self.assertEqual([path for path in paths if not os.path.lexists(path)], [])
        for path in (link, folder):
            if os.path.islink(path):
                os.unlink(path)
            elif os.path.exists(path):
                os.rmdir(path)

    def test_stopped_daemon(self):
        job = self.start_job()
        os.kill(self.site.processes("nvidia-cuda-mps-control")[0], signal.SIGSTOP)
        self.end(job)

    def test_daemon_is_killed(self):
        job = self.start_job()
        daemon = self.site.processes("nvidia-cuda-mps-control")[0]
        os.kill(daemon, signal.SIGKILL)
        end = time.monotonic() + time_limit(LIMIT)
        while daemon in self.site.mark.processes() and time.monotonic() < end:
            time.sleep(0.01)
        self.assertIn(f"the MPS control daemon of the job (pid {daemon}) ended before the job", self.end(job))

    def test_monitor_is_killed(self):
        job = self.start_job()
        os.kill(self.site.processes("weft-mps")[0], signal.SIGKILL)
        self.assertIn("the monitor of the MPS daemon", self.end(job))

    def test_mpiexec_and_supervisor_are_killed(self):
        job = self.start_job()
        self.kill_at_once([*self.site.processes("weft-supervisor"), job.pid])
        job.wait()
        self.check_nothing_left()

    def test_supervisor_is_killed(self):
        job = self.start_job()
        os.kill(self.site.processes("weft-supervisor")[0], signal.SIGKILL)
        self.assertEqual(job.wait(time_limit(20)), 1)
        self.assertNotIn(b"monitor", job.stderr.read())
        self.assertEqual((self.site.mark.processes(), self.site.folders()), ([], []))

    def test_monitor_is_stopped_and_mpiexec_killed(self):
        job = self.start_job()
        os.kill(self.site.processes("weft-mps")[0], signal.SIGSTOP)
        job.kill()
        job.wait()
        self.check_nothing_left()

    def test_next_job_removes_what_is_left_when_all_are_killed(self):
        other = self.start_job()
        others = self.clients[0][0]
        job = self.start_job()
        mine = set(self.site.processes("weft-")) | {job.pid}
        folder = os.path.dirname(self.clients[0][0])
        self.kill_at_once(sorted(mine - self.family(other.pid), key=lambda pid: pid == job.pid))
        job.wait()
        self.assertTrue(os.path.exists(folder))
        status, _, errors = self.run_job("mps-client")
        self.assertEqual(status, 0, errors)
        self.assertFalse(os.path.exists(folder))
        self.assertTrue(os.path.exists(others))  # of a running job
        other.kill()
        other.wait()
        self.check_nothing_left()

    def kill_at_once(self, pids):
        """The last one first stops: none acts on the end of another."""
        os.kill(pids[-1], signal.SIGSTOP)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                os.kill(pid, number)

    def family(self, pid):
        """A process, its children and theirs."""
        found = {pid}
        for _ in range(3):
            for child in self.site.mark.processes():
                with open(f"/proc/{child}/stat", encoding="utf-8", errors="replace") as file:
                    if int(file.read().rpartition(")")[2].split()[1]) in found:
                        found.add(child)
        return found

    def test_readers_of_the_output_do_not_wait_for_the_daemon(self):
        job = self.start_job()
        job.kill()
        begin = time.monotonic()
        self.assertEqual(job.stdout.read(), b"")
        self.assertLess(time.monotonic() - begin, time_limit(LIMIT))
        self.check_nothing_left()


if __name__ == "__main__":
    unittest.main(verbosity=2)
