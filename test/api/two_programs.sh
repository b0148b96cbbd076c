#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# usage: two_programs.sh PROGRAM: runs the environment test as two programs of one job, with separate mpiexec options.
exec mpiexec -n 1 -memory-alloc-kinds mpi:alloc_mem,levelzero "$1" 0 1 system,mpi,mpi:alloc_mem mpi_errors_are_fatal \
  : -n 2 -initial-errhandler mpi_errors_return "$1" 1 2 system,mpi mpi_errors_return
