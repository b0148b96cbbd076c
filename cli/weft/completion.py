# SPDX-License-Identifier: BSD-3-Clause
# weft completion: a script that makes a shell complete weft's words; made by shtab.
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

    print(shtab.complete(make_parser(), shell=arguments.shell))
    return 0
