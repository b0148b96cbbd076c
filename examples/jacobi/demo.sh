#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The demonstration: the Jacobi solver on all GPUs of this machine, or on its cores without a GPU.
# Usage: demo.sh PREFIX [options of the solver]
set -eu
[ $# -ge 1 ] || { echo "usage: demo.sh PREFIX [options of jacobi]" >&2; exit 2; }
prefix=$1
shift
jacobi=$prefix/libexec/weft/jacobi
gpus=$("$jacobi" -gpus)
if [ "$gpus" -gt 0 ]; then
  ranks=$gpus
  set -- -nx 16384 -ny 32768 -niter 1000 -variant overlap "$@"
else
  ranks=$(nproc 2>/dev/null || echo 2)
  [ "$ranks" -ge 2 ] || ranks=2
  [ "$ranks" -le 16 ] || ranks=16
  set -- -nx 2048 -ny 2048 -niter 500 -nccheck 10 "$@"
fi
echo "mpiexec -n $ranks jacobi $*"
exec "$prefix/bin/mpiexec" -n "$ranks" "$jacobi" "$@"
