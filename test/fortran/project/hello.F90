! SPDX-License-Identifier: BSD-3-Clause
program hello
#if defined(F08_MODULE)
  use mpi_f08
#elif defined(F90_MODULE)
  use mpi
#endif
  implicit none
#ifdef F77_HEADER
  include "mpif.h"
#endif
  integer :: rank, size, ierror
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  print '(i0,"/",i0)', rank, size
  call MPI_Finalize(ierror)
end program
