! SPDX-License-Identifier: BSD-3-Clause
! Module mpi_f08: calls in the order of a GPU stream, by the interfaces of docs/fortran.md. Copies in the stream come
! before and after the calls, and nothing waits between them.
module weft
  use, intrinsic :: iso_c_binding
  implicit none
  type(C_PTR), parameter :: MPIX_STREAM_NULL = C_NULL_PTR
  interface
    type(C_PTR) function MPI_Comm_fromint(comm) bind(C, name="MPI_Comm_fromint")
      import
      integer(C_INT), value :: comm
    end function
    type(C_PTR) function MPI_Info_fromint(info) bind(C, name="MPI_Info_fromint")
      import
      integer(C_INT), value :: info
    end function
    integer(C_INT) function MPIX_Info_set_hex(info, key, value, size) bind(C, name="MPIX_Info_set_hex")
      import
      type(C_PTR), value :: info
      character(kind=C_CHAR), intent(in) :: key(*)
      type(C_PTR), intent(in) :: value
      integer(C_INT), value :: size
    end function
    integer(C_INT) function MPIX_Stream_create(info, stream) bind(C, name="MPIX_Stream_create")
      import
      type(C_PTR), value :: info
      type(C_PTR), intent(out) :: stream
    end function
    integer(C_INT) function MPIX_Stream_free(stream) bind(C, name="MPIX_Stream_free")
      import
      type(C_PTR), intent(inout) :: stream
    end function
    integer(C_INT) function MPIX_Comm_set_stream(comm, stream) bind(C, name="MPIX_Comm_set_stream")
      import
      type(C_PTR), value :: comm, stream
    end function
  end interface
end module

program streams
  use mpi_f08
  use weft
  implicit none
  integer, parameter :: n = 64
  interface
    subroutine gpu_open() bind(C)
    end subroutine
    type(C_PTR) function gpu_memory(bytes) bind(C)
      import
      integer(C_SIZE_T), value :: bytes
    end function
    subroutine gpu_write(address, data, bytes) bind(C)
      import
      type(C_PTR), value :: address, data
      integer(C_SIZE_T), value :: bytes
    end subroutine
    subroutine gpu_read(data, address, bytes) bind(C)
      import
      type(C_PTR), value :: address, data
      integer(C_SIZE_T), value :: bytes
    end subroutine
    type(C_PTR) function gpu_stream() bind(C)
      import
    end function
    subroutine gpu_copy(to, from, bytes, stream) bind(C)
      import
      type(C_PTR), value :: to, from, stream
      integer(C_SIZE_T), value :: bytes
    end subroutine
    subroutine gpu_wait(stream) bind(C)
      import
      type(C_PTR), value :: stream
    end subroutine
  end interface
  integer(C_SIZE_T), parameter :: bytes = 4_C_SIZE_T*n*n
  integer :: rank, size, next, previous, step
  integer, target :: values(n,n), got(n,n)
  integer, pointer, contiguous :: out(:,:), in(:,:)
  type(C_PTR) :: initial, sent, received, result, stream, mpi_stream
  type(MPI_Comm) :: comm
  type(MPI_Info) :: info

  call gpu_open()
  call MPI_Init()
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_rank(comm, rank)
  call MPI_Comm_size(comm, size)
  next = mod(rank + 1, size)
  previous = mod(rank + size - 1, size)
  initial = gpu_memory(bytes)
  sent = gpu_memory(bytes)
  received = gpu_memory(bytes)
  result = gpu_memory(bytes)
  call c_f_pointer(sent, out, [n, n])
  call c_f_pointer(received, in, [n, n])

  stream = gpu_stream()
  call MPI_Info_create(info)
  call MPI_Info_set(info, "type", "cudaStream_t")
  call MPI_Info_set(info, "weft_stream_order", "true")
  call check(MPIX_Info_set_hex(MPI_Info_fromint(info%MPI_VAL), "value"//C_NULL_CHAR, stream, &
                               int(c_sizeof(stream), C_INT)) == 0, 1)
  call check(MPIX_Stream_create(MPI_Info_fromint(info%MPI_VAL), mpi_stream) == 0, 2)
  call MPI_Info_free(info)
  call check(MPIX_Comm_set_stream(MPI_Comm_fromint(comm%MPI_VAL), mpi_stream) == 0, 3)

  do step = 1, 3
    values = 100*step + rank
    call gpu_write(initial, c_loc(values), bytes)
    values = -1
    call gpu_write(received, c_loc(values), bytes)
    call gpu_copy(sent, initial, bytes, stream)
    call MPI_Sendrecv(out, n*n, MPI_INTEGER, next, 1, in, n*n, MPI_INTEGER, previous, 1, comm, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(out(1:n:2,3), n/2, MPI_INTEGER, previous, 2, in(2,1:n:2), n/2, MPI_INTEGER, next, 2, comm, &
                      MPI_STATUS_IGNORE)  ! sections
    call gpu_copy(result, received, bytes, stream)
    call gpu_wait(stream)
    call gpu_read(c_loc(got), result, bytes)
    values = 100*step + previous
    values(2,1:n:2) = 100*step + next
    call check(all(got == values), 10 + step)
  end do

  call check(MPIX_Comm_set_stream(MPI_Comm_fromint(comm%MPI_VAL), MPIX_STREAM_NULL) == 0, 4)
  call MPI_Barrier(comm)
  call check(MPIX_Stream_free(mpi_stream) == 0, 5)
  call MPI_Comm_free(comm)
  call MPI_Finalize()
contains
  include "check.inc"
end program
