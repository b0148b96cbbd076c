# SPDX-License-Identifier: BSD-3-Clause
# weft completion: a script that makes a shell complete weft's words; made by shtab.
import argparse
import contextlib

from weft import bench, benchmarks
from weft.output import Refusal

SHELLS = ("bash", "zsh", "tcsh")


def add_parser(subparsers):
    parser = subparsers.add_parser(
        "completion",
        help="a script that makes your shell complete weft's words",
        description=run.__doc__,
        epilog='example: eval "$(weft completion bash)" in ~/.bashrc',
    )
    parser.add_argument("shell", choices=SHELLS)
    return parser


def run(arguments):
    """Prints a completion script for a shell."""
    try:
        import shtab
    except ImportError:
        raise Refusal("completion needs shtab: python3 -m pip install shtab") from None
    from weft.__main__ import make_parser

    parser = make_parser()
    offer_benchmarks(parser)
    print(shtab.complete(parser, shell=arguments.shell))
    return 0


def offer_benchmarks(parser):
    """Lets the shell complete the names of the benchmarks that this prefix has, and their options."""
    with contextlib.suppress(Refusal):
        names = list(benchmarks.programs())
        (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        measuring = commands.choices["bench"]
        for action in measuring._actions:
            if action.dest == "program":
                action.choices = names
        for word in bench.WORDS:
            measuring.add_argument(word, action="store_true")
