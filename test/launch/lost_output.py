#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Output that cannot be written is named on standard error and makes the exit code 1; a reader that has gone is no error.
# usage: lost_output.py PEER FAIL_WRITE_LIBRARY
import errno
import os
import subprocess
import sys
import tempfile
import unittest

FAIL_WRITE = os.path.abspath(sys.argv.pop(2))
from support import MPIEXEC, clean_environment, run, shell  # noqa: E402


class LostOutput(unittest.TestCase):
    def setUp(self):
        own = tempfile.TemporaryDirectory()
        self.addCleanup(own.cleanup)
        self.folder = own.name

    def check_lost(self, done, error, stream="output"):
        """One line names the error, and the exit code is 1."""
        status, _, errors = done
        line = f"mpiexec: cannot write standard {stream} ({os.strerror(error)}): output of the ranks is lost\n"
        self.assertEqual((status, errors), (1, line))

    def in_shell(self, script):
        """(exit code, "", errors) of a shell script in which $M is mpiexec; its errors go to the file e."""
        environment = clean_environment(M=MPIEXEC)
        done = subprocess.run(["sh", "-c", script], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60,
                              check=False)  # fmt: skip
        path = os.path.join(self.folder, "e")
        if not os.path.exists(path):
            return done.returncode, "", done.stderr
        with open(path, encoding="utf-8") as file:
            return done.returncode, "", file.read()

    def test_full_disk(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            self.check_lost(run("-n", 3, "echo", "lost", stdout=full), errno.ENOSPC)
            self.check_lost(run("-n", 2, "printf", "no end of line", stdout=full), errno.ENOSPC)
            self.check_lost(run("-n", 2, "yes", stdout=full), errno.ENOSPC)  # SIGPIPE ends them
            self.check_lost(run("--tag-output", "-n", 1, "echo", "lost", stdout=full), errno.ENOSPC)
            self.assertEqual(run("-n", 3, "true", stdout=full)[0], 0)
            status, _, errors = run("-n", 1, *shell("echo lost; sleep 0.2; exit 7"), stdout=full)
            self.assertEqual(status, 7)
            self.assertIn("No space left", errors)

    def test_full_disk_under_standard_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            status, output, _ = run("-n", 1, *shell("echo lost >&2; echo seen"), stderr=full)
        self.assertEqual((status, output), (1, "seen\n"))

    def test_answers_of_mpiexec_itself(self):
        for option in ("--help", "--version"):
            with open("/dev/full", "w", encoding="utf-8") as full:
                status, _, errors = run(option, stdout=full)
            self.assertEqual(status, 1)
            self.assertIn("No space left", errors)

    @unittest.skipUnless(os.geteuid() == 0, "only root mounts a file system")
    def test_small_file_system(self):
        place = os.path.join(self.folder, "small")
        os.mkdir(place)
        script = "mount -t tmpfs -o size=64k none small || exit 77; "
        script += '"$M" -n 1 head -c 1000000 /dev/zero > small/file 2> e; s=$?; wc -c < small/file > size; exit $s'
        words = ["unshare", "-m", "--propagation", "private", "sh", "-c", script]
        done = subprocess.run(words, cwd=self.folder, env=clean_environment(M=MPIEXEC), timeout=60, check=False)
        if done.returncode == 77:
            self.skipTest("a file system cannot be mounted here")
        with open(os.path.join(self.folder, "e"), encoding="utf-8") as errors:
            self.check_lost((done.returncode, "", errors.read()), errno.ENOSPC)
        with open(os.path.join(self.folder, "size"), encoding="utf-8") as size:
            self.assertEqual(int(size.read()), 65536)

    def test_limit_on_files(self):
        script = '( ulimit -f 8; "$M" -n 2 head -c 100000 /dev/zero > file; echo $? > status ) 2> e; exit $(cat status)'
        self.check_lost(self.in_shell(script), errno.EFBIG)

    def test_closed_output(self):
        self.check_lost(self.in_shell('"$M" -n 2 echo lost >&- 2> e'), errno.EBADF)
        self.assertEqual(self.in_shell('"$M" -n 2 true >&- 2> e'), (0, "", ""))
        self.assertEqual(self.in_shell('"$M" -n 2 sh -c "echo lost >&2" 2>&-'), (1, "", ""))
        self.assertEqual(self.in_shell('"$M" -n 2 true <&- >&- 2>&-'), (0, "", ""))

    def test_errors_of_devices_and_quotas(self):
        with open(os.path.join(self.folder, "file"), "w", encoding="utf-8") as file:
            for error in (errno.EIO, errno.EDQUOT, errno.ESTALE):
                for call in ("FAIL_WRITE", "FAIL_CLOSE"):
                    with self.subTest(call=call, error=errno.errorcode[error]):
                        variables = {"LD_PRELOAD": FAIL_WRITE, call: str(error)}
                        self.check_lost(run("-n", 2, "echo", "lost", variables=variables, stdout=file), error)

    def test_a_reader_that_has_gone_is_quiet(self):
        script = (
            '{ "$M" -n 1 sh -c "echo a; sleep 0.2; echo b; sleep 0.2; echo c"; echo $? > status; } 2> e | head -n 1; '
        )
        self.assertEqual(self.in_shell(script + "exit $(cat status)")[0], 128 + 13)
        with open(os.path.join(self.folder, "e"), encoding="utf-8") as errors:
            self.assertNotIn("cannot write", errors.read())


if __name__ == "__main__":
    unittest.main(verbosity=2)
