! SPDX-License-Identifier: BSD-3-Clause
! Routines whose arguments have meanings of their own, for all interfaces: error handlers, attributes of windows and
! datatypes, data representations, attached buffers, strings of given lengths, MPI_SIZEOF.
#ifdef F08
#define HANDLE(name) type(name)
#define STATUS type(MPI_Status)
#else
#define HANDLE(name) integer
#define STATUS integer, dimension(MPI_STATUS_SIZE)
#endif
#ifdef MODULE
#define INTERFACE
#else
#define INTERFACE include "mpif.h"
#endif
module callbacks
#ifdef MODULE
  use MODULE
#endif
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: called = 0, converted = 0
contains
  include "check.inc"

  subroutine on_window(object, error_code)
    INTERFACE
    HANDLE(MPI_Win) :: object
    integer :: error_code
    call check(object /= MPI_WIN_NULL .and. error_code == MPI_ERR_OTHER, 1)
    called = called + 1
  end subroutine
  subroutine on_file(object, error_code)
    INTERFACE
    HANDLE(MPI_File) :: object
    integer :: error_code
    call check(object /= MPI_FILE_NULL .and. error_code == MPI_ERR_OTHER, 2)
    called = called + 10
  end subroutine
  subroutine on_session(object, error_code)
    INTERFACE
    HANDLE(MPI_Session) :: object
    integer :: error_code
    call check(object /= MPI_SESSION_NULL .and. error_code == MPI_ERR_OTHER, 3)
    called = called + 100
  end subroutine

  subroutine copy_win(object, keyval, extra_state, value_in, value_out, flag, ierror)
    INTERFACE
    HANDLE(MPI_Win) :: object
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, value_in, value_out
    logical :: flag
    call check(object == MPI_WIN_NULL, 4)  ! windows are never copied
    flag = keyval > 0 .and. extra_state == value_in
    value_out = 0
    ierror = MPI_SUCCESS
  end subroutine
  subroutine delete_win(object, keyval, value, extra_state, ierror)
    INTERFACE
    HANDLE(MPI_Win) :: object
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra_state
    call check(object /= MPI_WIN_NULL .and. keyval > 0 .and. value == 71 .and. extra_state == 72, 5)
    called = called + 1
    ierror = MPI_SUCCESS
  end subroutine
  subroutine copy_type(object, keyval, extra_state, value_in, value_out, flag, ierror)
    INTERFACE
    HANDLE(MPI_Datatype) :: object
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, value_in, value_out
    logical :: flag
    call check(object /= MPI_DATATYPE_NULL .and. keyval > 0, 6)
    value_out = value_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine
  subroutine delete_type(object, keyval, value, extra_state, ierror)
    INTERFACE
    HANDLE(MPI_Datatype) :: object
    integer :: keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra_state
    call check(object /= MPI_DATATYPE_NULL .and. keyval > 0 .and. value > 0 .and. extra_state == 72, 7)
    called = called + 1
    ierror = MPI_SUCCESS
  end subroutine

  ! The file has the numbers plus extra_state.
#ifdef F08
  subroutine convert(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    type(c_ptr), value :: userbuf, filebuf
    type(MPI_Datatype) :: datatype
    integer(kind=MPI_OFFSET_KIND) :: position
#else
  subroutine convert(userbuf, datatype, count, filebuf, position, extra_state, ierror)
    INTERFACE
    integer, target :: userbuf(*), filebuf(*)
    integer :: datatype
    integer(kind=MPI_OFFSET_KIND) :: position
#endif
    integer :: count, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer, pointer :: user(:), file(:)
    call check(datatype == MPI_INTEGER, 8)
#ifdef F08
    call c_f_pointer(userbuf, user, (/ count + int(position) /))
    call c_f_pointer(filebuf, file, (/ count /))
#else
    user => userbuf(:count + int(position))
    file => filebuf(:count)
#endif
    file = user(int(position) + 1:) + int(extra_state)
    converted = converted + count
    ierror = MPI_SUCCESS
  end subroutine
  subroutine extent_of(datatype, extent, extra_state, ierror)
    INTERFACE
    HANDLE(MPI_Datatype) :: datatype
    integer(kind=MPI_ADDRESS_KIND) :: extent, extra_state
    integer :: ierror
    call check(datatype == MPI_INTEGER .and. extra_state > 0, 9)
    extent = 4
    ierror = MPI_SUCCESS
  end subroutine
end module

program others
  use callbacks
  implicit none
  INTERFACE
  integer :: ierror
  call MPI_Init(ierror)
  call error_handlers()
  call attributes()
  call representations()
  call buffers()
  call strings()
#ifdef MODULE
  call statuses()
#endif
  call messages()
  call MPI_Finalize(ierror)
contains
  subroutine error_handlers()
    HANDLE(MPI_Errhandler) :: handler
    HANDLE(MPI_Win) :: window
    HANDLE(MPI_File) :: file
    HANDLE(MPI_Session) :: session
    integer(kind=MPI_ADDRESS_KIND) :: bytes
    integer :: memory(4)
    bytes = 16
    call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, MPI_COMM_SELF, window, ierror)
    call MPI_Win_create_errhandler(on_window, handler, ierror)
    call MPI_Win_set_errhandler(window, handler, ierror)
    call MPI_Errhandler_free(handler, ierror)
    call MPI_Win_call_errhandler(window, MPI_ERR_OTHER, ierror)
    call MPI_Win_free(window, ierror)
    call MPI_File_open(MPI_COMM_SELF, "others.bin", MPI_MODE_CREATE + MPI_MODE_WRONLY + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &
        file, ierror)
    call MPI_File_create_errhandler(on_file, handler, ierror)
    call MPI_File_set_errhandler(file, handler, ierror)
    call MPI_Errhandler_free(handler, ierror)
    call MPI_File_call_errhandler(file, MPI_ERR_OTHER, ierror)
    call MPI_File_close(file, ierror)
    call MPI_Session_create_errhandler(on_session, handler, ierror)
    call MPI_Session_init(MPI_INFO_NULL, handler, session, ierror)
    call MPI_Errhandler_free(handler, ierror)
    call MPI_Session_call_errhandler(session, MPI_ERR_OTHER, ierror)
    call MPI_Session_finalize(session, ierror)
    call check(called == 111, 20)
    called = 0
  end subroutine

  subroutine attributes()
    HANDLE(MPI_Win) :: window
    HANDLE(MPI_Datatype) :: type, copy
    integer :: key, memory(4)
    integer(kind=MPI_ADDRESS_KIND) :: bytes, state, value
    logical :: flag
    bytes = 16
    state = 72
    value = 71
    call MPI_Win_create(memory, bytes, 4, MPI_INFO_NULL, MPI_COMM_SELF, window, ierror)
    call MPI_Win_create_keyval(copy_win, delete_win, key, state, ierror)
    call MPI_Win_set_attr(window, key, value, ierror)
    call MPI_Win_get_attr(window, MPI_WIN_SIZE, value, flag, ierror)
    call check(flag .and. value == 16, 21)
    call MPI_Win_get_attr(window, key, value, flag, ierror)
    call check(flag .and. value == 71, 22)
    call MPI_Win_free_keyval(key, ierror)
    call MPI_Win_free(window, ierror)
    call check(called == 1, 23)
    call MPI_Type_contiguous(3, MPI_INTEGER, type, ierror)
    call MPI_Type_create_keyval(copy_type, delete_type, key, state, ierror)
    call MPI_Type_set_attr(type, key, value, ierror)
    call MPI_Type_dup(type, copy, ierror)
    call MPI_Type_get_attr(copy, key, value, flag, ierror)
    call check(flag .and. value == 143, 24)
    call MPI_Type_free_keyval(key, ierror)
    call MPI_Type_free(type, ierror)
    call MPI_Type_free(copy, ierror)
    call check(called == 3, 25)
#ifndef F08
    call MPI_Keyval_create(MPI_DUP_FN, MPI_NULL_DELETE_FN, key, memory(1), ierror)
    call MPI_Attr_put(MPI_COMM_WORLD, key, 12345, ierror)
    call MPI_Attr_get(MPI_COMM_WORLD, key, memory(1), flag, ierror)
    call check(flag .and. memory(1) == 12345, 26)
    call MPI_Attr_delete(MPI_COMM_WORLD, key, ierror)
    call MPI_Attr_get(MPI_COMM_WORLD, key, memory(1), flag, ierror)
    call MPI_Keyval_free(key, ierror)
    call check(.not. flag .and. key == MPI_KEYVAL_INVALID, 27)
#endif
  end subroutine

  subroutine representations()
    HANDLE(MPI_File) :: file
    STATUS :: status
    integer(kind=MPI_ADDRESS_KIND) :: state
    integer(kind=MPI_OFFSET_KIND) :: start
    integer :: numbers(5), raw(5)
    state = 1000
    start = 0
    call MPI_Register_datarep("plus 1000", MPI_CONVERSION_FN_NULL, convert, extent_of, state, ierror)
    call check(ierror == MPI_SUCCESS, 30)
    call MPI_File_open(MPI_COMM_SELF, "representation.bin", MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, &
        MPI_INFO_NULL, file, ierror)
    call MPI_File_set_view(file, start, MPI_INTEGER, MPI_INTEGER, "plus 1000", MPI_INFO_NULL, ierror)
    numbers = (/ 1, 2, 3, 4, 5 /)
    call MPI_File_write(file, numbers, 5, MPI_INTEGER, status, ierror)
    call MPI_File_set_view(file, start, MPI_INTEGER, MPI_INTEGER, "native", MPI_INFO_NULL, ierror)
    raw = 0
    call MPI_File_read(file, raw, 5, MPI_INTEGER, status, ierror)
    call MPI_File_close(file, ierror)
    call check(all(raw == numbers + 1000) .and. converted == 5, 31)
#ifdef F08
    call MPI_Register_datarep_c("no conversion", MPI_CONVERSION_FN_NULL_C, MPI_CONVERSION_FN_NULL_C, extent_of, state, ierror)
    call check(ierror == MPI_SUCCESS, 32)
#endif
  end subroutine

  subroutine buffers()
    HANDLE(MPI_Session) :: session
    HANDLE(MPI_Comm) :: comm
    integer, parameter :: bytes = 10000
    character, target :: memory(bytes)
    integer :: size
#ifdef F08
    type(c_ptr) :: address
#else
    integer(kind=MPI_ADDRESS_KIND) :: address
#endif
    call MPI_Buffer_attach(memory, bytes, ierror)
    call MPI_Buffer_detach(address, size, ierror)
    call check(size == bytes, 40)
    call MPI_Comm_dup(MPI_COMM_SELF, comm, ierror)
    call MPI_Comm_attach_buffer(comm, memory, bytes, ierror)
    size = 0
    call MPI_Comm_detach_buffer(comm, address, size, ierror)
    call check(size == bytes, 41)
    call MPI_Comm_free(comm, ierror)
    call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session, ierror)
    call MPI_Session_attach_buffer(session, memory, bytes, ierror)
    size = 0
    call MPI_Session_detach_buffer(session, address, size, ierror)
    call check(size == bytes, 42)
    call MPI_Session_finalize(session, ierror)
#ifdef F08
    call check(c_associated(address, c_loc(memory)), 43)
#endif
    call MPI_F_sync_reg(memory)
#ifdef MODULE
    call MPI_Sizeof(1.0d0, size, ierror)
    call check(size == 8, 44)
    call MPI_Sizeof(.true., size, ierror)
    call check(size == storage_size(.true.)/8 .and. ierror == MPI_SUCCESS, 45)
    call MPI_Sizeof((/ .true._1, .false._1 /), size, ierror)
    call check(size == 1, 46)
    call MPI_Sizeof(reshape((/ .true._8, .false._8 /), (/ 1, 2 /)), size, ierror)
    call check(size == 8, 47)
#endif
  end subroutine

  subroutine strings()
    HANDLE(MPI_Info) :: info
    HANDLE(MPI_Session) :: session
    character(len=20) :: value
    integer :: length, count, full
    logical :: flag
    call MPI_Info_create(info, ierror)
    call MPI_Info_set(info, "  key one  ", "  value of it  ", ierror)
    call MPI_Info_get(info, "key one", 15, value, flag, ierror)
    call check(flag .and. value == "value of it", 50)
    call MPI_Info_get_valuelen(info, "key one ", length, flag, ierror)
    call check(flag .and. length == 11, 51)
    length = 5
    call MPI_Info_get_string(info, "key one", length, value, flag, ierror)
    call check(flag .and. length == 11 .and. value == "value", 52)
    call MPI_Info_free(info, ierror)
    call MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, session, ierror)
    call MPI_Session_get_num_psets(session, MPI_INFO_NULL, count, ierror)
    full = 0
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, full, value, ierror)
    length = len(value)
    call MPI_Session_get_nth_pset(session, MPI_INFO_NULL, 0, length, value, ierror)
    call check(count > 1 .and. full == len_trim(value) .and. value == "mpi://WORLD", 53)
    call MPI_Session_finalize(session, ierror)
  end subroutine

  ! Errors name elements as Fortran does.
  subroutine messages()
    HANDLE(MPI_Datatype) :: type
    character(len=MPI_MAX_ERROR_STRING) :: text
    integer :: code, length
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN, ierror)
    call MPI_Type_indexed(3, (/ 1, -5, 1 /), (/ 0, 4, 8 /), MPI_INTEGER, type, code)
    call MPI_Error_string(code, text, length, ierror)
    call check(code /= MPI_SUCCESS .and. index(text, "MPI_Type_indexed: array_of_blocklengths(2) = -5") > 0, 70)
  end subroutine
#ifdef MODULE

  subroutine statuses()
    type(MPI_Status) :: status
    integer :: old(MPI_STATUS_SIZE), copy(MPI_STATUS_SIZE), i
    old = (/ (i, i = 1, MPI_STATUS_SIZE) /)
    call MPI_Status_f2f08(old, status, ierror)
    call check(status%MPI_SOURCE == old(MPI_SOURCE) .and. status%MPI_TAG == old(MPI_TAG), 60)
    call MPI_Status_f082f(status, copy, ierror)
    call check(all(copy == old), 61)
  end subroutine
#endif
end program
