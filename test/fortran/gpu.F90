! SPDX-License-Identifier: BSD-3-Clause
! Module mpi_f08: arrays and array sections in GPU memory. Sections are described by datatypes, which kernels pack, or
! by copies in host memory; their gaps keep their values.
module checks
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  integer, parameter :: n = 64
  integer :: rank, size, next, previous
  integer, pointer, contiguous :: source(:,:), target(:,:)  ! in GPU memory
  integer :: out(n,n), in(n,n), theirs(n,n), wanted(n,n)   ! their contents, and those of the previous rank
  integer(C_LONG) :: packs
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
    integer(C_LONG) function gpu_packs() bind(C)
      import
    end function
  end interface
contains
  include "check.inc"

  integer function number(process, i, k)
    integer, intent(in) :: process, i, k
    number = 100000*process + 100*i + k
  end function

  subroutine begin()
    integer :: i, k
    do k = 1, n
      do i = 1, n
        out(i,k) = number(rank, i, k)
        theirs(i,k) = number(previous, i, k)
      end do
    end do
    in = -1
    wanted = -1
    call upload(source, out)
    call upload(target, in)
    packs = gpu_packs()
  end subroutine
  subroutine upload(device, host)
    integer, pointer, contiguous, intent(in) :: device(:,:)
    integer, target, intent(in) :: host(n,n)
    call gpu_write(c_loc(device), c_loc(host), 4_C_SIZE_T*n*n)
  end subroutine
  ! Compares all of `target` with `wanted`.
  subroutine finish(place, by_kernels)
    integer, intent(in) :: place
    logical, intent(in) :: by_kernels
    integer, target :: got(n,n)
    call gpu_read(c_loc(got), c_loc(target), 4_C_SIZE_T*n*n)
    call check(all(got == wanted), place)
    if (by_kernels) call check(gpu_packs() > packs, place + 1)
    call MPI_Barrier(MPI_COMM_WORLD)
  end subroutine

  subroutine messages()
    type(MPI_Request) :: requests(2)
    call begin()
    call MPI_Irecv(target(:,5:20), 16*n, MPI_INTEGER, previous, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(source(:,11:26), 16*n, MPI_INTEGER, next, 1, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    wanted(:,5:20) = theirs(:,11:26)
    call finish(10, .false.)
    call begin()
    call MPI_Irecv(target(7,:), n, MPI_INTEGER, previous, 2, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(source(3,:), n, MPI_INTEGER, next, 2, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    wanted(7,:) = theirs(3,:)
    call finish(20, .true.)
    call begin()
    call MPI_Irecv(target(1:n:3,n:1:-2), 22*32, MPI_INTEGER, previous, 3, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(source(n:1:-3,1:n:2), 22*32, MPI_INTEGER, next, 3, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    wanted(1:n:3,n:1:-2) = theirs(n:1:-3,1:n:2)
    call finish(30, .true.)
  end subroutine

  ! Partitions that end inside columns.
  subroutine partitions()
    type(MPI_Request) :: requests(2)
    integer(kind=MPI_COUNT_KIND) :: few = 64, many = 176
    integer :: i
    call MPI_Precv_init(target(1:n:3,n:1:-2), 4, many, MPI_INTEGER, previous, 4, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPI_Psend_init(source(n:1:-3,1:n:2), 11, few, MPI_INTEGER, next, 4, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    call begin()
    call MPI_Startall(2, requests)
    do i = 10, 0, -1
      call MPI_Pready(i, requests(2))
    end do
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    wanted(1:n:3,n:1:-2) = theirs(n:1:-3,1:n:2)
    call finish(40, .false.)
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine

  subroutine collectives()
    type(MPI_Request) :: request
    integer :: process, i
    call begin()  ! a datatype for each block
    call MPI_Allgather(source(2,1:8), 8, MPI_INTEGER, target(5,1:8*size), 8, MPI_INTEGER, MPI_COMM_WORLD)
    do process = 0, size - 1
      wanted(5,8*process+1:8*process+8) = (/ (number(process, 2, i), i = 1, 8) /)
    end do
    call finish(50, .false.)
    call begin()  ! copies in host memory
    call MPI_Allreduce(source(3,:), target(1:n:2,2), n/2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call MPI_Iallreduce(source(1:n:2,1:n:4), target(1:n:2,3:n:4), n*n/8, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    wanted(1:n:2,2) = (/ (100000*(size*(size - 1)/2) + size*(300 + i), i = 1, n/2) /)
    do i = 0, n/4 - 1
      wanted(1:n:2,4*i+3) = out(1:n:2,4*i+1) + 100000*(size - 1 - rank)
    end do
    call finish(60, .false.)
  end subroutine
end module

program gpu
  use checks
  call gpu_open()
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  next = mod(rank + 1, size)
  previous = mod(rank + size - 1, size)
  call c_f_pointer(gpu_memory(4_C_SIZE_T*n*n), source, [n, n])
  call c_f_pointer(gpu_memory(4_C_SIZE_T*n*n), target, [n, n])
  call messages()
  call partitions()
  call collectives()
  call MPI_Finalize()
end program
