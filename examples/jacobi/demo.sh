#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The demonstration: the Jacobi solver on all GPUs of this machine, or on its cores without a GPU.
# Usage: demo.sh PREFIX [options of the solver]
set -eu
[ $# -ge 1 ] || { echo "usage: demo.sh PREFIX [options of jacobi]" >&2; exit 2; }
prefix=$1
shift
jacobi=$prefix/libexec/weft/jacobi
cores=$(nproc 2>/dev/null || echo 2)
gpus=$("$jacobi" -gpus)
if [ "$gpus" -gt 0 ]; then
  ranks=$gpus
  set -- -nx 16384 -ny 32768 -niter 1000 -variant overlap "$@"
else
  ranks=$cores
  [ "$ranks" -ge 2 ] || ranks=2
  [ "$ranks" -le 16 ] || ranks=16
  set -- -nx 2048 -ny 2048 -niter 500 -nccheck 10 "$@"
fi
picture=$(cd "$prefix/.." && pwd)/jacobi.png
load=$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || echo 0)
echo "mpiexec -n $ranks jacobi -plot $picture $*"
"$prefix/bin/mpiexec" -n "$ranks" "$jacobi" -plot "$picture" "$@"
echo "picture of the solution: $picture"
if [ "${load%.*}" -ge "$cores" ]; then
  echo "The machine was busy before the run (load $load, $cores cores): speedup and efficiency are not those of an idle machine."
elif [ "$gpus" -eq 0 ] && [ "$ranks" -gt "$cores" ]; then
  echo "$ranks ranks share $cores cores: speedup and efficiency are lower than with a core for each rank."
fi
