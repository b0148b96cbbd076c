#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpirun, mpirun_rsh: run mpiexec, which takes the second one's hosts and variables after the option.
case $0 in *mpirun_rsh) set -- --mpirun-rsh "$@" ;; esac
exec "$(dirname -- "$(readlink -f -- "$0")")/mpiexec" "$@"
