#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpich 5.0.2 (its Hydra) from the Python package index.
# Behaviour: `mpiexec -genvnone` ("do not pass any environment variables" in its help) and `-envlist ONE`, on one host.
# A good guess: a rank has none of the variables of the shell, and ONE alone with the list.
# Seen: all variables of the shell arrive in both cases, as without the options. A test of a clean environment on one host
#   passes, with variables that ranks on other hosts do not have.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q mpich==5.0.2
seen() {
  ONE=1 OTHER=2 "$folder/venv/bin/mpiexec" "$@" -n 1 env </dev/null | grep -E '^(ONE|OTHER)=' | sort | xargs
}
for options in "-genvall" "-genvnone" "-genvnone -envnone" "-envlist ONE"; do
  variables=$(seen $options)
  echo "MPICH 5.0.2, $options: $variables"
  [ "$variables" = "ONE=1 OTHER=2" ] || { echo "other variables arrive now"; exit 1; }
done
echo "as described"
