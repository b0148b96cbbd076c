#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# On a cluster of test/cluster/hosts: the link of node1 is down for 1.5 seconds, and no data is lost.
# usage: link_flap.sh COMMAND...: a job of at least 5 seconds that checks what it receives
set -e
"$@" &
job=$!
sleep 2
link node1 down
sleep 1.5
link node1 up
wait $job
