# SPDX-License-Identifier: BSD-3-Clause
# A profiler library that cannot be loaded: a warning, or with WEFT_TRACE_NVTX=on an error of MPI_Init.
set -u
program=$1
out=$(NVTX_INJECTION64_PATH=/nowhere/tool.so mpiexec -n 1 "$program" none 2>&1) || { echo "stopped: $out"; exit 1; }
case $out in *"no profiler receives NVTX ranges"*/nowhere/tool.so*) ;; *) echo "no warning: $out"; exit 1 ;; esac
out=$(WEFT_TRACE_NVTX=on NVTX_INJECTION64_PATH=/nowhere/tool.so mpiexec -n 1 "$program" none 2>&1) && exit 1
case $out in *"no profiler receives NVTX ranges"*) ;; *) echo "no reason: $out"; exit 1 ;; esac
out=$(WEFT_TRACE_NVTX=on mpiexec -n 1 "$program" none 2>&1) && exit 1
case $out in *"NVTX_INJECTION64_PATH is not set"*) ;; *) echo "no reason: $out"; exit 1 ;; esac
