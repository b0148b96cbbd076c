#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# A program with set-user-ID, set-group-ID or a file capability, started by another user: it takes no setting, no profile
# and no job from the environment, and it loads no library that the environment names.
# usage: secure.py CC HOSTILE_LIBRARY
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PREFIX = os.environ["MPI_PREFIX"]
HERE = os.path.dirname(os.path.abspath(__file__))
USER = 65534  # nobody: no more than any user
PRIVILEGES = {
    "set-user-ID": lambda path: os.chmod(path, 0o4755),
    "set-group-ID": lambda path: os.chmod(path, 0o2755),
    "capability": lambda path: subprocess.run(["setcap", "cap_net_raw+ep", path], check=True),
}
# For each variable that names a library: what else makes Weft load it.
LIBRARIES = {
    "WEFT_CUDA_DRIVER": {},
    "WEFT_NET_UCX_LIBRARY": {},
    "WEFT_NET_OFI_LIBRARY": {"WEFT_NET": "ofi"},
    "WEFT_LAUNCH_PMIX_LIBRARY": {"PMIX_NAMESPACE": "a", "PMIX_RANK": "0"},
    "NVTX_INJECTION64_PATH": {},
}


class Secure(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="weft-secure-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        os.chmod(cls.folder, 0o755)
        cls.library = shutil.copy(HOSTILE, cls.folder)
        shutil.copy(os.path.join(PREFIX, "lib", "libmpi_abi.so.1"), cls.folder)
        program = os.path.join(cls.folder, "plain")
        subprocess.run([CC, "-I" + os.path.join(PREFIX, "include"), os.path.join(HERE, "secure.c"), "-o", program,
                        os.path.join(cls.folder, "libmpi_abi.so.1"), "-Wl,-rpath," + cls.folder], check=True)  # fmt: skip
        os.chmod(program, 0o755)
        cls.programs = {}
        for name, give in PRIVILEGES.items():
            if name != "capability" or shutil.which("setcap"):
                cls.programs[name] = shutil.copy(program, os.path.join(cls.folder, name))
                give(cls.programs[name])
        cls.programs["plain"] = program
        cls.home = os.path.join(cls.folder, "home")  # the user's
        os.mkdir(cls.home)
        os.chmod(cls.home, 0o777)

    def setUp(self):
        self.mark = os.path.join(self.home, "loaded")

    def run_as_user(self, name, **variables):
        """(exit code, output, whether the hostile library was loaded) of a program that another user starts."""
        environment = {"PATH": os.environ["PATH"], "HOME": self.home, "HOSTILE_MARK": self.mark, **variables}
        words = ["setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", self.programs[name]]
        done = subprocess.run(words, env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60, check=False)  # fmt: skip
        loaded = os.path.exists(self.mark)
        if loaded:
            os.remove(self.mark)
        return done.returncode, done.stdout, loaded

    def privileged(self):
        for name in sorted(set(self.programs) - {"plain"}):
            if "secure 1" not in self.run_as_user(name)[1]:
                self.fail(f"the kernel does not mark a program with {name} for secure execution")
            yield name

    def test_libraries(self):
        for variable, more in LIBRARIES.items():
            variables = {variable: self.library, **more}
            with self.subTest(variable=variable):
                self.assertTrue(self.run_as_user("plain", **variables)[2], "the setting has no effect at all")
                for name in self.privileged():
                    status, said, loaded = self.run_as_user(name, **variables)
                    self.assertFalse(loaded, said)
                    self.assertNotIn(self.library, said)
                    self.assertEqual(status, 3 if "PMIX_RANK" in more else 0, said)

    def test_settings_and_profiles(self):
        path = os.path.join(self.home, ".config", "weft", "profile")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.addCleanup(os.remove, path)
        words = [os.path.join(PREFIX, "bin", "weft"), "info", "--json"]
        said = subprocess.run(words, env={"PATH": os.environ["PATH"]}, stdout=subprocess.PIPE, check=True).stdout
        machine = json.loads(said)["machine"]
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"[{machine}]\np2p.eager_max = 8192\n")
        for variables, seen in (
            ({}, "setting WEFT_P2P_EAGER_MAX profile"),
            ({"WEFT_PROFILE": path}, "setting WEFT_PROFILE environment"),
            ({"XDG_CONFIG_HOME": self.home + "/.config", "HOME": "/"}, "setting WEFT_P2P_EAGER_MAX profile"),
            ({"WEFT_P2P_EAGER_MAX": "4096"}, "setting WEFT_P2P_EAGER_MAX environment"),
            ({"WEFT_P2P_EAGER_MAX": "secret"}, "secret"),
            ({"WEFT_NOT_A_SETTING": "1"}, "WEFT_NOT_A_SETTING"),
            ({"WEFT_PROFILE": "/etc/shadow"}, "/etc/shadow"),
        ):
            with self.subTest(variables=variables):
                self.assertIn(seen, self.run_as_user("plain", **variables)[1])
                for name in self.privileged():
                    status, said, _ = self.run_as_user(name, **variables)
                    self.assertEqual(status, 0, said)
                    self.assertNotIn("setting", said)
                    self.assertNotIn(seen, said)

    def test_a_job_is_refused(self):
        for variables in (
            {"PMI_FD": "2", "PMI_RANK": "0", "PMI_SIZE": "1"},
            {"PMI_PORT": "127.0.0.1:1", "PMI_ID": "0"},
        ):
            for name in self.privileged():
                status, said, _ = self.run_as_user(name, **variables)
                self.assertEqual(status, 3, said)
                self.assertIn("set-user-ID", said)
                self.assertNotIn("cmd=init", said)


def why_skipped():
    if os.geteuid() != 0:
        return "only root makes programs with the privileges of another user"
    if not shutil.which("setpriv"):
        return "setpriv (util-linux) starts programs as another user"
    if os.statvfs(tempfile.gettempdir()).f_flag & os.ST_NOSUID:
        return f"{tempfile.gettempdir()} is mounted with nosuid"
    with open("/proc/self/status", encoding="utf-8") as file:
        if "NoNewPrivs:\t1" in file.read():
            return "this process and its children get no new privileges (no_new_privs)"
    return None


if __name__ == "__main__":
    CC, HOSTILE = sys.argv[1:3]
    reason = why_skipped()
    if reason:
        print("skipped:", reason)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
