#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Two ranks with different settings: start-up fails and names a setting that must be equal on all ranks.
# usage: settings.sh PROGRAM [hosts]; hosts: the ranks are on different ones.
set -u
program=$1
differ() { mpiexec --timeout 30 -n 1 "$program" 2 : -n 1 -x "$1" "$program" 2 2>&1; }
refused() {
  out=$(differ "$1") && { echo "accepted: $1"; exit 1; }
  case $out in
    *"${1%%=*} is "*"set the same value in all processes"*) ;;
    *) echo "no reason for $1: $out"; exit 1 ;;
  esac
}
accepted() { out=$(differ "$1") || { echo "refused: $1: $out"; exit 1; }; }

refused WEFT_COLL_ALLREDUCE=ring
refused WEFT_COLL_HIERARCHY=off
accepted WEFT_COLL_GPU_KERNEL_TIMEOUT_NS=5000
accepted WEFT_COLL_GPU_REDUCE_MIN_BYTES=0
accepted WEFT_P2P_EAGER_MAX=1k
accepted WEFT_COLL_GPU=on  # the default
if [ "${2-}" = hosts ]; then
  accepted WEFT_COLL_SHARED_MAX_BYTES=1k
else
  refused WEFT_COLL_SHARED_MAX_BYTES=1k
  refused WEFT_COLL_GPU=off
  refused WEFT_COLL_GPU_MAX_EPOCH=5
  refused WEFT_STREAM_COLLECTIVE_REGION_BYTES=4m
fi
