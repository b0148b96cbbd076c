#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Output of the ranks: when it appears, and its labels.
import os
import pty
import re
import socket
import tempfile
import time
import unittest

from support import run, shell, start, time_limit


class Watched:
    """A job whose output is read while it runs, from a pipe, a terminal or a file."""

    def __init__(self, folder, target, *arguments):
        self.text, self.folder = b"", folder
        if target == "pipe":
            self.reader, writer = os.pipe()
        elif target == "terminal":
            self.reader, writer = pty.openpty()
        else:
            writer = os.open(os.path.join(folder, "output"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            self.reader = os.open(os.path.join(folder, "output"), os.O_RDONLY)
        os.set_blocking(self.reader, False)
        self.job = start(*arguments, stdout=writer, stderr=writer, variables={"FOLDER": folder})
        os.close(writer)

    def read(self):
        try:
            self.text += os.read(self.reader, 1 << 16).replace(b"\r\n", b"\n")
        except OSError:  # nothing there, or the terminal is closed
            pass

    def wait_for(self, *texts):
        """Waits until the texts have appeared, while the job waits for a file with allow()."""
        end = time.monotonic() + time_limit(5)
        while not all(text in self.text for text in texts):
            if time.monotonic() > end or self.job.poll() is not None:
                self.job.kill()
                raise AssertionError(f"{texts} did not appear, only {self.text}")
            time.sleep(0.01)
            self.read()

    def allow(self, name):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8"):
            pass

    def end(self):
        """All output, after the end of the job."""
        status = self.job.wait()
        self.read()
        os.close(self.reader)
        return status, self.text


WAIT = "wait_for() { while ! [ -e $FOLDER/$1 ]; do sleep 0.02; done; }; "


class WhenItAppears(unittest.TestCase):
    def watch(self, target, *arguments):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return Watched(folder.name, target, *arguments)

    def test_without_end_of_line(self):
        program = shell(WAIT + "printf 'name? '; printf '.' >&2; wait_for go; echo done")
        for target in ("pipe", "terminal", "file"):
            job = self.watch(target, "-n", 1, *program)
            job.wait_for(b"name? ", b".")
            job.allow("go")
            self.assertEqual(sorted(re.findall(rb"name\? |\.|done\n", job.end()[1])), [b".", b"done\n", b"name? "])

    def test_progress_bars(self):
        program = shell(
            WAIT + r"printf '10%%\r' >&2; wait_for go; printf '\r20%%' >&2; wait_for on; printf '\r30%%\n' >&2"
        )
        job = self.watch("pipe", "-l", "-n", 1, *program)
        job.wait_for(b"[0] 10%\r")
        job.allow("go")
        job.wait_for(b"\r[0] 20%")
        job.allow("on")
        self.assertEqual(job.end(), (0, b"[0] 10%\r\r[0] 20%\r[0] 30%\n"))

    def test_labels_of_lines_that_were_not_complete(self):
        script = 'if [ $PMI_RANK = 0 ]; then printf a; wait_for c; echo b; else wait_for b; echo "between"; fi'
        job = self.watch("pipe", "-l", "-n", 2, *shell(WAIT + script))
        job.wait_for(b"[0] a")
        job.allow("b")
        job.wait_for(b"\n[1] between\n")
        job.allow("c")
        self.assertEqual(job.end(), (0, b"[0] a\n[1] between\n[0] b\n"))

    def test_full_buffers_end_inside_lines(self):
        """A program that doesn't flush writes blocks; the rest of a line must not be mixed with others."""
        program = (
            "import os, time\n"
            "text = ''.join(f'rank {os.environ[\"PMI_RANK\"]} line {i:05} of many\\n' for i in range(500)).encode()\n"
            "for i in range(0, len(text), 4096):\n"
            "    os.write(1, text[i:i + 4096]); time.sleep(0.13 + 0.04 * int(os.environ['PMI_RANK']))\n"
        )
        output = run("-n", 2, "python3", "-c", program)[1].splitlines()
        self.assertEqual(len(output), 1000)
        self.assertEqual([line for line in output if not re.fullmatch(r"rank \d line \d{5} of many", line)], [])

    def test_python_is_not_buffered(self):
        program = ("--python", "-c", "import os; print(os.environ['PYTHONUNBUFFERED'])")
        self.assertEqual(run("-n", 1, *program)[1], "1\n")
        self.assertEqual(run("-n", 1, "-x", "PYTHONUNBUFFERED=", *program)[1], "\n")
        self.assertEqual(run("-n", 1, *program, variables={"PYTHONUNBUFFERED": "x"})[1], "x\n")


class Labels(unittest.TestCase):
    def test_forms_of_the_launchers(self):
        """As printed by MPICH 5.0.2, Intel MPI 2021.19, Open MPI 5.0.11 and PALS for the same option."""
        program = shell("test $PMI_RANK = 1 && { echo hi; printf 'e\r\n\n' >&2; }; true")
        host = socket.gethostname()
        day = r"\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}"
        for options, out, err in (
            ("-l", r"\[1\] ", r"\[1\] "),
            ("-prepend-rank", r"\[1\] ", r"\[1\] "),
            ("-prepend-pattern %r/%h>", f"1/{host}>", f"1/{host}>"),
            ("-prepend-timestamp", r"\d{4}-\d\d-\d\d [\d:]{8} : ", r"\d{4}-\d\d-\d\d [\d:]{8} : "),
            ("--tag-output", r"\[1,1\]<stdout>: ", r"\[1,1\]<stderr>: "),
            ("--output rank", r"\[1\]<stdout>: ", r"\[1\]<stderr>: "),
            ("--output tag-fullname", r"\[weft\S+@1,1\]<stdout>: ", r"\[weft\S+@1,1\]<stderr>: "),
            ("--timestamp-output", rf"\[{day}\]<stdout>: ", rf"\[{day}\]<stderr>: "),
            ("--output tag,timestamp", rf"\[{day}\]\[1,1\]<stdout>: ", rf"\[{day}\]\[1,1\]<stderr>: "),
            ("--label", f"{host} 1: ", f"{host} 1: "),
            ("--labels gforker", "1>", r"1\(err\)>"),
            ("--labels slurm", "1: ", "1: "),
        ):
            status, output, errors = run("-n", 2, *options.split(), *program)
            self.assertEqual(status, 0, errors)
            self.assertRegex(output, f"^{out}hi\n$", options)
            self.assertRegex(errors, f"^{err}e\n{err}\n$", options)  # text mode: \r\n is \n


if __name__ == "__main__":
    unittest.main(verbosity=2)
