#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The RPM from the prefix under test: its files, its scripts, and the installed copy at work.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/packaging/need.sh"
need cpio cpio
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$root/packaging/rpm/build" "$folder/rpm" "$MPI_PREFIX" >"$folder/log" 2>&1 || { status=$?; tail -20 "$folder/log"; exit $status; }
rpm=$(find "$folder/rpm/RPMS" -name '*.rpm')
rpm -qp --qf '%{NAME} %{LICENSE}\n' "$rpm" | grep -x 'weft BSD-3-Clause'
mkdir "$folder/root"
cd "$folder/root"
rpm2cpio "$rpm" | cpio -idm --quiet
test -L usr/bin/weft && test -x usr/lib64/weft/bin/mpiexec && test -f usr/lib64/weft/share/man/man1/mpiexec.1
test -f usr/share/man/man1/weft.1.gz || test -f usr/share/man/man1/weft.1
grep -q /usr/lib64/weft usr/share/modulefiles/mpi/weft
test "$(usr/lib64/weft/bin/mpiexec -n 2 echo rank)" = "$(printf 'rank\nrank')"
usr/bin/weft info | grep "prefix .*$folder/root/usr/lib64/weft"
