#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The Debian package: built by dpkg-buildpackage without a network, installed and tested in a new chroot; an image with it.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$root/packaging/debian/build" "$folder" >"$folder/log" 2>&1 || { status=$?; tail -20 "$folder/log"; exit $status; }
package=$(find "$folder" -maxdepth 1 -name 'weft_*.deb')
"$root/packaging/debian/check" "$package"
"$root/packaging/containers/build-debian" "$package"
buildah --storage-driver "${STORAGE_DRIVER:-vfs}" rmi -f localhost/weft localhost/weft-debian-base >/dev/null
