#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weft: runs the Python package of this prefix. Must not execute code of the current directory, which `python3 -m` and
# empty or relative entries of PYTHONPATH would search. Absolute entries are the user's choice and remain.
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
exec python3 "$prefix/share/weft/python/weft_mpi/isolated/run.py" weft_mpi "$@"
