#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# On a cluster of test/cluster/hosts: the link of node1 goes down, and a rank of node0 detects it within five seconds.
# usage: link_down.sh HYDRA PROGRAM (death.c)
out=$(mktemp)
"$1" -n 4 "$2" link_down >"$out" 2>&1 &
job=$!
for tenth in $(seq 100); do
  grep -q waiting "$out" && break
  sleep 0.1
done
sleep 0.5  # no traffic is outstanding: TCP would retransmit it for a long time
link node1 down
for second in 1 2 3 4 5 6; do
  sleep 1
  grep -q "later receive: lost" "$out" && break
done
kill -KILL $job
cat "$out"
grep -q "later receive: lost" "$out"
code=$?
rm -f "$out"
exit $code
