#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Packages: slurm-client 22.05.8 with slurm-wlm-basic-plugins, and libpmix2 4.2.2, of Debian 12.
# Behaviour: `srun --mpi=list` and `srun --mpi=pmix`, where the package of the PMIx library is installed.
# A good guess: what the list names can be used, as the text of the error says; a library's own package suffices to load it.
# Seen: the list names pmix. Its plugin opens libpmix.so, a link that libpmix2 does not have (libpmix-dev has it), and
# without the link srun says "Invalid MPI type 'pmix', --mpi=list for acceptable types".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 777 "$folder" # apt downloads as a user of its own
cd "$folder"
apt-get -qq download slurm-client slurm-wlm-basic-plugins libpmix2 libhwloc15 libmunge2 >/dev/null
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
srun() {
  SLURM_CONF=$folder/slurm.conf LD_LIBRARY_PATH=$libraries/slurm-wlm:$libraries \
    timeout 20 "$folder/root/usr/bin/srun" "$@" 2>&1
}
version=$(srun --version)
listed=$(srun --mpi=list | grep -cw pmix || true)
opened=$(LD_DEBUG=files srun --mpi=pmix true | sed -n 's/.*file=\([^ ]*libpmix[^ ]*\) .*/\1/p' | head -n 1 || true)
provided=$(dpkg-deb -c libpmix2_*.deb | grep -c '/libpmix\.so$' || true)
echo "$version: lines of the list with pmix: $listed; file that the plugin opens: $opened; libpmix2 has it: $provided"
[ "$listed" -ge 1 ] || { echo "pmix is not listed any more"; exit 1; }
[ "$opened" = /usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so ] || { echo "the plugin opens another file"; exit 1; }
[ "$provided" = 0 ] || { echo "libpmix2 has the link now"; exit 1; }
if ! [ -e "$opened" ]; then
  refused=$(srun --mpi=pmix true || true)
  case $refused in
  *"can not load PMIx library"*"Invalid MPI type 'pmix', --mpi=list for acceptable types"*) ;;
  *) echo "srun refuses it otherwise now: $refused"; exit 1 ;;
  esac
fi
echo "as described"
