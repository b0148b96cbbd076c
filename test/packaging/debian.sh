#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The Debian package: built by dpkg-buildpackage, installed and tested in a new chroot.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$root/packaging/debian/build" "$folder" >"$folder/log" 2>&1 || { status=$?; tail -20 "$folder/log"; exit $status; }
"$root/packaging/debian/check" "$(find "$folder" -maxdepth 1 -name 'weft_*.deb')"
