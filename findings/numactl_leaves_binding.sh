#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: numactl 2.0.16 with libnuma1, of Debian 12; a machine whose first NUMA node has two CPUs or more.
# Behaviour: a launcher has bound a process to one CPU (here taskset), and the process is started through numactl.
# A good guess: numactl treats options for CPUs alike: it stays within the CPUs of the process, as it says that a CPU outside of them
#   is invalid, or it replaces them, as --all promises.
# Seen: `numactl -C 0` within CPU 1 is refused ("<0> is invalid"), and `numactl -N 0` runs the program on all CPUs of the node, also those
#   that the launcher has given to other ranks. `numactl -m 0`, for memory alone, leaves the CPUs.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 777 "$folder" # apt downloads as a user of its own
cd "$folder"
apt-get -qq download numactl libnuma1 >/dev/null
for package in *.deb; do dpkg-deb -x "$package" root; done
version=$(dpkg-deb -f numactl_*.deb Version)
export LD_LIBRARY_PATH="$folder/root/usr/lib/x86_64-linux-gnu"
cpus=$(root/usr/bin/numactl -N 0 sh -c 'taskset -cp $$' | sed 's/.*: //')
first=$(echo "$cpus" | sed 's/[^0-9].*//')
second=$((first + 1))
if ! taskset -c "$second" true 2>"$folder/errors"; then echo "skipped: needs CPUs $first and $second"; exit 77; fi
cpus_with() { taskset -c "$second" root/usr/bin/numactl "$@" sh -c 'taskset -cp $$' 2>"$folder/errors" | sed 's/.*: //'; }
outside=$(cpus_with -C "$first")
node=$(cpus_with -N 0)
memory=$(cpus_with -m 0)
echo "numactl $version, bound to CPU $second: -C $first: $outside; -N 0: $node; -m 0: $memory"
if [ "$outside" != "<$first> is invalid" ] || [ "$node" != "$cpus" ] || [ "$memory" != "$second" ]; then
  echo "numactl stays within the binding, or leaves it, in all cases now"
  exit 1
fi
echo "as described"
