# SPDX-License-Identifier: BSD-3-Clause
# Entry point: `weft <command>`. A command is a module with add_parser(subparsers) and run(arguments).
import argparse
import sys

from weft import __version__, bench, explain, info

COMMANDS = (info, bench, explain)


def main(argv=None):
    """Runs one command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="weft", description="The Weft MPI library's command line.")
    parser.add_argument("--version", action="version", version="weft " + __version__)
    subparsers = parser.add_subparsers(dest="command", metavar="command")
    for module in COMMANDS:
        added = module.add_parser(subparsers)
        if added is not None:
            added.set_defaults(weft_run=module.run)
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return 2
    return arguments.weft_run(arguments) or 0


if __name__ == "__main__":
    sys.exit(main())
