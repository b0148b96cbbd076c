#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The library reads a profile from the user's configuration folder: the environment overrides the profile, the profile
# overrides the defaults, and an invalid line is an error that names the line.
import json
import os
import subprocess
import tempfile
import unittest

WEFT = os.path.join(os.environ["MPI_PREFIX"], "bin", "weft")


class ProfileInUse(unittest.TestCase):
    def weft(self, *words, **variables):
        environment = {**os.environ, "XDG_CONFIG_HOME": self.folder, **variables}
        return subprocess.run([WEFT, *words], env=environment, capture_output=True, text=True, check=False)

    def settings(self, **variables):
        found = json.loads(self.weft("info", "--config", "--json", **variables).stdout)
        return {setting["variable"]: (setting["value"], setting["origin"]) for setting in found}

    def test_origins(self):
        with tempfile.TemporaryDirectory() as self.folder:
            machine = json.loads(self.weft("info", "--json").stdout)["machine"]
            os.mkdir(os.path.join(self.folder, "weft"))
            path = os.path.join(self.folder, "weft", "profile")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"[{machine}]\np2p.eager_max = 8192\n")
            self.assertEqual(self.settings()["WEFT_P2P_EAGER_MAX"], ("8192", "profile"))
            self.assertEqual(self.settings(WEFT_P2P_EAGER_MAX="4096")["WEFT_P2P_EAGER_MAX"], ("4096", "environment"))
            self.assertEqual(self.settings(WEFT_PROFILE="off")["WEFT_P2P_EAGER_MAX"][1], "default")
            self.assertEqual(self.settings(WEFT_PROFILE=path)["WEFT_P2P_EAGER_MAX"], ("8192", "profile"))
            for line, message in (
                ("p2p.gone = 1", "p2p.gone"),
                ("p2p.eager_max = x", "EAGER_MAX=x"),
                ("nonsense", ":2:"),
            ):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"[{machine}]\n{line}\n")
                result = self.weft("info", "--config")
                self.assertEqual(result.returncode, 2)
                self.assertIn(message, result.stderr)
            found = json.loads(self.weft("info", "--config", "--all", "--json", WEFT_PROFILE="off").stdout)
            paths = [setting["variable"] for setting in found if setting["range"] == "a path"]
            for setting in found:  # settings that look like the name of a file are declared as such
                named = setting["variable"].endswith(("_LIBRARY", "_DRIVER", "_PATH", "_FILE", "_PROGRAM"))
                if named or ".so" in setting["default"] or "Path of" in setting["help"]:
                    self.assertIn(setting["variable"], paths)
            self.assertGreaterEqual(len(paths), 7)
            for variable in set(paths) - {"WEFT_PROFILE"}:
                group, _, rest = variable[len("WEFT_") :].lower().partition("_")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(f"[{machine}]\n{group}.{rest} = /tmp/evil.so\n")
                result = self.weft("info", "--config")
                self.assertEqual(result.returncode, 2)
                self.assertIn(f"{group}.{rest} names a file", result.stderr)
            self.assertIn(
                "WEFT_PROFILE: /not/there: cannot be read",
                self.weft("info", "--config", WEFT_PROFILE="/not/there").stderr,
            )


if __name__ == "__main__":
    unittest.main()
