# SPDX-License-Identifier: BSD-3-Clause
"""The generator: its outputs, determinism, and errors for unknown input."""

import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["WEFT_SOURCE"]
APIS = os.environ["WEFT_APIS_JSON"]


def generate(out, *options, source=SOURCE, apis=APIS):
    command = [
        sys.executable,
        os.path.join(SOURCE, "tools/bindgen/generate.py"),
        "--src",
        source,
        "--out",
        out,
        "--apis",
        apis,
        *options,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class Generator(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def small_source(self, **files):
        """A repository with only spec/, weft.h and the given files in src/api."""
        root = self.path("repository")
        shutil.copytree(os.path.join(SOURCE, "spec"), os.path.join(root, "spec"))
        os.makedirs(os.path.join(root, "include"))
        shutil.copy(os.path.join(SOURCE, "include", "weft.h"), os.path.join(root, "include"))
        os.makedirs(os.path.join(root, "src/api"))
        wtime = "namespace weft::api::impl {\ndouble Wtime() {\n}\ndouble Wtick() {\n}\n}\n"
        for name, text in {"wtime": wtime, **files}.items():
            with open(os.path.join(root, "src/api", name + ".cpp"), "w", encoding="utf-8") as stream:
                stream.write(text)
        return root

    def test_outputs_match_the_list_and_are_deterministic(self):
        listed = generate(self.path("a"), "--list-outputs").stdout.split()
        self.assertEqual(generate(self.path("a")).returncode, 0)
        written = [os.path.join(p, n) for p, _, names in os.walk(self.path("a")) for n in names]
        self.assertEqual(sorted(listed), sorted(written))
        self.assertEqual(generate(self.path("b")).returncode, 0)
        for name in written:
            self.assertTrue(filecmp.cmp(name, name.replace(self.path("a"), self.path("b")), shallow=False), name)

    def test_does_not_rewrite_unchanged_files(self):
        generate(self.path("a"))
        header = self.path("a", "include", "mpi.h")
        os.utime(header, (1, 1))
        generate(self.path("a"))
        self.assertEqual(os.stat(header).st_mtime, 1)

    def test_sources_have_similar_size(self):
        generate(self.path("a"))
        sizes = {True: [], False: []}  # of cold sources, which are larger, since they compile faster, and of others
        for name in os.listdir(self.path("a", "api")):
            if name.endswith(".cpp"):
                sizes["_cold_" in name].append(os.path.getsize(os.path.join(self.path("a", "api"), name)))
        for group in sizes.values():
            self.assertLess(max(group), 1.5 * min(group))
        self.assertLess(max(sizes[True]), 2 * min(sizes[False]))

    def test_the_coverage_page_is_current(self):
        generate(self.path("a"))
        with open(self.path("a", "coverage.md"), encoding="utf-8") as new:
            with open(os.path.join(SOURCE, "docs/coverage.md"), encoding="utf-8") as committed:
                self.assertEqual(
                    committed.read(),
                    new.read(),
                    "run tools/bindgen/generate.py with --update-coverage and commit docs/coverage.md",
                )

    def test_finds_definitions_but_not_declarations(self):
        text = (
            "namespace weft::api::impl {\nStatus Send(const void* buf);\n"
            "Status Recv(void* buf,\n            int (*f)(int)) {\n  return {};\n}\n}\n"
        )
        root = self.small_source(p2p=text)
        self.assertEqual(generate(self.path("a"), source=root).stderr, "")
        with open(self.path("a", "coverage.md"), encoding="utf-8") as stream:
            page = stream.read()
        done, missing = page.split("## Point-to-point communication")[1].split("Not yet:")[:2]
        self.assertIn("`MPI_Recv`", done)
        self.assertIn("`MPI_Send`", missing)

    def test_duplicate_definition_is_an_error(self):
        text = "namespace weft::api::impl {\nStatus Send() {\n}\n}\n"
        result = generate(self.path("a"), source=self.small_source(one=text, two=text))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("Send is defined in src/api/one.cpp and in src/api/two.cpp", result.stderr)

    def test_unknown_function_is_an_error(self):
        text = "namespace weft::api::impl {\nStatus Sendd() {\n}\n}\n"
        result = generate(self.path("a"), source=self.small_source(one=text))
        self.assertIn("defines Sendd, which is not an MPI function", result.stderr)

    def test_unknown_kind_and_missing_function_are_errors(self):
        with open(APIS, encoding="utf-8") as stream:
            api = json.load(stream)
        removed = api.pop("mpi_ssend")
        path = self.path("apis.json")
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(api, stream)
        self.assertIn("662 functions, not 664", generate(self.path("a"), apis=path).stderr)
        removed["parameters"][0]["kind"] = "SOMETHING_NEW"
        api["mpi_ssend"] = removed
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(api, stream)
        self.assertIn("unknown parameter kind SOMETHING_NEW", generate(self.path("a"), apis=path).stderr)


if __name__ == "__main__":
    unittest.main()
