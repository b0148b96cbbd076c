#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The GPU measurements: point-to-point and collectives on all GPUs of this machine, validated first, then figures.py: required
# figures, programs, and what the documents say. PEERS=FOLDER: libraries to compare with Weft, as figures.py --peers.
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

if [ "$gpus" -ge 2 ]; then
  pair
  bench alltoall alltoall -n "$gpus" -d cuda -m 1:16M -f
  bench allreduce allreduce -n "$gpus" -d cuda -m 4:64M -f
  bench reduce_scatter reduce_scatter_block -n "$gpus" -d cuda -m 4:16M -f
  bench allgather allgather -n "$gpus" -d cuda -m 1:16M -f
  bench bcast bcast -n "$gpus" -d cuda -m 1:64M -f
  echo "== figures"
  python3 "$(dirname "$0")/figures.py" --weft "$prefix" --folder "$folder" ${PEERS:+--peers "$PEERS"}
else
  echo "== one GPU: only Jacobi is measured"
  echo "variant, nx, ny, niter, nccheck, ranks, devices per rank, seconds, seconds on one device" > "$folder/jacobi.csv"
  for variant in cuda_aware overlap host_staged; do
    "$prefix/bin/mpiexec" -n 1 "$jacobi" -csv -nx 16384 -ny 32768 -niter 1000 -variant $variant > "$folder/line.csv"
    tee -a "$folder/jacobi.csv" < "$folder/line.csv"
    rm "$folder/line.csv"
  done
fi
echo "Results are in $folder"
