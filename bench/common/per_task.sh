#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# With GPU_VISIBILITY=per_task, runs a program as `srun --gpus-per-task=1` does: the process sees one GPU only, that of
# its local rank among those of CUDA_VISIBLE_DEVICES or of the machine. Without it, runs the program unchanged.
# Usage: mpiexec -n 4 sh per_task.sh PROGRAM ...
# TEST_GPUS, the number of GPUs that a test needs, becomes 1; exit status 77 if there are fewer.
if [ "${GPU_VISIBILITY:-all}" = per_task ]; then
  gpus=${CUDA_VISIBLE_DEVICES:-}
  if [ -z "$gpus" ]; then
    count=${EMUCUDA_DEVICES:-$(ls /proc/driver/nvidia/gpus 2>/dev/null | wc -l)}
    gpus=$(seq -s , 0 $((count - 1)))
  fi
  count=$(echo "$gpus" | tr , '\n' | wc -l)
  if [ -z "$gpus" ] || [ "${TEST_GPUS:-1}" -gt "$count" ]; then
    echo "per_task.sh: ${TEST_GPUS:-1} GPUs are needed" >&2
    exit 77
  fi
  rank=${LOCAL_RANK:-${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-${SLURM_LOCALID:?no launcher sets LOCAL_RANK}}}}
  CUDA_VISIBLE_DEVICES=$(echo "$gpus" | cut -d , -f $((rank % count + 1)))
  export CUDA_VISIBLE_DEVICES
  if [ -n "${TEST_GPUS:-}" ]; then
    TEST_GPUS=1
    export TEST_GPUS
  fi
fi
exec "$@"
