#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weft: starts the Python package that lies in this prefix. No code of the current directory is run: `python3 -m` would
# search it first, and empty or relative entries of PYTHONPATH name it too. Absolute entries are the user's choice and stay.
prefix=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
kept=
rest=${PYTHONPATH:+$PYTHONPATH:}
while [ -n "$rest" ]; do
  entry=${rest%%:*}
  rest=${rest#*:}
  case $entry in /*) kept=$kept${kept:+:}$entry ;; esac
done
unset PYTHONPATH
[ -z "$kept" ] || export PYTHONPATH="$kept"
exec python3 "$prefix/share/weft/python/weft/isolated/run.py" weft "$@"
