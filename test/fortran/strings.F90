! SPDX-License-Identifier: BSD-3-Clause
! Strings: trailing blanks in and out, leading blanks of info keys and values only, truncation, results of all lengths.
program strings
#ifdef MODULE
  use MODULE
#endif
  implicit none
#ifndef MODULE
  include "mpif.h"
#endif
  integer :: ierror, comm, info, length, code, class, keys, buflen
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=6) :: short
  character(len=MPI_MAX_ERROR_STRING) :: text
  character(len=MPI_MAX_LIBRARY_VERSION_STRING) :: version
  character(len=20) :: value
  character(len=MPI_MAX_INFO_KEY) :: key
  logical :: flag
  call MPI_Init(ierror)
  call MPI_Comm_dup(MPI_COMM_SELF, comm, ierror)
  call MPI_Comm_set_name(comm, '  two blanks   ', ierror)
  name = repeat('x', len(name))
  call MPI_Comm_get_name(comm, name, length, ierror)
  if (length /= 12 .or. name /= '  two blanks' .or. name(13:) /= ' ') stop 1
  call MPI_Comm_set_name(comm, '   ', ierror)
  call MPI_Comm_get_name(comm, name, length, ierror)
  if (length /= 0 .or. name /= ' ') stop 2
  call MPI_Comm_free(comm, ierror)

  call MPI_Info_create(info, ierror)
  call MPI_Info_set(info, '  key one  ', '  value of it  ', ierror)
  call MPI_Info_get(info, 'key one', 15, value, flag, ierror)
  if (.not. flag .or. value /= 'value of it') stop 3
  call MPI_Info_get(info, ' key one', 6, short, flag, ierror)
  if (.not. flag .or. short /= 'value ') stop 4
  call MPI_Info_get_valuelen(info, 'key one  ', length, flag, ierror)
  if (.not. flag .or. length /= 11) stop 5
  call MPI_Info_get_nkeys(info, keys, ierror)
  call MPI_Info_get_nthkey(info, 0, key, ierror)
  if (keys /= 1 .or. key /= 'key one') stop 6
  buflen = 0
  call MPI_Info_get_string(info, 'key one', buflen, value, flag, ierror)
  if (.not. flag .or. buflen /= 11) stop 7
  buflen = len(value)
  call MPI_Info_get_string(info, 'key one', buflen, value, flag, ierror)
  if (.not. flag .or. buflen /= 11 .or. value /= 'value of it') stop 8
  value = 'unchanged'
  call MPI_Info_get(info, 'no key', len(value), value, flag, ierror)
  if (flag .or. value /= 'unchanged') stop 9
  call MPI_Info_free(info, ierror)
  if (info /= MPI_INFO_NULL) stop 10

  call MPI_Add_error_class(class, ierror)
  call MPI_Add_error_code(class, code, ierror)
  call MPI_Add_error_string(code, 'out of luck  ', ierror)
  call MPI_Error_string(code, text, length, ierror)
  if (text(:length) /= 'out of luck' .or. text(length+1:) /= ' ') stop 11
  call MPI_Get_library_version(version, length, ierror)
  if (version(:4) /= 'Weft' .or. length < 4 .or. version(length+1:) /= ' ') stop 12
  call MPI_Get_processor_name(text, length, ierror)
  if (length < 1 .or. text(length:length) == ' ') stop 13
  call MPI_Finalize(ierror)
end program
