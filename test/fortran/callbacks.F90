! SPDX-License-Identifier: BSD-3-Clause
! Callbacks with Fortran's conventions: user operations, error handlers, generalized requests.
subroutine add_twice(values, result, length, type)
#ifdef MODULE
  use MODULE
#endif
  implicit none
#ifndef MODULE
  include "mpif.h"
#endif
  integer :: length, type, i
  integer :: values(length), result(length)
  if (type /= MPI_INTEGER) stop 1
  do i = 1, length
    result(i) = result(i) + 2*values(i)
  end do
end subroutine
subroutine on_error(comm, code)
#ifdef MODULE
  use MODULE
#endif
  implicit none
#ifndef MODULE
  include "mpif.h"
#endif
  integer :: comm, code, class, ierror, expected, count
  common /seen/ expected, count
  call MPI_Error_class(code, class, ierror)
  if (comm /= expected .or. class /= MPI_ERR_RANK) stop 2
  count = count + 1
end subroutine
subroutine query(state, status, ierror)
#ifdef MODULE
  use MODULE
#endif
  implicit none
#ifndef MODULE
  include "mpif.h"
#endif
  integer(kind=MPI_ADDRESS_KIND) :: state
  integer :: status(MPI_STATUS_SIZE), ierror
  call MPI_Status_set_elements(status, MPI_INTEGER, int(state), ierror)
  call MPI_Status_set_cancelled(status, .false., ierror)
  status(MPI_SOURCE) = 5
  status(MPI_TAG) = 6
  ierror = MPI_SUCCESS
end subroutine
subroutine free(state, ierror)
#ifdef MODULE
  use MODULE
#endif
  implicit none
#ifndef MODULE
  include "mpif.h"
#endif
  integer(kind=MPI_ADDRESS_KIND) :: state
  integer :: ierror, expected, count
  common /seen/ expected, count
  if (state /= 4) stop 3
  count = count + 100
  ierror = MPI_SUCCESS
end subroutine
subroutine cancel(state, complete, ierror)
#ifdef MODULE
  use MODULE
#endif
  implicit none
#ifndef MODULE
  include "mpif.h"
#endif
  integer(kind=MPI_ADDRESS_KIND) :: state
  logical :: complete
  integer :: ierror
  if (state /= 4 .or. complete) stop 4
  ierror = MPI_SUCCESS
end subroutine

program callbacks
#ifdef MODULE
  use MODULE
#endif
  implicit none
#ifndef MODULE
  include "mpif.h"
#endif
  external :: add_twice, on_error, query, free, cancel
  integer :: rank, size, ierror, op, comm, errhandler, request, value(3), result(3), expected, count, elements
  integer :: status(MPI_STATUS_SIZE)
  integer(kind=MPI_ADDRESS_KIND) :: state
  logical :: commutes, flag
  common /seen/ expected, count
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  call MPI_Op_create(add_twice, .false., op, ierror)
  call MPI_Op_commutative(op, commutes, ierror)
  if (commutes) stop 5
  value = (/ 1, 2, 3 /)
  result = -1
  call MPI_Reduce_local(value, result, 3, MPI_INTEGER, op, ierror)
  if (any(result /= (/ 1, 3, 5 /))) stop 6
  call MPI_Allreduce(value, result, 3, MPI_INTEGER, op, MPI_COMM_WORLD, ierror)
  ! x(0) op x(1) is 2 x(0) + x(1), for any order of evaluation of one operation.
  if (size == 2 .and. any(result /= 3*value)) stop 7
  call MPI_Op_free(op, ierror)
  if (op /= MPI_OP_NULL) stop 8

  count = 0
  call MPI_Comm_dup(MPI_COMM_WORLD, comm, ierror)
  expected = comm
  call MPI_Comm_create_errhandler(on_error, errhandler, ierror)
  call MPI_Comm_set_errhandler(comm, errhandler, ierror)
  call MPI_Errhandler_free(errhandler, ierror)
  call MPI_Send(rank, 1, MPI_INTEGER, size, 0, comm, ierror)
  if (ierror == MPI_SUCCESS .or. count /= 1) stop 9
  call MPI_Comm_free(comm, ierror)

  state = 4
  call MPI_Grequest_start(query, free, cancel, state, request, ierror)
  call MPI_Cancel(request, ierror)
  call MPI_Test(request, flag, status, ierror)
  if (flag) stop 10
  call MPI_Grequest_complete(request, ierror)
  call MPI_Wait(request, status, ierror)
  call MPI_Get_elements(status, MPI_INTEGER, elements, ierror)
  if (elements /= 4 .or. status(MPI_SOURCE) /= 5 .or. status(MPI_TAG) /= 6 .or. count /= 101) stop 11
  call MPI_Finalize(ierror)
end program
