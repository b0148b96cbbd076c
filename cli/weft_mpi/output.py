# SPDX-License-Identifier: BSD-3-Clause
# Output: tables, progress and files of all commands. Uses rich on terminals if installed, otherwise plain text.
"""Output and errors of the commands."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from types import ModuleType
from typing import TextIO

MIN_COLUMN = 20  # characters of a column that is narrowed


class Refusal(Exception):
    """Bad input or a missing requirement: one line of text with a remedy. Exit status 2."""


class Failure(Exception):
    """The requested operation failed. Exit status 1."""


def rich_for(stream: TextIO) -> ModuleType | None:
    """Returns the module rich; None without it, or if the stream is no terminal with colour support."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return None
    try:
        import rich.box
        import rich.console
        import rich.progress
        import rich.table
        import rich.text
    except ImportError:
        return None
    return rich


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence],
    numbers: Collection[str] = (),
    style: Callable[[Sequence], str | None] | None = None,
) -> None:
    """Prints a table. `numbers`: headings of right-aligned columns; `style(row)`: a rich style or None."""
    rows = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if rich := rich_for(sys.stdout):
        return rich_table(rich, headings, rows, numbers, style)
    widths = [max([len(heading), *(len(row[at]) for row in rows)]) for at, heading in enumerate(headings)]
    shrink(widths)
    for row in [list(headings), *rows]:
        folded = [textwrap.wrap(cell, width) if len(cell) > width else [cell] for cell, width in zip(row, widths)]
        for line in itertools.zip_longest(*folded, fillvalue=""):
            cells = [
                cell.rjust(width) if heading in numbers else cell.ljust(width)
                for cell, width, heading in zip(line, widths, headings)
            ]
            print("  ".join(cells).rstrip())
    return None


def shrink(widths: list[int]) -> None:
    """Narrows the widest column so that a table fits a terminal; other outputs have one line for each row."""
    if not sys.stdout.isatty():
        return
    excess = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
    widest = widths.index(max(widths))
    if excess > 0:
        widths[widest] = max(MIN_COLUMN, widths[widest] - excess)


def rich_table(rich, headings, rows, numbers, style):
    grid = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        grid.add_column(heading, justify="right" if heading in numbers else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(rich.text.Text(cell) for cell in row), style=style(row) if style else None)
    rich.console.Console().print(grid)


@contextlib.contextmanager
def progress(total: int, label: str) -> Iterator[Callable[[str], None]]:
    """Yields step(text), called at the start of each of `total` steps. Prints to stderr if it is a terminal."""
    rich = rich_for(sys.stderr)
    if rich is None:
        yield plain_steps(total, label)
        return
    columns = (*rich.progress.Progress.get_default_columns()[:3], rich.progress.TimeRemainingColumn())
    with rich.progress.Progress(*columns, console=rich.console.Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        started = []

        def step(text):
            started.append(text)
            bar.update(task, description=f"{label}: {text}", completed=len(started) - 1)

        yield step


def plain_steps(total: int, label: str) -> Callable[[str], None]:
    """Returns step(text) for a terminal without rich; it is silent if stderr is not a terminal."""
    started = []

    def step(text):
        started.append(time.monotonic())
        done = len(started) - 1
        left = (started[-1] - started[0]) / done * (total - done) if done else 0
        if sys.stderr.isatty():
            remaining = f", about {left:.0f} s left" if left >= 1 else ""
            print(f"{label}: {text} ({done + 1} of {total}{remaining})", file=sys.stderr, flush=True)

    return step


def json_text(value: object) -> str:
    return f"{json.dumps(value, indent=1)}\n"


def write_file(path: str, data: str | bytes) -> None:
    """Writes text or bytes atomically. Raises Refusal on failure."""
    path = os.path.abspath(path)
    part = None
    try:
        handle, part = tempfile.mkstemp(dir=os.path.dirname(path), prefix=f".{os.path.basename(path)}")
        with os.fdopen(handle, "wb") as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        os.chmod(part, 0o666 & ~current_umask())
        os.replace(part, path)
    except OSError as error:
        if part:
            with contextlib.suppress(OSError):
                os.unlink(part)
        raise Refusal(f"{path} cannot be written ({error.strerror}): use a writable folder") from None


def check_writable(path: str) -> None:
    """Raises Refusal if a result file cannot be written; called before the work starts."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK) or os.path.isdir(path):
        raise Refusal(f"{path} cannot be written: use a writable folder")


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def read_json(path: str, what: str) -> dict:
    """Returns the object in a JSON file. Raises Refusal if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except OSError as error:
        raise Refusal(f"{path}: {what} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise Refusal(f"{path} is not {what} (no JSON: {error})") from None
    if not isinstance(value, dict):
        raise Refusal(f"{path} is not {what} (a JSON object is expected)")
    return value
