#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: libfabric-bin and libfabric1 1.17.0 of Debian 12, with the libraries that libfabric1 needs.
# Behaviour: FI_TCP_IFACE, by which the provider tcp is bound to one network interface, with the name of an interface that does not exist.
# A good guess: no endpoint of tcp is offered (fi_getinfo has no data), or a message says that the interface is not there.
# Seen: tcp is offered with the addresses of all interfaces, as without the variable, and without a message. A job whose nodes name
#   their interfaces differently talks over other networks than it was told.
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
info() { root/usr/bin/fi_info -p tcp -t FI_EP_MSG -v 2>&1; }
addresses() { info | grep -c 'src_addr: ' || true; }
version=$(root/usr/bin/fi_info --version | sed -n 's/^libfabric: //p')
all=$(addresses)
loopback=$(FI_TCP_IFACE=lo addresses)
unknown=$(FI_TCP_IFACE=no-such-if addresses)
echo "libfabric $version, addresses: $all of all interfaces, $loopback of lo, $unknown of a missing interface"
[ "$loopback" -ge 1 ] || { echo "lo has no address"; exit 1; }
[ "$unknown" = "$all" ] || { echo "an unknown interface is treated otherwise now"; exit 1; }
if FI_TCP_IFACE=no-such-if info | grep -q no-such-if; then echo "a message names the interface now"; exit 1; fi
echo "as described"
