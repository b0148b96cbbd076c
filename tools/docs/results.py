# SPDX-License-Identifier: BSD-3-Clause
# The result files of the documents: those of bench/results/figures, all of one commit, and earlier ones, which the section
# "Earlier measurements" of docs/performance.md lists with date and commit.
import glob
import json
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RESULTS = os.path.join("bench", "results")
FIGURES = os.path.join(RESULTS, "figures")
# Files of bench/results/figures that bench/figures.py has not measured: {name: earlier file of bench/results}. Four GPUs are
# measured where a machine has them.
EARLIER = {
    "peers-4.json": "peers-4.json",
}
COMMIT = re.compile(r"(?=[a-f]*\d)[0-9a-f]{7,12}\b\+?")
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
LINK = re.compile(r"\bbench/results/([A-Za-z0-9._/-]+\.json)")


def name_in_results(name):
    """Returns the path below bench/results of a file of the figures."""
    return EARLIER.get(name) or "figures/" + name


def read(root, path):
    with open(os.path.join(root, RESULTS, path), encoding="utf-8") as file:
        return json.load(file)


def load(root, name):
    """Returns the content of a file of the figures."""
    return read(root, name_in_results(name))


def link(name, root):
    """Returns a Markdown link to a file of the figures; `root` leads from the page to the root of the tree."""
    path = name_in_results(name)
    return "[%s](%sbench/results/%s)" % (path, root, path)


def commit(found):
    """Returns the commit that a result file names as Markdown, or an empty string."""
    text = found.get("commit")
    match = COMMIT.match(text) if isinstance(text, str) else None  # not "the parent of" one
    return "`%s`" % match[0] if match else ""


def dated(words, found):
    """Returns words, the date of a result file and its commit, if it names one, as Markdown."""
    named = commit(found)
    return ", ".join([words, found["date"], *(["commit " + named] if named else [])])


def pages(root):
    """Returns the pages for users: the first page, and those of docs/."""
    return [os.path.join(root, "README.md"), *sorted(glob.glob(os.path.join(root, "docs", "*.md")))]


def cited(root):
    """Returns {path below bench/results: names of the pages that link to it}. Tables that are written from files do not count."""
    found = {}
    for page in pages(root):
        with open(page, encoding="utf-8") as file:
            text = re.sub(r"<!-- figures: \w+ -->.*?<!-- end of figures -->", "", file.read(), flags=re.DOTALL)
        for path in LINK.findall(text):
            names = found.setdefault(path, [])
            if os.path.basename(page) not in names:
                names.append(os.path.basename(page))
    return found


def where(found):
    """Returns the machine of a result file in few words."""
    machine = found.get("machine") or found.get("machines")
    if isinstance(machine, dict) and "processor" in machine:
        machine = "%s, %s cores" % (machine["processor"], machine["cores"])
    elif isinstance(machine, dict):
        machine = ", ".join(str(value) for value in machine.values() if isinstance(value, (str, int)))
    text = found.get("gpu") or machine
    text = text if isinstance(text, str) else "-"
    gpus = found.get("gpus")
    return ("%d x %s" % (gpus, text) if isinstance(gpus, int) and not text[0].isdigit() else text).replace("|", " ")


# The figures that charts and tables show of each file.
SHOWN = {
    "host.json": "host messages and collectives, start of a job", "one-sided-host.json": "one-sided, host memory",
    "beside.json": "comparison with packages", "files.json": "files", "spawn.json": "spawn",
    "fault-tolerance.json": "failures", "peers-2.json": "messages and collectives of GPUs",
    "per-task-2.json": "one GPU for each rank", "bars-2.json": "required figures", "one-sided-2.json": "one-sided, GPUs",
    "jacobi-2.json": "Jacobi solver", "torch-2.json": "[PyTorch](pytorch.md#speed)", "peers-4.json": "four GPUs",
}  # fmt: skip


def row(root, path, first, last=()):
    """Returns a row of a table of result files: file, date, commit, machine."""
    found = read(root, path)
    date = DATE.search(str(found.get("date", "")))
    cells = (
        *first,
        "[%s](../bench/results/%s)" % (path, path),
        date[0] if date else "-",
        commit(found) or "-",
        where(found),
    )
    return "| %s |" % " | ".join([*cells, *last])


def sources(root):
    """Returns the table of the files of the figures."""
    rows = ["| figures | file | date | commit | machine |", "|---|---|---|---|---|"]
    return "\n".join(rows + [row(root, name_in_results(name), [what]) for name, what in SHOWN.items()]) + "\n"


def earlier(root):
    """Returns the table of the files that pages cite and that are not of the figures' commit."""
    rows = ["| file | date | commit | machine | pages |", "|---|---|---|---|---|"]
    for path, names in sorted(cited(root).items()):
        if not path.startswith("figures/"):
            rows.append(row(root, path, [], [", ".join(name.removesuffix(".md") for name in names)]))
    return "\n".join(rows) + "\n"


def complaints(root):
    """Returns what is wrong with the result files: figures of several commits or of changed sources, cited files that do not
    exist or have no date, and names that are still called earlier."""
    found, commits = [], {}
    for path in sorted(glob.glob(os.path.join(root, FIGURES, "*.json"))):
        name = os.path.basename(path)
        content = read(root, "figures/" + name)
        commits.setdefault(content.get("commit"), []).append(name)
        if not DATE.fullmatch(str(content.get("date"))):
            found.append("%s/%s: it has no date" % (FIGURES, name))
        if name in EARLIER:
            found.append("%s/%s exists: remove it from EARLIER in tools/docs/results.py" % (FIGURES, name))
    if len(commits) > 1:
        parts = ["%s (%s)" % (one, ", ".join(names)) for one, names in commits.items()]
        found.append("%s: several commits: %s" % (FIGURES, "; ".join(parts)))
    for one in commits:
        if not re.fullmatch("[0-9a-f]{7,40}", str(one)):
            found.append("%s: commit %s: the sources of the library were changed, or are unknown" % (FIGURES, one))
    for path, names in sorted(cited(root).items()):
        if not os.path.exists(os.path.join(root, RESULTS, path)):
            found.append("%s cites bench/results/%s, which does not exist" % (", ".join(names), path))
        elif not DATE.search(str(read(root, path).get("date", ""))):
            found.append("bench/results/%s, which %s cites, has no date" % (path, ", ".join(names)))
    return found
