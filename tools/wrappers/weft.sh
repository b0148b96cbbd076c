#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weft: starts the Python package that lies in this prefix.
prefix=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
PYTHONPATH="$prefix/share/weft/python${PYTHONPATH:+:$PYTHONPATH}" exec python3 -m weft "$@"
