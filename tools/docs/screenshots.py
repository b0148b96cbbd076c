#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Writes the pictures of the report, of the site's first page and of its figures in docs/images, at widths of 1280 and 400
# pixels. Needs chromium, an installed prefix, matplotlib (with Pillow) and the site of `make docs`.
# usage: screenshots.py PREFIX [--tools build/tools]
import argparse
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WIDTHS = (1280, 400)
MAX_HEIGHT = 16000  # pixels of the longest page
FIRST_HEIGHT = 1000  # pixels of the first page: its chart and table
COLOURS = 64
# Lists what reaches beyond the width of the page; the height of the page, and where its sections begin.
MEASURE = """
const page = document.querySelector("iframe").contentDocument, wide = [], view = page.documentElement;
for (const one of page.querySelectorAll("body, h1, h2, h3, p, table, img, figure svg, pre"))
  if (one.getBoundingClientRect().right > view.clientWidth + 1 && one.checkVisibility())
    wide.push(one.outerHTML.slice(0, 80));
if (view.scrollWidth > view.clientWidth) wide.push("the page scrolls sideways");
const sections = [...page.querySelectorAll("h3")].map(one => one.getBoundingClientRect().top);
document.title = JSON.stringify({wide, height: view.scrollHeight, sections});
"""


def browser():
    """Returns the path of chromium; None without it."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def chromium(folder, *options):
    """Runs chromium without a window; returns its output."""
    words = [
        browser(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=3000",
    ]
    words += ["--allow-file-access-from-files", "--user-data-dir=%s/profile" % folder, *options]
    return subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=100, check=True
    ).stdout


def measure(path, width):
    """Returns {"wide": elements that do not fit a width, "height", "sections"} of a page on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        outer = os.path.join(folder, "outer.html")
        frame = '<iframe src="file://%s" style="width:%dpx;height:900px;border:0"></iframe>' % (
            os.path.abspath(path),
            width,
        )
        with open(outer, "w", encoding="utf-8") as file:
            file.write("<!DOCTYPE html>%s<script>onload = () => {%s}</script>" % (frame, MEASURE))
        dom = chromium(folder, "--dump-dom", "file://" + outer)
    return json.loads(html.unescape(re.search(r"<title>(.*?)</title>", dom, re.DOTALL)[1]))


def picture(path, width, height, target):
    """Writes a picture of the upper part of a page, with few colours."""
    from PIL import Image

    with tempfile.TemporaryDirectory() as folder:
        raw = os.path.join(folder, "raw.png")
        chromium(
            folder, "--screenshot=" + raw, "--window-size=%d,%d" % (width, height), "file://" + os.path.abspath(path)
        )
        Image.open(raw).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            target, optimize=True
        )


def report(prefix, folder):
    """Returns the path of a report on a committed run of bw on two GPUs."""
    with open(os.path.join(ROOT, "bench", "results", "toolbox-2.json"), encoding="utf-8") as file:
        found = json.load(file)
    run = next(one for one in found["bench"] if one["program"] == "bw")
    result, page = os.path.join(folder, "bw.json"), os.path.join(folder, "report.html")
    with open(result, "w", encoding="utf-8") as file:
        json.dump({"format": 1, **run, "machine": found["machine"]}, file)
    subprocess.run([os.path.join(prefix, "bin", "weft"), "report", result, "-o", page], check=True)
    return page


def main():
    parser = argparse.ArgumentParser(description="Writes pictures of the report and of two pages of the site.")
    parser.add_argument("prefix")
    parser.add_argument("--tools", default=os.path.join(ROOT, "build", "tools"), help="folder with matplotlib")
    arguments = parser.parse_args()
    python = os.path.join(arguments.tools, "python")
    sys.path.append(python)
    os.environ["PYTHONPATH"] = python
    images = os.path.join(ROOT, "docs", "images")
    site = os.path.join(ROOT, "build", "docs")
    with tempfile.TemporaryDirectory() as folder:
        pages = {"report": report(arguments.prefix, folder)}
        pages |= {"first": os.path.join(site, "index.html"), "figures": os.path.join(site, "performance.html")}
        for name, path in pages.items():
            for width in WIDTHS:
                found = measure(path, width)
                if found["wide"]:
                    print("%s at %d pixels is cut off: %s" % (name, width, found["wide"]))
                    return 1
                # The report as a whole; of the figures, whole sections up to the third chart's.
                height = {"report": found["height"], "first": FIRST_HEIGHT}.get(name) or int(found["sections"][2]) - 10
                picture(path, width, min(height, MAX_HEIGHT), os.path.join(images, "%s-%d.png" % (name, width)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
