# SPDX-License-Identifier: BSD-3-Clause
# Entry point: `weft <command>`. A command is a module with add_parser(subparsers) and run(arguments).
import argparse
import os
import sys

from weft_mpi import __version__, bench, completion, doctor, explain, hang, info, report, run_info, top, trace, tune
from weft_mpi.output import Failure, Refusal

COMMANDS = (info, doctor, explain, bench, report, tune, hang, top, trace, run_info, completion)
EPILOG = (
    "Exit status: 0: success; 1: the command ran and failed or found a problem; 2: bad input or a missing requirement."
)


class Parser(argparse.ArgumentParser):
    """Prints usage errors in one line."""

    def error(self, message):
        self.exit(2, "%s: %s; see `%s --help`\n" % (self.prog, message, self.prog))


def make_parser():
    """Returns the parser of the command line. Completion scripts and the manual page are generated from it."""
    parser = Parser(prog="weft", description="The Weft MPI library's command line.", epilog=EPILOG)
    parser.add_argument("--version", action="version", version="weft " + __version__)
    parser.set_defaults(weft_parser=parser)
    subparsers = parser.add_subparsers(dest="command", metavar="command", parser_class=Parser)
    for module in COMMANDS:
        added = module.add_parser(subparsers)
        if added is not None:
            added.description = " ".join(added.description.split())  # joins the lines of a docstring
            added.set_defaults(weft_run=module.run)
    return parser


def main(argv=None):
    """Runs one command and returns its exit status."""
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 2
    try:
        status = arguments.weft_run(arguments) or 0
        sys.stdout.flush()
        return status
    except (Refusal, Failure) as problem:
        sys.stdout.flush()
        print("weft %s: %s" % (arguments.command, problem), file=sys.stderr)
        return 2 if isinstance(problem, Refusal) else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `weft ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())
