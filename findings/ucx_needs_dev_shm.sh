#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: libucx-cu12 1.22.0 (UCX 1.22) from the Python package index; unshare of util-linux, and root, to hide /dev/shm.
# Behaviour: ucx_info -w -u t, which creates a worker, where the user cannot create files in /dev/shm, as in some containers, while TCP, the
#   loopback and shared memory of System V are there.
# A good guess: the worker uses the other transports, as it does without InfiniBand; UCX leaves out what does not work.
# Seen: the worker is not created ("Shared memory error"), so that no transport can be used. With UCX_TLS=^posix it is.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q libucx-cu12==1.22.0
ucx=$(echo "$folder"/venv/lib/python3*/site-packages/libucx)
worker() { # value of UCX_TLS
  unshare -m sh -c "mount -t tmpfs -o mode=755 none /dev/shm && LD_LIBRARY_PATH=$ucx/lib UCX_TLS=$1 \
    setpriv --reuid 65534 --regid 65534 --clear-groups $ucx/bin/ucx_info -w -u t" >"$folder/out" 2>&1 || true
  if grep -q 'ucp_worker_create failed\|failed to create worker\|Shared memory error' "$folder/out"; then echo none; else echo created; fi
}
if ! unshare -m mount -t tmpfs none /dev/shm 2>/dev/null; then echo "skipped: needs root"; exit 77; fi
all=$(worker all)
without=$(worker ^posix)
echo "UCX 1.22.0 without /dev/shm: worker with all transports: $all, with UCX_TLS=^posix: $without"
if [ "$all" != none ] || [ "$without" != created ]; then cat "$folder/out"; echo "UCX does otherwise now"; exit 1; fi
grep -q '# UCP worker' "$folder/out" || { echo "ucx_info prints no worker"; exit 1; }
echo "as described"
