#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: libfabric-bin and libfabric1 1.17.0 of Debian 12, with the libraries that libfabric1 needs.
# Behaviour: FI_PROVIDER="^tcp,^udp", where "^tcp" alone excludes the provider tcp.
# A good guess: tcp and udp are excluded; or the value is refused, as its syntax has one '^' before the whole list.
# Seen: tcp is excluded and udp is not, without a message: the second name is "^udp". "^tcp,udp" excludes both, though it reads as
#   if it took tcp away and udp in.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 777 "$folder" # apt downloads as a user of its own
cd "$folder"
apt-get -qq download libfabric-bin libfabric1 librdmacm1 libibverbs1 ibverbs-providers libatomic1 libpsm-infinipath1 libpsm2-2 \
  libnl-3-200 libnl-route-3-200 libnuma1 >/dev/null
for package in *.deb; do dpkg-deb -x "$package" root; done
ln -s "$folder"/root/usr/lib/libpsm1/libpsm_infinipath.so.1.* root/usr/lib/x86_64-linux-gnu/libpsm_infinipath.so.1
export LD_LIBRARY_PATH="$folder/root/usr/lib/x86_64-linux-gnu:$folder/root/lib/x86_64-linux-gnu"
version=$(root/usr/bin/fi_info --version | sed -n 's/^libfabric: //p')
offered() { # value of FI_PROVIDER
  FI_PROVIDER=$1 root/usr/bin/fi_info 2>"$folder/errors" | sed -n 's/^provider: //p' | grep -xE 'tcp|udp' | sort -u | xargs
}
check() { # value of FI_PROVIDER, providers
  providers=$(offered "$1")
  echo "libfabric $version, FI_PROVIDER='$1': of tcp and udp remain: ${providers:-none}"
  [ "$providers" = "$2" ] || { echo "other providers remain now"; exit 1; }
  [ ! -s "$folder/errors" ] || { echo "there is a message now"; exit 1; }
}
check "tcp,udp" "tcp udp"
check "^tcp" "udp"
check "^tcp,^udp" "udp"
check "^tcp,udp" ""
echo "as described"
