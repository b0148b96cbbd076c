#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The GPU measurements: point-to-point, collectives and Jacobi on all GPUs of this machine, validated first, and
# bars.py. PEERS="--openmpi PREFIX --ucx PREFIX --nccl FOLDER": libraries to compare with Weft (peers.py).
# GPU_VISIBILITY=per_task: each rank sees its own GPU only, as with `srun --gpus-per-task=1` (common/per_task.sh).
# Usage: gpu.sh PREFIX [FOLDER]     results as JSON and CSV in FOLDER (bench/results/<GPUs>)
set -eu
[ $# -ge 1 ] || { echo "usage: gpu.sh PREFIX [FOLDER]" >&2; exit 2; }
prefix=$1
jacobi=$prefix/libexec/weft/jacobi
per_task=$(dirname "$0")/common/per_task.sh
gpus=$("$jacobi" -gpus)
[ "$gpus" -gt 0 ] || { echo "gpu.sh: no GPU found, or the prefix was built without GPU kernels" >&2; exit 1; }

bench() { # name, arguments of `weft bench`
  name=$1
  shift
  echo "== $name: weft bench $*"
  "$prefix/bin/weft" bench "$@" --mpiexec "sh $per_task" --json "$folder/$name.json"
}

solve() { # ranks, arguments of jacobi; appends one CSV line
  ranks=$1
  shift
  echo "== jacobi on $ranks GPUs: $*"
  "$prefix/bin/mpiexec" -n "$ranks" sh "$per_task" "$jacobi" -csv "$@" > "$folder/line.csv"
  tee -a "$folder/jacobi.csv" < "$folder/line.csv"
  rm "$folder/line.csv"
}

pair() { # two ranks
  bench validate-latency latency -n 2 -s all -m 1:64M -c -i 20 -x 2
  bench validate-bw bw -n 2 -s all -m 1:64M -c -i 2 -x 1 -W 8
  for kinds in DD HD DH MM PP HH; do
    bench "latency-$kinds" latency -n 2 -s $kinds -m 1:64M
  done
  bench bw-DD bw -n 2 -s DD -m 1:64M
  bench bibw-DD bibw -n 2 -s DD -m 1:64M
}

device=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1 | tr ' /' '--')
folder=${2:-$(dirname "$0")/results/$gpus-${device:-gpu}${GPU_VISIBILITY:+-$GPU_VISIBILITY}}
mkdir -p "$folder"
echo "variant, nx, ny, niter, nccheck, ranks, devices per rank, seconds, seconds on one device" > "$folder/jacobi.csv"

if [ "$gpus" -ge 2 ]; then
  pair
  bench alltoall alltoall -n "$gpus" -d cuda -m 1:16M -f
  bench allreduce allreduce -n "$gpus" -d cuda -m 4:64M -f
  bench reduce_scatter reduce_scatter_block -n "$gpus" -d cuda -m 4:16M -f
  bench allgather allgather -n "$gpus" -d cuda -m 1:16M -f
  bench bcast bcast -n "$gpus" -d cuda -m 1:64M -f
  echo "== bars: required figures of Weft"
  python3 "$(dirname "$0")/bars.py" --weft "$prefix" --json "$folder/bars.json"
  for variant in cuda_aware overlap host_staged; do
    solve 2 -nx 16384 -ny 128 -niter 10000 -variant $variant
  done
  echo "== the first exchanges of a process, and whole programs"
  python3 "$(dirname "$0")/cold.py" --weft "$prefix" --rounds 3 --json "$folder/cold.json"
  python3 "$(dirname "$0")/programs.py" --weft "$prefix" --rounds 3 --json "$folder/programs.json"
else
  echo "== one GPU: only Jacobi is measured"
fi
ranks=1
while [ "$ranks" -le "$gpus" ]; do
  for variant in cuda_aware overlap host_staged; do
    solve "$ranks" -nx 16384 -ny 32768 -niter 1000 -variant $variant
  done
  ranks=$((ranks * 2))
done
if [ "$gpus" -ge 2 ] && [ -n "${PEERS:-}" ]; then
  echo "== peers: $PEERS"
  # shellcheck disable=SC2086
  python3 "$(dirname "$0")/peers.py" --weft "$prefix" $PEERS --json "$folder/peers.json"
fi
echo "Results are in $folder"
