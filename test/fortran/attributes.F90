! SPDX-License-Identifier: BSD-3-Clause
! Attributes: values of the size of an address, copy and delete callbacks and their errors, predefined attributes.
subroutine copy(comm, keyval, state, value, new_value, flag, ierror)
#ifdef MODULE
  use MODULE
#endif
  implicit none
#ifndef MODULE
  include "mpif.h"
#endif
  integer :: comm, keyval, ierror
  integer(kind=MPI_ADDRESS_KIND) :: state, value, new_value
  logical :: flag
  if (state /= 1234567890123_MPI_ADDRESS_KIND) stop 1
  new_value = value + 1
  flag = .true.
  ierror = MPI_SUCCESS
end subroutine
subroutine delete(comm, keyval, value, state, ierror)
#ifdef MODULE
  use MODULE
#endif
  implicit none
#ifndef MODULE
  include "mpif.h"
#endif
  integer :: comm, keyval, ierror, deleted
  integer(kind=MPI_ADDRESS_KIND) :: value, state
  common /seen/ deleted
  if (state /= 1234567890123_MPI_ADDRESS_KIND) stop 2
  deleted = deleted + 1
  ierror = MPI_SUCCESS
  if (value == 666) ierror = MPI_ERR_OTHER
end subroutine

program attributes
#ifdef MODULE
  use MODULE
#endif
  implicit none
#ifndef MODULE
  include "mpif.h"
#endif
  external :: copy, delete
  integer :: comm, other, keyval, type, type2, ierror, deleted
  integer(kind=MPI_ADDRESS_KIND) :: state, value
  logical :: flag
  common /seen/ deleted
  call MPI_Init(ierror)
  deleted = 0
  state = 1234567890123_MPI_ADDRESS_KIND
  call MPI_Comm_dup(MPI_COMM_SELF, comm, ierror)
  call MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN, ierror)
  call MPI_Comm_create_keyval(copy, delete, keyval, state, ierror)
  call MPI_Comm_get_attr(comm, keyval, value, flag, ierror)
  if (flag) stop 3
  value = -9876543210_MPI_ADDRESS_KIND
  call MPI_Comm_set_attr(comm, keyval, value, ierror)
  call MPI_Comm_dup(comm, other, ierror)
  value = 0
  call MPI_Comm_get_attr(comm, keyval, value, flag, ierror)
  if (.not. flag .or. value /= -9876543210_MPI_ADDRESS_KIND) stop 4
  call MPI_Comm_get_attr(other, keyval, value, flag, ierror)
  if (.not. flag .or. value /= -9876543209_MPI_ADDRESS_KIND) stop 5
  call MPI_Comm_free(other, ierror)
  if (deleted /= 1) stop 6
  ! A delete callback that fails keeps the attribute and its value.
  value = 666
  call MPI_Comm_set_attr(comm, keyval, value, ierror)
  if (deleted /= 2) stop 7
  call MPI_Comm_delete_attr(comm, keyval, ierror)
  if (ierror == MPI_SUCCESS .or. deleted /= 3) stop 8
  call MPI_Comm_get_attr(comm, keyval, value, flag, ierror)
  if (.not. flag .or. value /= 666) stop 9
  call MPI_Comm_free_keyval(keyval, ierror)
  if (keyval /= MPI_KEYVAL_INVALID) stop 10

  call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, keyval, state, ierror)
  call MPI_Type_contiguous(3, MPI_INTEGER, type, ierror)
  value = 42
  call MPI_Type_set_attr(type, keyval, value, ierror)
  call MPI_Type_dup(type, type2, ierror)
  call MPI_Type_free(type, ierror)
  value = 0
  call MPI_Type_get_attr(type2, keyval, value, flag, ierror)
  if (.not. flag .or. value /= 42) stop 11
  call MPI_Type_free(type2, ierror)
  call MPI_Type_free_keyval(keyval, ierror)

  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierror)
  if (.not. flag .or. value < 32767) stop 12
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, value, flag, ierror)
  if (flag .and. value /= 0 .and. value /= 1) stop 13
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, value, flag, ierror)
  if (flag .and. value < 1) stop 14
  call MPI_Finalize(ierror)
end program
