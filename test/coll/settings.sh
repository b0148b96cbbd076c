#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Two ranks with different settings: the job ends by the name of one that would send them different ways.
# usage: settings.sh PROGRAM [hosts]; hosts: the ranks are on different ones.
set -u
program=$1
differ() { mpiexec --timeout 30 -n 1 "$program" 2 : -n 1 -x "$1" "$program" 2 2>&1; }
refused() {
  out=$(differ "$1") && { echo "accepted: $1"; exit 1; }
  case $out in
    *"${1%%=*} is "*"set it alike in all processes"*) ;;
    *) echo "no reason for $1: $out"; exit 1 ;;
  esac
}
accepted() { out=$(differ "$1") || { echo "refused: $1: $out"; exit 1; }; }

refused WEFT_COLL_ALLREDUCE=ring
refused WEFT_COLL_HIERARCHY=off
accepted WEFT_COLL_DEVICE_PATIENCE=5000
accepted WEFT_COLL_GPU_REDUCE_MIN=0
accepted WEFT_P2P_EAGER_MAX=1k
accepted WEFT_COLL_DEVICE=on  # as without it
if [ "${2-}" = hosts ]; then
  accepted WEFT_COLL_SHARED_MAX=1k
else
  refused WEFT_COLL_SHARED_MAX=1k
  refused WEFT_COLL_DEVICE=off
  refused WEFT_COLL_DEVICE_EPOCHS=5
  refused WEFT_STREAM_COLLECTIVE_AREA=4m
fi
