#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# weft: the command line of the prefix answers, in each form, and refuses what it does not know.
import json
import os
import subprocess
import unittest

PREFIX = os.environ["MPI_PREFIX"]


def weft(*arguments):
    """(status, output, errors) of a weft command."""
    done = subprocess.run(
        [os.path.join(PREFIX, "bin", "weft"), *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


class CommandLine(unittest.TestCase):
    def test_info(self):
        status, out, err = weft("info", "--json")
        self.assertEqual(status, 0, err)
        facts = json.loads(out)
        self.assertEqual(facts["prefix"], PREFIX)
        self.assertIn("Weft " + facts["weft"], facts["library_says"])
        self.assertEqual(facts["mpi_standard"], "5.0")
        status, out, _ = weft("info", "--parsable")
        self.assertEqual((status, out.splitlines()[0]), (0, "weft:weft:" + facts["weft"]))
        status, out, _ = weft("info")
        self.assertEqual(status, 0)
        self.assertIn(PREFIX, out)

    def test_settings(self):
        os.environ["WEFT_P2P_CREDIT"] = "64k"
        try:
            status, out, err = weft("info", "--config", "--json")
            self.assertEqual(status, 0, err)
            found = {setting["variable"]: setting for setting in json.loads(out)}
            self.assertEqual(found["WEFT_P2P_CREDIT"]["value"], "65536")
            self.assertEqual(found["WEFT_P2P_CREDIT"]["origin"], "environment")
            self.assertEqual(found["WEFT_LOG"]["origin"], "default")
            self.assertIn("WEFT_P2P_CREDIT = 65536   (environment)", weft("info", "--config")[1])
            os.environ["WEFT_P2P_CREDIT"] = "many"
            status, _, err = weft("info", "--config")
            self.assertEqual(status, 1)
            self.assertIn("WEFT_P2P_CREDIT=many", err)
        finally:
            del os.environ["WEFT_P2P_CREDIT"]

    def test_version_and_refusals(self):
        self.assertRegex(weft("--version")[1], r"^weft \d+\.\d+\.\d+$")
        self.assertEqual(weft("nonsense")[0], 2)
        self.assertEqual(weft("info", "--nonsense")[0], 2)
        self.assertEqual(weft()[0], 2)


if __name__ == "__main__":
    unittest.main()
