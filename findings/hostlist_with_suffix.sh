#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: python-hostlist 2.3.0 from the Python package index; slurm-client and slurm-wlm-basic-plugins 22.05.8 of Debian 12.
# Behaviour: a list of host names is folded by python-hostlist, made for the lists of Slurm, and expanded by Slurm's scontrol.
# A good guess: the same hosts come out. Names like n1-ib or n1.cluster are usual for a second network or with their domain.
# Seen: python-hostlist folds n1-ib,n2-ib to n[1-2]-ib, and Slurm refuses this ("Invalid hostlist"): it knows nothing after the
#   bracket but another bracket. Slurm itself folds n1.a,n2.a to n1.a,n2.a. Each reads its own lists, and those of the
#   other without a suffix.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 777 "$folder" # apt downloads as a user of its own
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q python-hostlist==2.3.0
apt-get -qq download slurm-client slurm-wlm-basic-plugins >/dev/null
for package in *.deb; do dpkg-deb -x "$package" root; done
libraries=$folder/root/usr/lib/x86_64-linux-gnu
cat >slurm.conf <<END
ClusterName=one
SlurmctldHost=localhost
AuthType=auth/none
PluginDir=$libraries/slurm-wlm
NodeName=localhost
PartitionName=all Nodes=localhost
END
scontrol() {
  SLURM_CONF=$folder/slurm.conf LD_LIBRARY_PATH=$libraries/slurm-wlm root/usr/bin/scontrol show "$@" 2>&1
}
fold() {
  venv/bin/python -c 'import hostlist, sys; print(hostlist.collect_hostlist(sys.argv[1].split(",")))' "$1"
}
check() { # hosts, the list of python-hostlist, Slurm's expansion
  folded=$(fold "$1")
  expanded=$(scontrol hostnames "$folded" | tr '\n' ' ' || true)
  echo "$1: folded $folded, expanded by Slurm: $expanded"
  [ "$folded" = "$2" ] && [ "$expanded" = "$3" ] || { echo "they understand each other otherwise now"; exit 1; }
}
check n1,n2 "n[1-2]" "n1 n2 "
check n1-ib,n2-ib "n[1-2]-ib" "Invalid hostlist: n[1-2]-ib "
check n1.a,n2.a "n[1-2].a" "Invalid hostlist: n[1-2].a "
[ "$(scontrol hostlist n1.a,n2.a)" = n1.a,n2.a ] || { echo "Slurm folds suffixes now"; exit 1; }
echo "as described"
