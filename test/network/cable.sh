#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# On a cluster of test/cluster/hosts: the cable of node1 is pulled, and a rank of node0 sees it within five seconds.
# usage: cable.sh PROGRAM (death.c)
out=$(mktemp)
mpiexec.hydra -n 4 "$1" cable >"$out" 2>&1 &
job=$!
for tenth in $(seq 100); do
  grep -q waiting "$out" && break
  sleep 0.1
done
sleep 0.5  # nothing is on its way any more: what TCP sends again, it sends for long
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
