#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ompi_info: the lines of Open MPI's program that scripts look for, from `weft info`. Options that choose parameters have
# no effect: all lines are printed.
prefix=$(dirname -- "$(dirname -- "$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")")")
parsable=
for option in "$@"; do
  case $option in
    --parsable | --parseable | -parsable | -parseable) parsable=yes ;;
    --version | -V | -version) exec echo "Open MPI v5.0 (its interface; the library is $("$prefix/bin/weft" --version))" ;;
    -h | --help) exec echo "usage: ompi_info [--parsable] [--all] [--version]; see also: weft info, weft info --config" ;;
  esac
done
facts=$("$prefix/bin/weft" info --parsable) || exit
fact() { printf '%s\n' "$facts" | sed -n "s/^weft:$1://p"; }
line() {  # KEY TITLE VALUE
  if [ -n "$parsable" ]; then echo "$1:$3"; else printf '%24s: %s\n' "$2" "$3"; fi
}
cuda=$(fact mpi_built_with_cuda_support:value)
line package Package "Weft $(fact weft)"
line ompi:version:full "Open MPI" "5.0"
line mpi-api:version:full "MPI API" "$(fact mpi_standard)"
line path:prefix Prefix "$prefix"
line path:bindir Bindir "$prefix/bin"
line path:libdir Libdir "$prefix/lib"
line path:incdir Incdir "$prefix/include"
line bindings:c "C bindings" yes
line bindings:mpif.h "Fort mpif.h" yes
line bindings:use_mpi "Fort use mpi" yes
line bindings:use_mpi_f08 "Fort use mpi_f08" yes
line compiler:c:command "C compiler" "$(fact c_compiler)"
line compiler:cxx:command "C++ compiler" "$(fact cxx_compiler)"
line compiler:fortran:command "Fort compiler" "$(fact fortran_compiler)"
line option:threads "Thread support" "posix (MPI_THREAD_MULTIPLE: yes, progress thread: yes)"
[ "$cuda" != true ] || line options:mpi_ext "MPI extensions" "cuda"
if [ -n "$parsable" ]; then
  for name in mpi:base:param:mpi opal:base:param:opal; do
    echo "mca:${name}_built_with_cuda_support:value:$cuda"
    echo "mca:${name}_built_with_cuda_support:source:default"
  done
else
  printf '%24s: %s\n' "CUDA support" "$cuda"
fi
