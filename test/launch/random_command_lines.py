#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Each line of random_command_lines.txt, whose program is ./show, runs with the number of processes, variables and
# arguments that the file says, or is refused with a message. None changes one of them silently.
import os
import re
import subprocess
import tempfile
import unittest

from support import MPIEXEC, clean_environment

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "random_command_lines.txt")
SHOW = '#!/bin/sh\necho "${PWD##*/}|A=$A|B=$B|$*"\n'


def expected_lines(command, expected, folder):
    """The lines that the processes print. `expected`: the text after " => ", "2 A=5 in sub ./show x : 1 ./show"."""
    lines = []
    for of_command, of_program in zip(command.split(" : "), expected.split(" : ")):
        words = of_program.split()
        options = words[1 : words.index("./show")]
        values = dict(word.split("=", 1) for word in options if "=" in word)
        where = options[options.index("in") + 1] if "in" in options else folder
        arguments = of_command.split(" ./show")[1].strip()
        lines += [f"{where}|A={values.get('A', '')}|B={values.get('B', '')}|{arguments}"] * int(words[0])
    return sorted(lines)


def output_in_files(folder):
    """What went into the files of --outfile-pattern o.%r."""
    lines = []
    for name in os.listdir(folder):
        if name.startswith("o."):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                lines += file.read().splitlines()
    return lines


class RandomCommandLines(unittest.TestCase):
    def test_each(self):
        with open(LIST, encoding="utf-8") as file:
            cases = [line.rstrip("\n").split(" => ") for line in file if not line.startswith("#")]
        self.assertGreaterEqual(len(cases), 200)
        for command, expected in cases:
            with self.subTest(command), tempfile.TemporaryDirectory() as folder:
                for where in (folder, os.path.join(folder, "sub")):
                    os.makedirs(where, exist_ok=True)
                    with open(os.path.join(where, "show"), "w", encoding="utf-8") as file:
                        file.write(SHOW)
                    os.chmod(file.name, 0o755)
                self.check(command, expected, folder)

    def check(self, command, expected, folder):
        done = subprocess.run(
            [MPIEXEC, *command.split()[1:]], cwd=folder, env=clean_environment(WEFT_FAKE_HOSTS="2"),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if expected.startswith("! ") or done.returncode == 2:
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            # Bindings are refused on a machine that has too few cores or GPUs for them, and on simulated hosts.
            cause = re.escape(expected[2:]) if expected.startswith("! ") else "cores|GPU|simulated host"
            self.assertRegex(done.stderr, cause)
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = done.stdout.splitlines() + output_in_files(folder)
        if " placed only" in expected:
            self.assertEqual(shown, [])
            return
        plain = [re.sub(r"^.*?(sub|%s)\|" % os.path.basename(folder), r"\1|", line) for line in shown]  # labels
        self.assertEqual(sorted(plain), expected_lines(command, expected, os.path.basename(folder)))
        notes = re.search(r" notes=(\d+)$", expected)
        self.assertEqual(done.stderr.count(" has no effect"), int(notes.group(1)) if notes else 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
