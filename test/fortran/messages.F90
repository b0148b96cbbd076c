! SPDX-License-Identifier: BSD-3-Clause
! Messages: ring, nonblocking and waiting for any, collectives in place, derived types, statuses, LOGICAL values.
program messages
#ifdef MODULE
  use MODULE
#endif
  implicit none
#ifndef MODULE
  include "mpif.h"
#endif
  integer, parameter :: count = 40
  integer :: rank, size, next, previous, ierror, i, index, done, sum, type, value, outcount
  integer :: requests(2*count), status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE,2*count), indices(2*count)
  integer :: received(count), sent(count)
  integer(kind=MPI_ADDRESS_KIND) :: addresses(2), extent, lower
  double precision :: matrix(4,3), column(3), start
  logical :: flag, yes, all_yes
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  next = mod(rank + 1, size)
  previous = mod(rank + size - 1, size)
  start = MPI_Wtime()

  ! More requests than the library keeps without an allocation.
  do i = 1, count
    sent(i) = 1000*rank + i
    call MPI_Irecv(received(i), 1, MPI_INTEGER, previous, i, MPI_COMM_WORLD, requests(i), ierror)
    call MPI_Isend(sent(i), 1, MPI_INTEGER, next, i, MPI_COMM_WORLD, requests(count + i), ierror)
  end do
  call MPI_Waitall(2*count, requests, statuses, ierror)
  do i = 1, count
    if (received(i) /= 1000*previous + i) stop 1
    if (statuses(MPI_SOURCE,i) /= previous .or. statuses(MPI_TAG,i) /= i) stop 2
    if (requests(i) /= MPI_REQUEST_NULL .or. requests(count + i) /= MPI_REQUEST_NULL) stop 3
    call MPI_Get_count(statuses(1,i), MPI_INTEGER, value, ierror)
    if (value /= 1) stop 4
  end do

  ! Indices count from 1; MPI_UNDEFINED stays.
  call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE, ierror)
  if (index /= MPI_UNDEFINED) stop 5
  call MPI_Irecv(value, 1, MPI_INTEGER, previous, 7, MPI_COMM_WORLD, requests(2), ierror)
  call MPI_Send(rank, 1, MPI_INTEGER, next, 7, MPI_COMM_WORLD, ierror)
  call MPI_Waitany(2, requests, index, status, ierror)
  if (index /= 2 .or. value /= previous .or. status(MPI_SOURCE) /= previous) stop 6
  call MPI_Irecv(value, 1, MPI_INTEGER, previous, 8, MPI_COMM_WORLD, requests(2), ierror)
  call MPI_Send(rank, 1, MPI_INTEGER, next, 8, MPI_COMM_WORLD, ierror)
  call MPI_Waitsome(2, requests, outcount, indices, MPI_STATUSES_IGNORE, ierror)
  if (outcount /= 1 .or. indices(1) /= 2) stop 7
  call MPI_Testany(2, requests, index, flag, status, ierror)
  if (.not. flag .or. index /= MPI_UNDEFINED) stop 8

  ! Collectives: MPI_IN_PLACE, MPI_BOTTOM with absolute addresses, LOGICAL.
  sum = rank + 1
  call MPI_Allreduce(MPI_IN_PLACE, sum, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (sum /= size*(size + 1)/2) stop 9
  yes = rank == 0
  call MPI_Allreduce(yes, all_yes, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierror)
  if (.not. all_yes) stop 10
  call MPI_Get_address(value, addresses(1), ierror)
  call MPI_Get_address(sum, addresses(2), ierror)
  call MPI_Type_create_hindexed(2, (/ 1, 1 /), addresses, MPI_INTEGER, type, ierror)
  call MPI_Type_commit(type, ierror)
  if (rank == 0) value = 17
  if (rank == 0) sum = 18
  call MPI_Bcast(MPI_BOTTOM, 1, type, 0, MPI_COMM_WORLD, ierror)
  if (value /= 17 .or. sum /= 18) stop 11
  call MPI_Type_free(type, ierror)
  if (type /= MPI_DATATYPE_NULL) stop 12

  ! A row of a matrix is sent as a vector.
  do i = 1, 3
    matrix(:,i) = (/ 1, 2, 3, 4 /) + 10*i + 100*rank
  end do
  call MPI_Type_vector(3, 1, 4, MPI_DOUBLE_PRECISION, type, ierror)
  call MPI_Type_get_extent(type, lower, extent, ierror)
  if (lower /= 0 .or. extent /= 8*9) stop 13
  call MPI_Type_commit(type, ierror)
  call MPI_Sendrecv(matrix(2,1), 1, type, next, 1, column, 3, MPI_DOUBLE_PRECISION, previous, 1, MPI_COMM_WORLD, status, ierror)
  if (any(nint(column) /= (/ 12, 22, 32 /) + 100*previous)) stop 14
  call MPI_Type_free(type, ierror)

  call MPI_Iprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, flag, status, ierror)
  if (.not. flag .or. status(MPI_SOURCE) /= MPI_PROC_NULL) stop 15
  call MPI_Initialized(flag, ierror)
  if (.not. flag) stop 16
  if (MPI_Wtime() < start .or. MPI_Wtick() <= 0) stop 17
  if (MPI_Aint_diff(MPI_Aint_add(addresses(1), addresses(2)), addresses(2)) /= addresses(1)) stop 18
  done = 1
  call MPI_Finalize(ierror)
end program
