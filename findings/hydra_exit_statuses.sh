#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 (its Hydra) from the Python package index.
# Behaviour: the exit status of mpiexec if one rank ends with 1 and the other with 2, and if a rank is killed by signal 9.
# A good guess: the status of a rank (the first, or the largest), and 137 after signal 9, as shells report it.
# Seen: 3, the bits of both, a status that no rank has; and 9, the same as of a rank that calls exit(9).
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mpich==5.0.2
run() { # ranks, script
  status=0
  "$folder/venv/bin/mpiexec" -n "$1" sh -c "$2" </dev/null >"$folder/out" 2>&1 || status=$?
  echo "$status"
}
both=$(run 2 'exit $((PMI_RANK + 1))')
killed=$(run 1 'kill -9 $$')
exited=$(run 1 'exit 9')
echo "MPICH 5.0.2: ranks end with 1 and 2: $both; killed by signal 9: $killed; exit 9: $exited"
[ "$both" = 3 ] || { echo "statuses are combined otherwise now"; exit 1; }
[ "$killed" = 9 ] && [ "$exited" = 9 ] || { echo "signals are reported otherwise now"; exit 1; }
echo "as described"
