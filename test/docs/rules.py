#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Tests of the documentation checks: each check must find the single fault in a small document.
import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
sys.path[:0] = [HERE, os.path.join(ROOT, "tools", "docs"), os.path.join(ROOT, "tools", "bindgen")]
import blocks  # noqa: E402
import charts  # noqa: E402
import commands  # noqa: E402
import extensions  # noqa: E402
import prose  # noqa: E402
import results  # noqa: E402

PREFIX = os.environ["MPI_PREFIX"]


def page(*parts):
    """Returns the blocks of a document; a part is (mark, language, text)."""
    text = ""
    for mark, language, body in parts:
        text += "words\n\n%s```%s\n%s\n```\n" % (mark and mark + "\n", language, body)
    return blocks.parse(text, "page.md")


class Marks(unittest.TestCase):
    def complaints(self, *parts):
        return list(blocks.complaints(page(*parts), ROOT))

    def test_good(self):
        good = [
            ("<!-- run -->", "sh", "true"),
            ("<!-- output -->", "text", "x"),
            ("<!-- run: emulated GPUs, mpi4py -->", "bash", "true"),
            ("<!-- needs: 2 GPUs -->", "console", "$ true"),
            ("<!-- tested: test/setup/wheel.py -->", "sh", "true"),
            ("<!-- file: a.c -->", "c", "int a;"),
            ("", "text", "anything"),
        ]
        self.assertEqual(self.complaints(*good), [])

    def test_faults(self):
        faults = [
            ("", "sh", "true"),
            ("", "", "true"),
            ("<!-- needs -->", "sh", "true"),
            ("<!-- tested: test/setup/gone.py -->", "sh", "true"),
            ("<!-- run: a unicorn -->", "sh", "true"),
            ("<!-- output -->", "text", "x"),
            ("<!-- run -->\nwords between", "sh", "true"),
        ]
        for fault in faults:
            self.assertEqual(len(self.complaints(fault)), 1, fault)

    def test_positions(self):
        found = blocks.parse("1. item\n\n   <!-- run -->\n   ```sh\n   echo a\n     b\n   ```\n", "page.md")
        self.assertEqual([(block.line, block.text) for block in found], [(4, "echo a\n  b\n")])


class Commands(unittest.TestCase):
    def run_page(self, *parts, available=None):
        return commands.run_page(page(*parts), PREFIX, available or {})

    def test_runs_in_one_shell(self):
        parts = [
            ("<!-- file: words -->", "text", "alpha\nbeta"),
            ("<!-- run -->", "sh", "cat words; X=1"),
            ("<!-- output -->", "text", "alpha\n...\nb..."),
            ("<!-- run -->", "sh", 'test "$X" = 1; test -f Makefile; command -v mpiexec'),
            ("<!-- output -->", "text", PREFIX + "/bin/mpiexec"),
        ]
        self.assertEqual(self.run_page(*parts), (2, [], []))

    def test_failures(self):
        count, _, failures = self.run_page(("<!-- run -->", "sh", "echo said; false\ntrue"))
        self.assertEqual((count, len(failures)), (1, 1))
        self.assertRegex(failures[0], r"^page.md:4: exit status 1:\nsaid\n")
        wrong = [("<!-- run -->", "sh", "echo beta; echo alpha"), ("<!-- output -->", "text", "alpha\nbeta")]
        self.assertIn("not printed: beta", self.run_page(*wrong)[2][0])

    def test_skips(self):
        parts = [("<!-- run: numpy -->", "sh", "false")]
        self.assertEqual(self.run_page(*parts), (0, ["page.md:4: skipped: needs numpy"], []))
        parts = [("<!-- run: numpy -->", "sh", 'test "$A" = b'), ("<!-- run -->", "sh", 'test -z "$A"')]
        self.assertEqual(self.run_page(*parts, available={"numpy": {"A": "b"}}), (2, [], []))


class Extensions(unittest.TestCase):
    def read(self, body):
        return extensions.Header('extern "C" {\n%s\n#ifdef __cplusplus' % body)

    def test_groups(self):
        header = self.read(
            "/* == One == */\n\n/* About. */\n\n/* A and B. */\nint MPIX_A(void);\n#define MPIX_B 1\n"
            "int MPIX_A_c(void);\n/* == Two == */\n\n/* T. */\ntypedef struct S* MPIX_T;\nint PMPIX_A(void);\n"
        )
        self.assertEqual([chapter.title for chapter in header.chapters], ["One", "Two"])
        self.assertEqual(header.chapters[0].introduction, ["About."])
        self.assertEqual(header.all_names(), ["MPIX_A", "MPIX_A_c", "MPIX_B", "MPIX_T"])
        self.assertIn("int MPIX_A_c(void);", extensions.page(header, "MPIX_A", str))
        self.assertIn("### MPIX_A, MPIX_B\n", extensions.markdown(header))

    def test_markup(self):
        comment = 'Hints: "type" = "cudaStream_t" and "weft_x" of MPI_Info (docs/fault-tolerance.md, weft_device.cuh).'
        code = "`type` = `cudaStream_t` and `weft_x` of `MPI_Info` ([fault tolerance](fault-tolerance.md), `weft_device.cuh`)"
        self.assertIn(code, extensions.markdown(self.read("/* == A == */\n\n/* %s */\nint MPIX_A(void);\n" % comment)))

    def test_name_without_comment(self):
        with self.assertRaises(SystemExit):
            self.read("/* == One == */\n\n/* A. */\nint MPIX_A(void);\n\nint MPIX_B(void);\n")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


class Links(unittest.TestCase):
    OUTSIDE = {
        "packaging.md": "../packaging/README.md",
        "contributing.md": "../CONTRIBUTING.md",
        "changelog.md": "../CHANGELOG.md",
    }

    def test_all_pages_listed(self):
        """Each page is in the menu of the site and in the list of the first page, which readers of the tree have."""
        menu = re.findall(r"^ +- [^:]+: (\S+\.md)$", read("mkdocs.yml"), re.MULTILINE)
        pages = {name for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md")}
        self.assertEqual(pages - set(menu), set())
        listed = re.findall(r"\]\(([^)#]+)", read("docs", "index.md"))
        wanted = {self.OUTSIDE.get(name, name) for name in menu} - {"index.md"}
        self.assertEqual(wanted - set(listed), set())

    def test_files_of_the_tree(self):
        """Links lead to files of the source tree, also links that the site resolves by itself."""
        found = 0
        for name in blocks.pages(ROOT):
            text = re.sub(r"(?ms)^```.*?^```$|`[^`\n]*`", "", read(name))
            for link in re.findall(r"\]\(([^)#\s]+)", text):
                if "://" not in link:
                    found += 1
                    target = os.path.join(ROOT, os.path.dirname(name), link)
                    self.assertTrue(os.path.exists(target), f"{name}: {link} does not exist")
        self.assertGreater(found, 100)


class Prose(unittest.TestCase):
    def test_diary(self):
        good = "Text.\n```text\n0123abcd\n```\n`0123abcd`, [0123abcd.json](a-0123abcd.json), effaced defaced 20261128\n"
        self.assertEqual(list(prose.complaints("page.md", good)), [])
        for fault in ("at 0123abc", "commit 12345678", "97 percent; on a later machine 96", "mended since"):
            self.assertEqual(len(list(prose.complaints("page.md", fault))), 1, fault)

    def test_changelog(self):
        entries = "# Changelog\n\n## New\n\n### Part\n" + "- entry\n" * prose.MAX_ENTRIES
        self.assertEqual(list(prose.changelog(entries + "\n## Old\n\n- two\n  lines\n")), [])
        for fault in (entries + "- one more\n", entries + "  a second line\n", "# Changelog\n", "## New\n"):
            self.assertEqual(len(list(prose.changelog(fault))), 1, fault)


class RecordedRuns(unittest.TestCase):
    def test_row(self):
        cases = "".join(
            '<testcase name="%s" status="%s"/>' % pair for pair in enumerate(["run", "run", "fail", "notrun"])
        )
        columns = "date,commit,machine,suite,passed,total,skipped,seconds\n"
        with tempfile.TemporaryDirectory() as folder:
            junit, table = os.path.join(folder, "a.xml"), os.path.join(folder, "runs.csv")
            for text, head, status in ((cases, columns, 0), ("", columns, 1), (cases, "another\n", 1)):
                with open(junit, "w", encoding="utf-8") as file:
                    file.write('<testsuite time="12.4">%s</testsuite>' % text)
                with open(table, "w", encoding="utf-8") as file:
                    file.write(head)
                tool = [sys.executable, os.path.join(ROOT, "tools", "record_run.py"), junit, "--suite", "quick"]
                done = subprocess.run([*tool, "--file", table], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, status, done.stderr)
                with open(table, encoding="utf-8") as file:
                    rows = file.read().splitlines()[1:]
                self.assertEqual([row.split(",")[-4:] for row in rows], [] if status else [["2", "3", "1", "12"]])


class SlowPaths(unittest.TestCase):
    def check(self, source, page):
        with tempfile.TemporaryDirectory() as root:
            for path, text in (("src/a.cpp", source), ("docs/slow-paths.md", page)):
                os.makedirs(os.path.join(root, os.path.dirname(path)))
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            tool = os.path.join(ROOT, "tools", "docs", "slow_paths.py")
            done = subprocess.run(
                [sys.executable, tool, "--root", root], stdout=subprocess.PIPE, text=True, check=False
            )
            return done.returncode, done.stdout

    def test_both_directions(self):
        source = 'log::SlowPath lame{"a.lame",\n "slow"};'
        self.assertEqual(self.check(source, "| `a.lame` | see `b.other` |\n"), (0, ""))
        self.assertIn("does not explain a.lame", self.check(source, "words\n")[1])
        self.assertIn("explains b.gone", self.check(source, "| `a.lame`, `b.gone` | x |\n")[1])


class Charts(unittest.TestCase):
    def tree(self, root):
        """Copies the results, the page and the charts."""
        for folder in ("bench/results", "docs/images/charts"):
            shutil.copytree(os.path.join(ROOT, folder), os.path.join(root, folder))
        shutil.copy(os.path.join(ROOT, "docs", "performance.md"), os.path.join(root, "docs"))
        return os.path.join(root, charts.CHARTS)

    def test_stale(self):
        with tempfile.TemporaryDirectory() as root:
            folder = self.tree(root)
            self.assertEqual(list(charts.stale(root, folder)), [])
            path = os.path.join(root, "bench", "results", results.name_in_results("peers-2.json"))
            with open(path, encoding="utf-8") as file:
                content = json.load(file)
            content["figures"]["Weft"]["latency 8"][0] *= 1.1
            with open(path, "w", encoding="utf-8") as file:
                json.dump(content, file)
            os.rename(os.path.join(folder, "files.svg"), os.path.join(folder, "filed.svg"))
            found = sorted(line.split(".svg")[0] for line in charts.stale(root, folder))
            self.assertEqual(found, ["device-messages", "filed", "files"])

    def test_drawn(self):
        sys.path.append(os.path.join(ROOT, "build", "tools", "python"))
        if not importlib.util.find_spec("matplotlib"):
            self.skipTest("needs matplotlib")
        with tempfile.TemporaryDirectory() as root:
            folder = self.tree(root)
            for name, make in charts.DRAWN.items():
                chart, path = make(root), os.path.join(folder, name + ".svg")
                charts.draw(chart, path)
                with open(path, encoding="utf-8") as file:
                    text = html.unescape(file.read())
                for words in (chart.title, *chart.source.split("\n"), *(row.label for row in chart.rows)):
                    self.assertIn(f">{words}<", text)
            self.assertEqual(list(charts.stale(root, folder)), [])

    def test_ratios(self):
        mark = charts.compare([2, 4, 3], [[6, 6, 6], [9, 9, 9]], "us")
        self.assertEqual((mark.ratio, mark.weft, mark.peer, mark.note), (0.5, [0.3333, 0.5, 0.6667], [1, 1, 1], "3 us"))
        mark = charts.compare([8000], [[4000], [2000]], "MB/s", more_is_better=True)
        self.assertEqual((mark.ratio, mark.note, charts.interval(mark.weft)), (0.5, "8 GB/s", None))


class Settings(unittest.TestCase):
    def test_stale_page(self):
        def run(root, *options):
            tool = os.path.join(ROOT, "tools", "docs", "settings.py")
            command = [sys.executable, tool, PREFIX, "--root", root, *options]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            return done.returncode, done.stdout

        with tempfile.TemporaryDirectory() as root:
            os.mkdir(os.path.join(root, "docs"))
            self.assertEqual(run(root)[0], 0)
            self.assertEqual(run(root, "--check")[0], 0)
            path = os.path.join(root, "docs", "settings.md")
            with open(path, encoding="utf-8") as file:
                lines = file.readlines()
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(line for line in lines if "`WEFT_P2P_CREDIT`" not in line)
            status, printed = run(root, "--check")
            self.assertEqual(status, 1)
            self.assertIn("+ | `WEFT_P2P_CREDIT` |", printed)


if __name__ == "__main__":
    unittest.main()
