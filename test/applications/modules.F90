! SPDX-License-Identifier: BSD-3-Clause
! What programs use of other MPIs' modules (MODULE: mpi or mpi_f08): each kind of symbol that gfortran refers to.
module callbacks
  use MODULE
  implicit none
  integer :: deleted = 0
contains
  include "../fortran/check.inc"
#ifdef F08
  subroutine add_twice(invec, inoutvec, len, datatype)
    use, intrinsic :: iso_c_binding, only : c_ptr, c_f_pointer
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: from(:), to(:)
    call check(datatype == MPI_INTEGER, 1)
    call c_f_pointer(invec, from, (/ len /))
    call c_f_pointer(inoutvec, to, (/ len /))
    to = to + 2*from
  end subroutine
  subroutine delete(comm, keyval, value, state, code)
    type(MPI_Comm) :: comm
    integer :: keyval, code
    integer(kind=MPI_ADDRESS_KIND) :: value, state
    call check(comm /= MPI_COMM_NULL .and. keyval /= MPI_KEYVAL_INVALID .and. value == 7 .and. state == 8, 2)
    deleted = deleted + 1
    code = MPI_SUCCESS
  end subroutine
#endif
end module

program modules
  use callbacks
  implicit none
  integer :: rank, size, next, previous, code, ignored, count, length, values(6), got(6), bytes
  character(len=MPI_MAX_ERROR_STRING) :: text
  double precision :: start
#ifdef F08
  type(MPI_Status) :: status, statuses(2)
  type(MPI_Request) :: requests(2)
  type(MPI_Comm) :: other
  type(MPI_Op) :: op
  type(MPI_Group) :: group
  integer :: keyval, class
  integer(kind=MPI_ADDRESS_KIND) :: value, state
  logical :: flag
#else
  integer :: status(MPI_STATUS_SIZE), requests(2)
#endif
  real(kind=16) :: quadruple(2,2)
  complex(kind=8) :: complex
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, size, code)
  next = modulo(rank + 1, size)
  previous = modulo(rank - 1, size)
  start = MPI_Wtime()
  values = rank
  call MPI_Sendrecv(values, 6, MPI_INTEGER, next, 3, got, 6, MPI_INTEGER, previous, 3, MPI_COMM_WORLD, status, code)
  call MPI_Get_count(status, MPI_INTEGER, count, code)
  call check(all(got == previous) .and. count == 6 .and. MPI_Wtime() >= start, 10)
  call MPI_Allreduce(MPI_IN_PLACE, values, 6, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  call check(all(values == size*(size - 1)/2), 11)
  call MPI_Isend(values, 6, MPI_INTEGER, next, 4, MPI_COMM_WORLD, requests(1), code)
  call MPI_Irecv(got, 6, MPI_INTEGER, previous, 4, MPI_COMM_WORLD, requests(2), code)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, code)
  call check(all(got == values) .and. requests(1) == MPI_REQUEST_NULL, 12)
#if defined(F08) || !defined(MPICH)
  call MPI_Sizeof(quadruple, bytes, code)
  call check(bytes == 16 .and. code == MPI_SUCCESS, 13)
  call MPI_Sizeof(complex, bytes, code)
  call check(bytes == 16, 14)
#endif
  call MPI_Sizeof(values(1), bytes, code)
  call check(bytes == 4, 15)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, code)
  call MPI_Send(values, 6, MPI_INTEGER, size, 3, MPI_COMM_WORLD, code)
  call MPI_Error_string(code, text, length, ignored)
  call check(code /= MPI_SUCCESS .and. index(text, "rank") > 0, 16)
#ifdef F08
  ! Without the optional argument; members and operators of the types; callbacks.
  call MPI_Error_class(code, class)
  call check(class == MPI_ERR_RANK, 20)
  call check(status%MPI_SOURCE == previous .and. status%MPI_TAG == 3, 21)
  call MPI_Isend(values, 2, MPI_INTEGER, next, 5, MPI_COMM_WORLD, requests(1))
  call MPI_Irecv(got, 6, MPI_INTEGER, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, requests(2))
  call check(requests(2) /= MPI_REQUEST_NULL, 22)
  call MPI_Waitall(2, requests, statuses)
  call MPI_Get_count(statuses(2), MPI_INTEGER, count)
  call check(count == 2 .and. statuses(2)%MPI_SOURCE == previous .and. statuses(2)%MPI_TAG == 5, 23)
  call MPI_Op_create(add_twice, .true., op)
  values = rank
  call MPI_Reduce_local(values, got, 2, MPI_INTEGER, op)
  call check(got(1) == size*(size - 1)/2 + 2*rank, 24)
  call MPI_Op_free(op)
  call check(op == MPI_OP_NULL, 25)
  state = 8
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, delete, keyval, state)
  value = 7
  call MPI_Comm_set_attr(MPI_COMM_WORLD, keyval, value)
  call MPI_Comm_dup(MPI_COMM_WORLD, other)
  value = 0
  call MPI_Comm_get_attr(other, keyval, value, flag)
  call check(flag .and. value == 7, 26)
  call MPI_Comm_free(other)
  call MPI_Comm_delete_attr(MPI_COMM_WORLD, keyval)
  call check(deleted == 2 .and. other == MPI_COMM_NULL, 27)
  call MPI_Comm_group(MPI_COMM_WORLD, group)
  call check(group /= MPI_GROUP_EMPTY, 28)
  call MPI_Group_free(group)
  call MPI_Barrier(MPI_COMM_WORLD)
#endif
  call MPI_Finalize(code)
end program
