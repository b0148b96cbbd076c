# SPDX-License-Identifier: BSD-3-Clause
# Entry point: `weft <command>`. A command is a module with add_parser(subparsers) and run(arguments).
from __future__ import annotations

import argparse
import difflib
import errno
import os
import re
import sys
from collections.abc import Iterable
from typing import NoReturn

from weft_mpi import (
    __commit__,
    __version__,
    bench,
    check,
    completion,
    doctor,
    explain,
    export,
    hang,
    hosts,
    info,
    jobs,
    report,
    run_info,
    top,
    trace,
    tune,
)
from weft_mpi.output import Failure, Refusal

COMMANDS = (
    info,
    doctor,
    hosts,
    explain,
    bench,
    report,
    tune,
    jobs,
    hang,
    top,
    trace,
    export,
    check,
    run_info,
    completion,
)
EPILOG = (
    "Exit status: 0: success; 1: the command ran and failed or found a problem; 2: bad input or a missing requirement."
)


OUTPUT_LOST = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class Parser(argparse.ArgumentParser):
    """Prints usage errors in one line."""

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '?([^' ]*)'? \(choose from (.*)\)", message)
        if wrong:
            message = "{} is unknown{}".format(wrong[1], suggestion(wrong[1], re.findall(r"[\w-]+", wrong[2])))
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")

    def unknown(self, words: list[str]) -> NoReturn:
        """Ends with a suggestion for the first of unknown words."""
        options = [option for action in self._actions for option in action.option_strings]
        self.error(f"{words[0]}: unknown option or argument{suggestion(words[0].partition('=')[0], options)}")


def suggestion(word: str, known: Iterable[str]) -> str:
    """Returns ", did you mean ...?" for a word close to a known one, or that it begins."""
    near = difflib.get_close_matches(word, known, 2) or [
        name for name in known if len(word) > 2 and name.startswith(word)
    ]
    return f": did you mean {' or '.join(near)}?" if near else ""


def make_parser() -> Parser:
    """Returns the parser of the command line. Completion scripts and the manual page are generated from it."""
    parser = Parser(prog="weft", description="The Weft MPI library's command line.", epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"weft {__version__} (commit {__commit__})")
    parser.set_defaults(weft_parser=parser)
    subparsers = parser.add_subparsers(dest="weft_command", metavar="command", parser_class=Parser)
    for module in COMMANDS:
        added = module.add_parser(subparsers)
        if added is not None:
            added.description = " ".join(added.description.split())  # joins the lines of a docstring
            added.set_defaults(weft_run=module.run, weft_own=added)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs a command and returns its exit status. Output that cannot be written is an error of one line."""
    if sys.stdout is None:
        print("weft: standard output is closed", file=sys.stderr)
        return 1
    try:
        try:
            return run(argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # `weft ... | head`
        discard_output()
        return 0
    except OSError as problem:
        if problem.errno not in OUTPUT_LOST or problem.filename is not None:  # files of the command have a name
            raise
        discard_output()
        print(f"weft: standard output cannot be written ({problem.strerror}): output is lost", file=sys.stderr)
        return 1


def run(argv: list[str] | None) -> int:
    """Parses the command line, runs its command and returns the exit status."""
    parser = make_parser()
    arguments, unknown = parser.parse_known_args(argv)
    if unknown:
        getattr(arguments, "weft_own", parser).unknown(unknown)
    if arguments.weft_command is None:
        parser.print_help()
        return 2
    try:
        return arguments.weft_run(arguments) or 0
    except (Refusal, Failure) as problem:
        sys.stdout.flush()
        print(f"weft {arguments.weft_command}: {problem}", file=sys.stderr)
        return 2 if isinstance(problem, Refusal) else 1
    except KeyboardInterrupt:
        return 130


def discard_output() -> None:
    """Redirects standard output, with what is buffered, to nowhere: Python flushes it once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
