#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: libucx-cu12 1.22.0 (UCX 1.22) from the Python package index.
# Behaviour: a setting that is a bandwidth, UCX_BCOPY_BW, with the units of networks, as read back by ucx_info -c.
# A good guess: 10Gbps is 1250 MB/s, since data rates of links are decimal.
# Seen: 10Gbps is "1280.00MBps", and 1GBps "1024.00MBps": all prefixes are powers of 1024, so that a rate copied from a data sheet
#   is another one.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q libucx-cu12==1.22.0
ucx=$(echo "$folder"/venv/lib/python3*/site-packages/libucx)
check() { # value, bandwidth
  found=$(LD_LIBRARY_PATH=$ucx/lib UCX_BCOPY_BW=$1 "$ucx/bin/ucx_info" -c 2>&1 | sed -n 's/^UCX_BCOPY_BW=//p')
  echo "UCX 1.22.0, UCX_BCOPY_BW=$1: $found"
  [ "$found" = "$2" ] || { echo "another bandwidth now"; exit 1; }
}
check 10Gbps 1280.00MBps
check 1GBps 1024.00MBps
echo "as described"
