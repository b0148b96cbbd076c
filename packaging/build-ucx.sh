#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds a UCX release with CUDA support, for sites whose UCX lacks it, and checks the result.
# Requires a compiler, make, a CUDA toolkit (headers and libcuda's stub), and a network or --source.
set -euo pipefail

version=1.18.0
digest=fa75070f5fa7442731b4ef5fc9549391e147ed3d859afeb1dad2d4513b39dc33
prefix=
cuda=${CUDA_HOME:-/usr/local/cuda}
gdrcopy=
source=
options=()
jobs=$(nproc)

usage() {
  cat <<END
usage: build-ucx.sh --prefix DIR [options]
  --prefix DIR     installation folder
  --cuda DIR       CUDA toolkit (default: CUDA_HOME, else /usr/local/cuda)
  --gdrcopy DIR    prefix of gdrcopy; enables gdrcopy support
  --verbs          require verbs (InfiniBand, RoCE)
  --source FILE    local release tarball, instead of a download
  --version N --sha256 DIGEST   use another release
  --jobs N         number of parallel compilers (default: number of cores)
END
}

fail() {
  echo "build-ucx: $1" >&2
  exit 1
}

bad_usage() {
  echo "build-ucx: $1" >&2
  usage >&2
  exit 2
}

while (($#)); do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --verbs) options+=(--with-verbs); shift; continue ;;
    --prefix | --cuda | --gdrcopy | --source | --version | --sha256 | --jobs)
      (($# > 1)) || bad_usage "$1 needs a value" ;;
    *) bad_usage "unknown option $1" ;;
  esac
  case $1 in
    --prefix) prefix=$2 ;;
    --cuda) cuda=$2 ;;
    --gdrcopy) gdrcopy=$2 ;;
    --source) source=$2 ;;
    --version) version=$2 digest= ;;
    --sha256) digest=$2 ;;
    --jobs) jobs=$2 ;;
  esac
  shift 2
done
[[ -n $prefix ]] || bad_usage "--prefix is missing"
[[ -f $cuda/include/cuda.h ]] || fail "no CUDA toolkit in $cuda (no include/cuda.h): specify --cuda"
[[ -z $gdrcopy || -f $gdrcopy/include/gdrapi.h ]] || fail "no gdrcopy in $gdrcopy (no include/gdrapi.h)"
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ -z $source ]]; then
  source=$work/ucx.tar.gz
  address=https://github.com/openucx/ucx/releases/download/v$version/ucx-$version.tar.gz
  echo "build-ucx: downloading UCX $version"
  curl -fsSL -o "$source" "$address" || fail "download of $address failed: download the file elsewhere and specify --source"
  [[ -n $digest ]] || fail "the digest of UCX $version is unknown: specify --sha256"
  echo "$digest  $source" | sha256sum -c --quiet || fail "the digest of the file is not that of the UCX $version release"
fi
mkdir "$work/source"
tar -xf "$source" -C "$work/source" --strip-components=1 || fail "$source is not a tarball"

echo "build-ucx: building into $prefix"
cd "$work/source"
configure=./contrib/configure-release
[[ -x $configure ]] || configure=./configure
options+=(--prefix="$prefix" --enable-mt --disable-doxygen-doc --without-java --without-go --with-cuda="$cuda")
[[ -z $gdrcopy ]] || options+=(--with-gdrcopy="$gdrcopy")
"$configure" "${options[@]}" >"$prefix/build-ucx.log" 2>&1 || fail "configure failed: see $prefix/build-ucx.log"
make -j "$jobs" install >>"$prefix/build-ucx.log" 2>&1 || fail "make failed: see $prefix/build-ucx.log"

# The CUDA modules are loaded at run time and may be missing after a successful build; without a GPU they report no device.
missing=()
for name in cuda_copy cuda_ipc; do
  "$prefix/bin/ucx_info" -d | grep -qw "$name" || missing+=("$name")
done
if ((${#missing[@]})); then
  if [[ -e /dev/nvidiactl ]]; then
    fail "the UCX in $prefix lacks ${missing[*]}: see $prefix/build-ucx.log"
  fi
  ls "$prefix"/lib*/ucx/libuct_cuda.so* >/dev/null 2>&1 || fail "the UCX in $prefix was built without CUDA"
  echo "build-ucx: built with CUDA; no GPU on this host: run $prefix/bin/ucx_info -d | grep cuda on a GPU node"
else
  "$prefix/bin/ucx_info" -d | grep -w -e cuda_copy -e cuda_ipc -e gdr_copy
fi
echo "build-ucx: prepend $prefix/lib to LD_LIBRARY_PATH and $prefix/bin to PATH"
