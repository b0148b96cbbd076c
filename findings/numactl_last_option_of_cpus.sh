#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: numactl 2.0.16 with libnuma1, of Debian 12; a machine whose first NUMA node has two CPUs or more.
# Behaviour: a program is bound to a node and to one CPU of it, by --cpunodebind and --physcpubind, in both orders.
# A good guess: the CPU in both orders, which lies in the node; or a message that the options exclude each other. An option given
#   for memory (--membind) and one for CPUs go together in any order.
# Seen: the last option counts alone: `-N 0 -C 1` runs on CPU 1 and `-C 1 -N 0` on the whole node, without a message.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 777 "$folder" # apt downloads as a user of its own
cd "$folder"
apt-get -qq download numactl libnuma1 >/dev/null
for package in *.deb; do dpkg-deb -x "$package" root; done
version=$(dpkg-deb -f numactl_*.deb Version)
export LD_LIBRARY_PATH="$folder/root/usr/lib/x86_64-linux-gnu"
cpus_with() { root/usr/bin/numactl "$@" sh -c 'taskset -cp $$' 2>&1 | sed 's/.*: //'; }
node=$(cpus_with -N 0)
first=$(echo "$node" | sed 's/[^0-9].*//')
if [ "$node" = "$first" ]; then echo "skipped: needs two CPUs in node 0"; exit 77; fi
cpu_last=$(cpus_with -N 0 -C "$first")
node_last=$(cpus_with -C "$first" -N 0)
echo "numactl $version: -N 0 -C $first: $cpu_last; -C $first -N 0: $node_last; -N 0: $node"
if [ "$cpu_last" != "$first" ] || [ "$node_last" != "$node" ]; then echo "the order does not matter now"; exit 1; fi
echo "as described"
