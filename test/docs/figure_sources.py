#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# tools/docs/results.py and figures.py on trees of a few files: figures of several commits, of changed sources, without a date,
# cited files that do not exist, names that are still called earlier, and tables from both formats of a file.
import json
import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "docs"))
sys.dont_write_bytecode = True
import figures  # noqa: E402
import results  # noqa: E402

DATE = "2026-11-30"
EARLIER = "<!-- figures: earlier -->\n<!-- end of figures -->\n"


class Tree:
    """A root with pages and result files."""

    def __init__(self, pages, files):
        self.folder = tempfile.TemporaryDirectory()
        self.root = self.folder.name
        for path, text in {"README.md": "", **pages}.items():
            self.write(path, text)
        for path, content in files.items():
            self.write(os.path.join(results.RESULTS, path), json.dumps(content))

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def __enter__(self):
        return self.root

    def __exit__(self, *_):
        self.folder.cleanup()


def page(*paths):
    return "".join(f"[x](../bench/results/{path})\n" for path in paths)


class Complaints(unittest.TestCase):
    def complaints(self, pages, files):
        with Tree(pages, files) as root:
            return results.complaints(root)

    def test_one_commit_is_right(self):
        files = {f"figures/{name}.json": {"date": DATE, "commit": "0123456789ab"} for name in ("a", "b")}
        pages = {"docs/a.md": page("figures/a.json", "old.json")}
        self.assertEqual(self.complaints(pages, {**files, "old.json": {"date": DATE}}), [])

    def test_two_commits(self):
        files = {f"figures/{name}.json": {"date": DATE, "commit": "0123456789a" + name} for name in ("a", "b")}
        (text,) = self.complaints({}, files)
        self.assertIn("several commits: 0123456789aa (a.json); 0123456789ab (b.json)", text)

    def test_changed_or_unknown_sources(self):
        for commit in ("0123456789ab+", "?", None):
            (text,) = self.complaints({}, {"figures/a.json": {"date": DATE, "commit": commit}})
            self.assertIn("sources of the library were changed", text)

    def test_dates(self):
        (text,) = self.complaints({}, {"figures/a.json": {"commit": "0123456789ab"}})
        self.assertIn("a.json: it has no date", text)
        (text,) = self.complaints({"docs/a.md": page("old.json")}, {"old.json": {"commit": "0123456789ab"}})
        self.assertIn("old.json, which a.md cites, has no date", text)

    def test_missing_file(self):
        (text,) = self.complaints({"docs/a.md": page("nothing.json")}, {})
        self.assertIn("a.md cites bench/results/nothing.json, which does not exist", text)

    def test_no_longer_earlier(self):
        name = next(iter(results.EARLIER))
        (text,) = self.complaints({}, {"figures/" + name: {"date": DATE, "commit": "0123456789ab"}})
        self.assertIn("remove it from EARLIER", text)


class Tables(unittest.TestCase):
    def test_earlier_files(self):
        files = {
            "old.json": {"date": DATE, "commit": "0123456", "gpu": "H200", "gpus": 2},
            "older.json": {"date": "2026-01-01", "commit": "the parent of 0123456"},
            "figures/a.json": {"date": DATE, "commit": "0123456789ab"},
        }
        pages = {
            "docs/a.md": page(*files),
            "docs/b.md": page("old.json") + EARLIER.replace("\n<", page("written.json") + "<"),
        }
        with Tree(pages, files) as root:
            lines = results.earlier(root).splitlines()[2:]
        self.assertEqual([line.split(" | ")[1:] for line in lines],
                         [[DATE, "`0123456`", "2 x H200", "a, b |"], ["2026-01-01", "-", "-", "a |"]])  # fmt: skip

    def test_every_figure_is_shown(self):
        self.assertLessEqual(set(results.EARLIER), set(results.SHOWN))

    def test_solver(self):
        rows = [{"name": name, "value": value} for name, value in (
            ("16384 x 32768, 1 GPU, overlap", 2.0), ("16384 x 32768, 2 GPUs, overlap", 1.0),
            ("16384 x 128, 2 GPUs, device", 0.5))]  # fmt: skip
        new = list(figures.solves({"rows": rows}))
        self.assertEqual(new, [("overlap", "16384 x 32768", 2, 2.0, 1.0), ("device", "16384 x 128", 2, None, 0.5)])
        solve = {"variant": "overlap", "nx": 16384, "ny": 32768, "gpus": 2, "one_gpu_s": 2.0, "time_s": 1.0}
        self.assertEqual(list(figures.solves({"runs": [{"jacobi": [solve]}]})), new[:1])

    def test_torch(self):
        new = {"all_reduce 8 B": {"Weft": [1.0], "NCCL": [2.0]}, "all_reduce 64 KiB": {"Weft": [3.0]}}
        old = {"all_reduce 8 B, synchronized": {"weft": [1.0], "nccl": [2.0]},
               "all_reduce 65536 B, synchronized": {"weft": [3.0]},
               "all_reduce 8 B, back to back": {"weft": [9.0]}}  # fmt: skip
        by_column = {
            "Weft": {point: rounds["Weft"] for point, rounds in new.items()},
            "NCCL": {"all_reduce 8 B": [2.0]},
        }
        by_column["Weft"]["all_reduce 8 B, back to back"] = [9.0]
        self.assertEqual(figures.torch_points({"figures": by_column}), new)
        self.assertEqual(figures.torch_points({"torch": old}), new)

    def test_marks(self):
        with Tree({}, {}) as root:
            pages = {"docs/a.md": (EARLIER, ("earlier",)), "docs/b.md": (EARLIER, ("earlier", "host"))}
            (text,) = figures.complaints(root, pages)
        self.assertIn("docs/b.md: expected a mark for each of: earlier, host", text)


if __name__ == "__main__":
    unittest.main()
