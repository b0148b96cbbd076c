#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: libfabric-bin and libfabric1 1.17.0 of Debian 12, with the libraries that libfabric1 needs.
# Behaviour: FI_PROVIDER=ofi_rxm and `fi_info -p ofi_rxm`. ofi_rxm is a layer that makes reliable datagrams of tcp and others; fi_info
#   shows it as a part of "tcp;ofi_rxm".
# A good guess: both select what uses ofi_rxm, as both do for "tcp" and "tcp;ofi_rxm"; and "^ofi_rxm" is the opposite of "ofi_rxm".
# Seen: fi_info -p offers it over tcp and net. FI_PROVIDER=ofi_rxm offers nothing (fi_getinfo: -61): the providers below are not in the
#   list, and so they are switched off; with "tcp" in the list the layer need not be named. "^ofi_rxm" leaves the others.
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
check() { # FI_PROVIDER or -, argument of -p or -, what is offered of tcp and net
  unset FI_PROVIDER
  [ "$1" = - ] || export FI_PROVIDER="$1"
  if [ "$2" = - ]; then set -- "$1" "$2" "$3"; else set -- "$1" "$2" "$3" -p "$2"; fi
  variable=$1
  option=$2
  expected=$3
  shift 3
  offered=$(root/usr/bin/fi_info "$@" 2>&1 | sed -n 's/^provider: //p' | grep -xE '(tcp|net)(;ofi_rxm)?' | sort -u | xargs || true)
  echo "libfabric $version, FI_PROVIDER $variable, fi_info -p $option: of tcp and net: ${offered:-none}"
  [ "$offered" = "$expected" ] || { echo "others are offered now"; exit 1; }
}
check - ofi_rxm "net;ofi_rxm tcp;ofi_rxm"
check ofi_rxm - ""
check "tcp;ofi_rxm" - "tcp;ofi_rxm"
check tcp - "tcp tcp;ofi_rxm"
check "^ofi_rxm" - "net tcp"
echo "as described"
