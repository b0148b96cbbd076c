! SPDX-License-Identifier: BSD-3-Clause
! A tool written in Fortran (profiling_tool.F90) sees the calls of the program, and calls the PMPI_ names.
program profiling
#ifdef MODULE
  use MODULE
#endif
  implicit none
#ifndef MODULE
  include "mpif.h"
#endif
#ifdef F08
  type(MPI_Status) :: status
#else
  integer :: status(MPI_STATUS_SIZE)
#endif
  integer :: sends, barriers
  common /calls/ sends, barriers
  integer :: rank, size, ierror, values(2,3), got(3)
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  values(1,:) = rank
  values(2,:) = rank + (/ 100, 200, 300 /)
  if (rank > 0) then
    call MPI_Send(values(2,:), 3, MPI_INTEGER, rank - 1, 1, MPI_COMM_WORLD, ierror)  ! a section with mpi_f08
    call check(ierror == MPI_SUCCESS, 1)
  end if
  if (rank < size - 1) then
    call MPI_Recv(got, 3, MPI_INTEGER, rank + 1, 1, MPI_COMM_WORLD, status, ierror)
    call check(all(got == rank + 1 + (/ 100, 200, 300 /)), 2)
  end if
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
#ifdef F08
  call MPI_Barrier(MPI_COMM_WORLD)
#else
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
#endif
  call check(sends == merge(1, 0, rank > 0) .and. barriers == 2, 3)
  call MPI_Finalize(ierror)
contains
  include "check.inc"
end program
