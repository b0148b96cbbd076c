! SPDX-License-Identifier: BSD-3-Clause
! Module mpi_f08: handle types, statuses, callbacks, attributes, large counts, memory, names of the profiling interface.
module procedures
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer :: rank, size, calls = 0
contains
  include "check.inc"

  subroutine add_twice(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    call check(datatype == MPI_INTEGER, 1)
    call c_f_pointer(invec, a, (/ len /))
    call c_f_pointer(inoutvec, b, (/ len /))
    b = b + 2*a
  end subroutine
  subroutine add_twice_large(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer(kind=MPI_COUNT_KIND) :: len
    type(MPI_Datatype) :: datatype
    call add_twice(invec, inoutvec, int(len), datatype)
    calls = calls + 1
  end subroutine

  subroutine on_error(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code, class
    call MPI_Error_class(error_code, class)
    call check(comm /= MPI_COMM_WORLD .and. class == MPI_ERR_RANK, 2)
    calls = calls + 1
  end subroutine

  subroutine query(extra_state, status, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    type(MPI_Status) :: status
    integer :: ierror
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra_state))
    call MPI_Status_set_cancelled(status, .true.)
    status%MPI_SOURCE = 5
    status%MPI_TAG = 6
    ierror = MPI_SUCCESS
  end subroutine
  subroutine free_state(extra_state, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    integer :: ierror
    call check(extra_state == 4, 3)
    ierror = MPI_SUCCESS
  end subroutine
  subroutine cancel(extra_state, complete, ierror)
    integer(kind=MPI_ADDRESS_KIND) :: extra_state
    logical :: complete
    integer :: ierror
    call check(extra_state == 4 .and. .not. complete, 4)
    ierror = MPI_SUCCESS
  end subroutine

  subroutine copy_value(oldcomm, comm_keyval, extra_state, attribute_val_in, attribute_val_out, flag, ierror)
    type(MPI_Comm) :: oldcomm
    integer :: comm_keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra_state, attribute_val_in, attribute_val_out
    logical :: flag
    call check(oldcomm == MPI_COMM_WORLD .and. comm_keyval /= MPI_KEYVAL_INVALID, 5)
    attribute_val_out = attribute_val_in + extra_state
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine
  subroutine delete_value(comm, comm_keyval, attribute_val, extra_state, ierror)
    type(MPI_Comm) :: comm
    integer :: comm_keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: attribute_val, extra_state
    call check(attribute_val < 0 .and. extra_state == 7 .and. comm /= MPI_COMM_NULL .and. comm_keyval > 0, 6)
    calls = calls + 1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine types()
    type(MPI_Comm) :: comm, comms(3)
    type(MPI_Group) :: group
    type(MPI_Status) :: status, again
    integer :: f_status(MPI_STATUS_SIZE), result, code
    call check(MPI_COMM_WORLD == MPI_COMM_WORLD .and. MPI_COMM_WORLD /= MPI_COMM_SELF, 10)
    comms = MPI_COMM_SELF
    call check(all(comms == MPI_COMM_SELF), 11)
    comm%MPI_VAL = MPI_COMM_WORLD%MPI_VAL
    call MPI_Comm_compare(comm, MPI_COMM_WORLD, result)
    call check(result == MPI_IDENT, 12)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_group(comm, group)
    call MPI_Group_free(group)
    call MPI_Comm_free(comm, code)
    call check(code == MPI_SUCCESS .and. comm == MPI_COMM_NULL .and. group == MPI_GROUP_NULL, 13)
    call MPI_Recv(result, 1, MPI_INTEGER, MPI_PROC_NULL, 3, MPI_COMM_WORLD, status)
    call MPI_Status_f082f(status, f_status)
    call check(f_status(MPI_SOURCE) == MPI_PROC_NULL .and. f_status(MPI_TAG) == MPI_ANY_TAG, 14)
    f_status(MPI_TAG) = 77
    call MPI_Status_f2f08(f_status, again)
    call check(again%MPI_SOURCE == MPI_PROC_NULL .and. again%MPI_TAG == 77, 15)
  end subroutine

  subroutine callbacks()
    integer :: values(3), result(3), code, elements
    integer(kind=MPI_COUNT_KIND) :: three
    integer(kind=MPI_ADDRESS_KIND) :: state
    type(MPI_Op) :: op
    type(MPI_Comm) :: comm
    type(MPI_Errhandler) :: handler
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    logical :: flag
    values = (/ 1, 2, 3 /)
    result = -1
    three = 3
    call MPI_Op_create(add_twice, .false., op)
    call MPI_Reduce_local(values, result, 3, MPI_INTEGER, op)
    call check(all(result == (/ 1, 3, 5 /)), 20)
    call MPI_Op_free(op)
    call MPI_Op_create_c(add_twice_large, .true., op)
    call MPI_Reduce_local(values, result, three, MPI_INTEGER, op)
    call check(all(result == (/ 3, 7, 11 /)) .and. calls == 1 .and. op /= MPI_OP_NULL, 21)
    call MPI_Op_free(op)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_create_errhandler(on_error, handler)
    call MPI_Comm_set_errhandler(comm, handler)
    call MPI_Errhandler_free(handler)
    call MPI_Send(values, 3, MPI_INTEGER, size, 0, comm, code)
    call check(code /= MPI_SUCCESS .and. calls == 2, 22)
    call MPI_Comm_free(comm)
    state = 4
    call MPI_Grequest_start(query, free_state, cancel, state, request)
    call MPI_Cancel(request)
    call MPI_Grequest_complete(request)
    call MPI_Wait(request, status)
    call MPI_Get_elements(status, MPI_INTEGER, elements)
    call MPI_Test_cancelled(status, flag)
    call check(elements == 4 .and. flag .and. status%MPI_SOURCE == 5 .and. status%MPI_TAG == 6, 23)
  end subroutine

  subroutine attributes()
    integer :: key, world_key
    integer(kind=MPI_ADDRESS_KIND) :: state, value
    type(MPI_Comm) :: comm
    logical :: flag
    state = 7
    calls = 0
    call MPI_Comm_create_keyval(copy_value, delete_value, key, state)
    value = -100
    call MPI_Comm_set_attr(MPI_COMM_WORLD, key, value)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_get_attr(comm, key, value, flag)
    call check(flag .and. value == -93, 30)
    call MPI_Comm_free(comm)
    call check(calls == 1, 31)
    call MPI_Comm_delete_attr(MPI_COMM_WORLD, key)
    call MPI_Comm_free_keyval(key)
    call check(calls == 2 .and. key == MPI_KEYVAL_INVALID, 32)
    call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, world_key, state)
    call MPI_Comm_set_attr(MPI_COMM_WORLD, world_key, value)
    call MPI_Comm_dup(MPI_COMM_WORLD, comm)
    call MPI_Comm_get_attr(comm, world_key, state, flag)
    call check(flag .and. state == value, 33)
    call MPI_Comm_free(comm)
    call MPI_Comm_free_keyval(world_key)
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag)
    call check(flag .and. value >= 32767, 34)
  end subroutine

  subroutine memory()
    type(c_ptr) :: base, detached
    double precision, pointer :: values(:)
    integer(kind=MPI_ADDRESS_KIND) :: bytes
    integer(kind=MPI_COUNT_KIND) :: count, elements, detached_bytes
    integer :: unit, detached_size
    type(MPI_Win) :: window
    type(MPI_Status) :: status
    character, target :: buffer(10000)
    bytes = 8*100
    call MPI_Alloc_mem(bytes, MPI_INFO_NULL, base)
    call c_f_pointer(base, values, (/ 100 /))
    values = rank
    count = 100
    call MPI_Sendrecv_replace(values, count, MPI_DOUBLE_PRECISION, mod(rank + 1, size), 0, mod(rank + size - 1, size), 0, &
        MPI_COMM_WORLD, status)
    call check(all(nint(values) == mod(rank + size - 1, size)), 40)
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, elements)
    call check(elements == 100, 41)
    call MPI_Free_mem(values)
    call MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, base, window)
    call c_f_pointer(base, values, (/ 100 /))
    values = -1
    call MPI_Win_fence(0, window)
    bytes = 17
    call MPI_Put(dble(rank), 1, MPI_DOUBLE_PRECISION, mod(rank + 1, size), bytes, 1, MPI_DOUBLE_PRECISION, window)
    call MPI_Win_fence(0, window)
    call MPI_F_sync_reg(values)
    call check(nint(values(18)) == mod(rank + size - 1, size) .and. nint(values(17)) == -1, 42)
    call MPI_Win_free(window)
    bytes = 8
    call MPI_Win_allocate_shared(bytes, 8, MPI_INFO_NULL, MPI_COMM_SELF, base, window)
    bytes = 0
    call MPI_Win_shared_query(window, 0, bytes, unit, detached)
    call check(bytes == 8 .and. unit == 8 .and. c_associated(base, detached), 43)
    call MPI_Win_free(window)
    call MPI_Buffer_attach(buffer, 10000)
    call MPI_Buffer_detach(detached, detached_size)
    call check(c_associated(detached, c_loc(buffer)) .and. detached_size == 10000, 44)
    count = 10000
    call MPI_Buffer_attach(buffer, count)
    call MPI_Buffer_detach(detached, detached_bytes)
    call check(c_associated(detached, c_loc(buffer)) .and. detached_bytes == 10000, 45)
    call MPI_Sizeof(values, unit)
    call check(unit == 8, 46)
  end subroutine

  subroutine datatypes()
    type(MPI_Datatype) :: type, types(1), filled
    integer(kind=MPI_COUNT_KIND) :: count, bytes, lower, extent, sizes(4)
    integer(kind=MPI_ADDRESS_KIND) :: addresses(1), address
    integer(kind=MPI_COUNT_KIND) :: counts(2)
    integer :: integers(2), combiner, position
    character(len=20) :: values
    character(len=40) :: packed
    count = 3000000000_MPI_COUNT_KIND
    call MPI_Type_contiguous(count, MPI_INTEGER, type)
    call MPI_Type_size(type, bytes)
    call check(bytes == 12000000000_MPI_COUNT_KIND, 50)
    call MPI_Type_get_extent(type, lower, extent)
    call check(lower == 0 .and. extent == bytes, 51)
    call MPI_Type_get_envelope(type, sizes(1), sizes(2), sizes(3), sizes(4), combiner)
    call check(combiner == MPI_COMBINER_CONTIGUOUS .and. sizes(3) == 1 .and. sizes(4) == 1, 52)
    count = 1
    call MPI_Type_get_contents(type, 0_MPI_COUNT_KIND, 0_MPI_COUNT_KIND, count, count, integers, addresses, counts, types)
    call check(counts(1) == 3000000000_MPI_COUNT_KIND .and. types(1) == MPI_INTEGER, 53)
    call MPI_Type_free(type)
    call MPI_Type_create_f90_real(15, 300, filled)
    call MPI_Type_size(filled, position)
    call check(position == 8, 54)
    values = "external"
    address = 0
    call MPI_Pack_external("external32", rank, 1, MPI_INTEGER, packed, 40_MPI_ADDRESS_KIND, address)
    call check(address == 4, 55)
    call check(MPI_Aint_add(address, address) == 8 .and. MPI_Wtime() > 0 .and. PMPI_Wtick() > 0, 56)
  end subroutine

  subroutine nonblocking()
    integer :: value
    type(MPI_Request) :: request
    ! The compiler may not take the value for known after MPI_Wait.
    value = -1
    call MPI_Irecv(value, 1, MPI_INTEGER, mod(rank + size - 1, size), 1, MPI_COMM_WORLD, request)
    call MPI_Send(rank, 1, MPI_INTEGER, mod(rank + 1, size), 1, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(value == mod(rank + size - 1, size), 60)
  end subroutine
end module

! Both modules in one file.
subroutine with_module_mpi(comm)
  use mpi
  implicit none
  integer, intent(in) :: comm
  integer :: sum, processes, status(MPI_STATUS_SIZE), ierror
  sum = 1
  call MPI_Allreduce(MPI_IN_PLACE, sum, 1, MPI_INTEGER, MPI_SUM, comm, ierror)
  call MPI_Comm_size(comm, processes, ierror)
  call MPI_Recv(sum, 0, MPI_INTEGER, MPI_PROC_NULL, 1, comm, MPI_STATUS_IGNORE, ierror)
  call MPI_Recv(sum, 0, MPI_INTEGER, MPI_PROC_NULL, 1, comm, status, ierror)
  if (sum /= processes .or. status(MPI_SOURCE) /= MPI_PROC_NULL) error stop 2
end subroutine

program handles
  use procedures
  integer :: provided, code
  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided)
  call PMPI_Comm_rank(MPI_COMM_WORLD, rank)
  call PMPI_Comm_size(MPI_COMM_WORLD, size, code)
  call types()
  call callbacks()
  call attributes()
  call memory()
  call datatypes()
  call nonblocking()
  call with_module_mpi(MPI_COMM_WORLD%MPI_VAL)
  call MPI_Finalize()
end program
