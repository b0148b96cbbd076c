#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Starts a job that gets stuck, and prints what `weft hang` says as soon as it names a deadlock.
# usage: hang.sh WEFT JOB COMMAND...; JOB: for weft hang --job, "launcher" for the process of COMMAND
weft=$1 job=$2
shift 2
"$@" &
launcher=$!
[ "$job" = launcher ] && job=$launcher
for _ in $(seq 60); do
  text=$("$weft" hang --job "$job" 2>&1)
  case $text in *deadlock*) break ;; esac
  sleep 0.3
done
echo "$text"
kill "$launcher"
