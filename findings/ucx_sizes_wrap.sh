#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: libucx-cu12 1.22.0 (UCX 1.22) from the Python package index.
# Behaviour: values of a setting that is a size, UCX_RNDV_THRESH, as read back by ucx_info -c: values that are meant as "never", which
#   "inf" would say, and numbers below 0.
# A good guess: a number that does not fit is refused or taken as infinite, as the parser refuses 1.5M and says what it expects; -2 is
#   refused too, or as infinite as -1.
# Seen: 16777216T, which is 2^64, is 0, so that all messages use the protocol that was to be turned off; 20000000T is another size.
#   -1 is inf, -2 is auto, and -3 is a size. There is no message.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q libucx-cu12==1.22.0
ucx=$(echo "$folder"/venv/lib/python3*/site-packages/libucx)
read_back() {
  LD_LIBRARY_PATH=$ucx/lib UCX_RNDV_THRESH=$1 "$ucx/bin/ucx_info" -c 2>&1 | sed -n 's/^UCX_RNDV_THRESH=intra:\([^,]*\),.*/\1/p; s/.*ERROR Invalid value.*/refused/p' | head -n 1
}
check() { # value, size
  size=$(read_back "$1")
  echo "UCX 1.22.0, UCX_RNDV_THRESH=$1: $size"
  [ "$size" = "$2" ] || { echo "another size now"; exit 1; }
}
check 64K 64K
check 1.5M refused
check 16777216T 0
check 20000000T 3222784T
check -1 inf
check -2 auto
check -3 18446744073709551613
echo "as described"
