#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mpirun: runs mpiexec.
exec "$(dirname -- "$(readlink -f -- "$0")")/mpiexec" "$@"
