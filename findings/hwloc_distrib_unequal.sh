#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: hwloc 2.9.0 with libhwloc15, of Debian 12.
# Behaviour: hwloc-distrib, which "distributes" a number of processes over a machine, here 2 packages of 4 cores with 2 threads (a
#   synthetic topology), for 3, 5 and 6 processes.
# A good guess: shares that differ by one core at most: 3, 3 and 2 cores for three processes; 1 or 2 for five.
# Seen: the tree is halved first, so that of three processes the third has a package with 4 cores and the first two have 2 each; of
#   six, three on each package, one on each has 2 cores and the others 1.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 777 "$folder" # apt downloads as a user of its own
cd "$folder"
apt-get -qq download hwloc-nox libhwloc15 libxnvctrl0 libudev1 libxml2 >/dev/null
for package in *.deb; do dpkg-deb -x "$package" root; done
version=$(dpkg-deb -f hwloc-nox_*.deb Version)
export LD_LIBRARY_PATH="$folder/root/usr/lib/x86_64-linux-gnu:$folder/root/lib/x86_64-linux-gnu"
check() { # processes, cores of each
  cores=$(for set in $(root/usr/bin/hwloc-distrib -i "package:2 core:4 pu:2" "$1" 2>/dev/null); do
    root/usr/bin/hwloc-calc -i "package:2 core:4 pu:2" -N core "$set" 2>/dev/null
  done | xargs)
  echo "hwloc $version, $1 processes on 2 packages of 4 cores: $cores"
  [ "$cores" = "$2" ] || { echo "another distribution now"; exit 1; }
}
check 2 "4 4"
check 3 "2 2 4"
check 5 "1 1 2 2 2"
check 6 "1 1 2 1 1 2"
echo "as described"
