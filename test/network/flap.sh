#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# On a cluster of test/cluster/hosts: the cable of node1 is pulled for a second and a half, and nothing is lost.
# usage: flap.sh COMMAND...: a job of at least 5 seconds that checks what it receives
set -e
"$@" &
job=$!
sleep 2
link node1 down
sleep 1.5
link node1 up
wait $job
