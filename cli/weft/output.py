# SPDX-License-Identifier: BSD-3-Clause
# Output: tables, progress and files, the same for all commands. With rich on a terminal, plain text elsewhere.
"""What commands print and write; how they refuse."""

import contextlib
import json
import os
import sys
import tempfile


class Refusal(Exception):
    """Bad input, or something the command needs is not there: one line, with what to do. Exit status 2."""


class Failure(Exception):
    """What was asked for was tried and failed. Exit status 1."""


def fancy(stream):
    """Whether colours and boxes are welcome on a stream: rich is there, and a terminal that wants them."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return rich_or_none() is not None


def rich_or_none():
    """The module rich; None where it is not installed (a prefix made by `make` needs no Python packages)."""
    try:
        import rich.box
        import rich.console
        import rich.progress
        import rich.table
        import rich.text
    except ImportError:
        return None
    return rich


def table(headings, rows, numbers=(), style=None):
    """Prints a table. `numbers`: headings of right-aligned columns; `style(row)`: a rich style or None."""
    rows = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if fancy(sys.stdout):
        return fancy_table(headings, rows, numbers, style)
    widths = [max([len(heading), *(len(row[at]) for row in rows)]) for at, heading in enumerate(headings)]
    for row in [list(headings), *rows]:
        cells = [
            cell.rjust(width) if heading in numbers else cell.ljust(width)
            for cell, width, heading in zip(row, widths, headings)
        ]
        print("  ".join(cells).rstrip())
    return None


def fancy_table(headings, rows, numbers, style):
    rich = rich_or_none()
    made = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        made.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold")
    for row in rows:
        made.add_row(*(rich.text.Text(cell) for cell in row), style=style(row) if style else None)
    rich.console.Console().print(made)


@contextlib.contextmanager
def progress(total, label):
    """Yields step(text), to be called as each of `total` steps begins. Shown on stderr if that is a terminal."""
    if not fancy(sys.stderr):
        yield plain_steps(total, label)
        return
    rich = rich_or_none()
    with rich.progress.Progress(console=rich.console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        begun = []

        def step(text):
            begun.append(text)
            bar.update(task, description="%s: %s" % (label, text), completed=len(begun) - 1)

        yield step


def plain_steps(total, label):
    """step(text) for a terminal without rich, and one that says nothing elsewhere."""
    begun = []

    def step(text):
        begun.append(text)
        if sys.stderr.isatty():
            print("%s: %s (%d of %d)" % (label, text, len(begun), total), file=sys.stderr, flush=True)

    return step


def json_text(value):
    return json.dumps(value, indent=1) + "\n"


def write_file(path, data):
    """Writes text or bytes; the file appears whole or not at all. Refusal when it cannot be written."""
    path = os.path.abspath(path)
    part = None
    try:
        handle, part = tempfile.mkstemp(dir=os.path.dirname(path), prefix="." + os.path.basename(path))
        with os.fdopen(handle, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        os.chmod(part, 0o666 & ~current_umask())
        os.replace(part, path)
    except OSError as error:
        if part:
            with contextlib.suppress(OSError):
                os.unlink(part)
        raise Refusal("%s cannot be written (%s): name a file in a folder of yours" % (path, error.strerror)) from None


def check_writable(path):
    """Refuses a result file before the work begins, not after it."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK) or os.path.isdir(path):
        raise Refusal("%s cannot be written: name a file in a folder of yours" % path)


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_json(path, what):
    """The object in a JSON file; Refusal when there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except OSError as error:
        raise Refusal("%s: %s cannot be read (%s)" % (path, what, error.strerror)) from None
    except ValueError as error:
        raise Refusal("%s is not %s (no JSON: %s)" % (path, what, error)) from None
    if not isinstance(value, dict):
        raise Refusal("%s is not %s (a JSON object is expected)" % (path, what))
    return value
