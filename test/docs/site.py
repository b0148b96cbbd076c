#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Builds the documentation site in strict mode, in which a broken link is an error, and checks the result.
# usage: site.py FOLDER, the folder of mkdocs; exit status 77 without mkdocs.
import importlib.util
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tools", "docs"))
import screenshots  # noqa: E402

SKIPPED = 77


def main():
    folder = sys.argv[1]
    environment = dict(os.environ, NO_MKDOCS_2_WARNING="1")
    if os.path.isdir(os.path.join(folder, "mkdocs")):
        environment["PYTHONPATH"] = folder
    elif not (importlib.util.find_spec("mkdocs") and importlib.util.find_spec("material")):
        print("skipped: needs mkdocs (make docs downloads it into build/tools)")
        return SKIPPED
    with tempfile.TemporaryDirectory() as site:
        command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-f", os.path.join(ROOT, "mkdocs.yml")]
        done = subprocess.run([*command, "-d", site], cwd=ROOT, env=environment, check=False)
        if done.returncode != 0:
            return done.returncode
        with open(os.path.join(site, "performance.html"), encoding="utf-8") as file:
            assert 'href="source/bench/results/' in file.read(), "no figure of performance.html links to its data"
        with open(os.path.join(site, "index.html"), encoding="utf-8") as file:
            fetched = re.search(r'(src|href)="https?://[^"]*\.(js|css)|googleapis|unpkg', file.read())
            assert not fetched, "the site loads external resources"
        with open(os.path.join(site, "index.html"), encoding="utf-8") as file:
            assert re.search(r"Weft [0-9]+\.[0-9]+\.[0-9]+, licence", file.read()), "the site has no version"
        if screenshots.browser():
            pages = [("performance.html", width) for width in screenshots.WIDTHS] + [
                ("index.html", screenshots.WIDTHS[1])
            ]
            for page, width in pages:
                wide = screenshots.measure(os.path.join(site, page), width)["wide"]
                assert not wide, "%s is cut off at %d pixels: %s" % (page, width, wide)
        assert os.path.exists(os.path.join(site, "source", "bench", "results", "host.json")), "no copy of host.json"
    return 0


if __name__ == "__main__":
    sys.exit(main())
