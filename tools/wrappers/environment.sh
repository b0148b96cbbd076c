#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A command of the wheel weft-mpi: runs the program of this name in lib/weft/bin of the environment.
self=$0
case $self in */*) ;; *) self=./$self ;; esac
[ ! -L "$self" ] || self=$(readlink -f -- "$self")
exec "${self%/*}/../lib/weft/bin/${self##*/}" "$@"
