! SPDX-License-Identifier: BSD-3-Clause
! Module mpi_f08: array sections with several strides in partitioned communication, each in a ring.
module checks
  use mpi_f08
  implicit none
  integer :: rank, size, next, previous
  integer :: source(5,4,3), target(5,4,3)
  integer :: number
  integer, parameter :: numbers(5,4,3) = reshape((/ (number, number = 1, 60) /), (/ 5, 4, 3 /))
contains
  include "check.inc"

  subroutine fill(round)
    integer, intent(in) :: round
    source = 10000*round + 100*rank + numbers
    target = -1
  end subroutine
  ! What the previous rank sent.
  function sent(round)
    integer, intent(in) :: round
    integer :: sent(5,4,3)
    sent = 10000*round + 100*previous + numbers
  end function

  ! Marks the partitions ready, the last one first, and waits.
  subroutine exchange(requests, partitions)
    type(MPI_Request), intent(inout) :: requests(2)
    integer, intent(in) :: partitions
    integer :: i
    call MPI_Startall(2, requests)
    do i = partitions - 1, 0, -1
      call MPI_Pready(i, requests(2))
    end do
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  end subroutine
  subroutine release(requests)
    type(MPI_Request), intent(inout) :: requests(2)
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
  end subroutine

  ! 24 elements with three strides, sent in `parts` and received in `others` partitions of whole columns, of parts of
  ! columns, or of columns and parts.
  subroutine three_strides(parts, others)
    integer, intent(in) :: parts, others
    type(MPI_Request) :: requests(2)
    integer(kind=MPI_COUNT_KIND) :: each, theirs
    integer :: round, wanted(5,4,3)
    each = 12/parts
    theirs = 12/others
    call MPI_Precv_init(target(1:5:2,4:1:-2,1:3:2), others, theirs, MPI_INTEGER, previous, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &
        requests(1))
    call MPI_Psend_init(source(5:1:-2,1:3:2,3:1:-2), parts, each, MPI_INTEGER, next, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &
        requests(2))
    do round = 1, 2
      call fill(round)
      call exchange(requests, parts)
      wanted = sent(round)
      call check(all(target(1:5:2,4:1:-2,1:3:2) == wanted(5:1:-2,1:3:2,3:1:-2)) .and. count(target /= -1) == 12, 10*parts + others)
    end do
    call release(requests)
  end subroutine

  ! Fewer elements than the section has; the others keep their values. Partitions arrive one by one.
  subroutine arrival()
    type(MPI_Request) :: requests(2)
    integer(kind=MPI_COUNT_KIND) :: two = 2
    integer :: wanted(5,4,3)
    logical :: flag
    call fill(7)
    wanted = sent(7)
    call MPI_Precv_init(target(2:4:2,:,1), 3, two, MPI_INTEGER, previous, 2, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPI_Psend_init(source(2:4:2,:,2), 3, two, MPI_INTEGER, next, 2, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    call MPI_Startall(2, requests)
    call MPI_Pready(1, requests(2))
    flag = .false.
    do while (.not. flag)
      call MPI_Parrived(requests(1), 1, flag)
    end do
    call check(all(target(2:4:2,2,1) == wanted(2:4:2,2,2)), 200)
    call MPI_Parrived(requests(1), 0, flag)
    if (size == 1) call check(.not. flag .and. count(target /= -1) == 2, 201)
    call MPI_Pready_list(2, (/ 2, 0 /), requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    call check(all(target(2:4:2,1:3,1) == wanted(2:4:2,1:3,2)) .and. count(target /= -1) == 6, 202)
    call release(requests)
  end subroutine

  ! One side is contiguous, or has one stride; partitions of bytes that end inside elements and columns.
  subroutine bytes()
    type(MPI_Request) :: requests(2)
    integer(kind=MPI_COUNT_KIND) :: each, theirs
    integer :: flat(12), wanted(5,4,3)
    call fill(8)
    wanted = sent(8)
    each = 6
    theirs = 16
    flat = -1
    call MPI_Precv_init(flat, 3, theirs, MPI_BYTE, previous, 3, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPI_Psend_init(source(1:5:2,:,1), 8, each, MPI_BYTE, next, 3, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    call exchange(requests, 8)
    call check(all(flat == pack(wanted(1:5:2,:,1), .true.)), 300)
    call release(requests)
    call MPI_Precv_init(target(1:5:4,:,2), 8, each - 2, MPI_BYTE, previous, 3, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPI_Psend_init(source(2,:,1:2), 2, theirs, MPI_BYTE, next, 3, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    call exchange(requests, 2)
    call check(all(pack(target(1:5:4,:,2), .true.) == pack(wanted(2,:,1:2), .true.)) .and. count(target /= -1) == 8, 301)
    call release(requests)
  end subroutine

  ! Items of two elements, and a type with gaps, freed before the transfer.
  subroutine derived()
    type(MPI_Request) :: requests(2)
    integer(kind=MPI_COUNT_KIND) :: one = 1, three = 3
    type(MPI_Datatype) :: gaps
    integer :: wanted(5,4,3)
    call fill(9)
    wanted = sent(9)
    call MPI_Precv_init(target(1:4,1:4:3,3), 2, one + one, MPI_2INTEGER, previous, 4, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPI_Psend_init(source(1:4:3,:,2), 4, one, MPI_2INTEGER, next, 4, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    call exchange(requests, 4)
    call check(all(pack(target(1:4,1:4:3,3), .true.) == pack(wanted(1:4:3,:,2), .true.)) .and. count(target /= -1) == 8, 400)
    call release(requests)
    call fill(9)
    call MPI_Type_vector(2, 1, 2, MPI_INTEGER, gaps)  ! elements 1 and 3 of each three elements of the section
    call MPI_Type_commit(gaps)
    call MPI_Precv_init(target(1:5:2,:,3), 4, one, gaps, previous, 4, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPI_Psend_init(source(1:2,1:4:2,2), 1, three + one, MPI_INTEGER, next, 4, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    call MPI_Type_free(gaps)
    call exchange(requests, 1)
    call check(target(1,1,3) == wanted(1,1,2) .and. target(5,1,3) == wanted(2,1,2) .and. target(1,2,3) == wanted(1,3,2) .and. &
        target(5,2,3) == wanted(2,3,2) .and. count(target /= -1) == 4, 401)
    call release(requests)
  end subroutine

  subroutine errors()
    type(MPI_Request) :: requests(2)
    integer(kind=MPI_COUNT_KIND) :: none = 0, seven = 7
    character(len=MPI_MAX_ERROR_STRING) :: text
    integer :: code, class, length
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
    call MPI_Psend_init(source(1:5:2,1:4:3,1), 1, seven, MPI_INTEGER, next, 5, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1), code)
    call MPI_Error_class(code, class)
    call MPI_Error_string(code, text, length)
    call check(class == MPI_ERR_BUFFER .and. index(text, "fewer elements") > 0, 500)
    call MPI_Psend_init(source(1:5:2,1:4:3,1), -1, seven, MPI_INTEGER, next, 5, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1), code)
    call MPI_Error_class(code, class)
    call check(class == MPI_ERR_ARG, 501)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
    ! No data, and no process.
    call fill(1)
    call MPI_Precv_init(target(1:5:2,1:4:3,1), 2, none, MPI_INTEGER, previous, 5, MPI_COMM_WORLD, MPI_INFO_NULL, requests(1))
    call MPI_Psend_init(source(1:5:2,1:4:3,1), 2, none, MPI_INTEGER, next, 5, MPI_COMM_WORLD, MPI_INFO_NULL, requests(2))
    call exchange(requests, 2)
    call release(requests)
    call MPI_Precv_init(target(1:5:2,1:4:3,1), 2, seven - 4, MPI_INTEGER, MPI_PROC_NULL, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &
        requests(1))
    call MPI_Psend_init(source(1:5:2,1:4:3,1), 2, seven - 4, MPI_INTEGER, MPI_PROC_NULL, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &
        requests(2))
    call exchange(requests, 2)
    call release(requests)
    call check(all(target == -1), 502)
  end subroutine
end module

program partitions
  use checks
  integer :: i, k
  integer, parameter :: divisors(6) = (/ 1, 2, 3, 4, 6, 12 /)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  next = mod(rank + 1, size)
  previous = mod(rank + size - 1, size)
  do i = 1, 6
    do k = 1, 6
      call three_strides(divisors(i), divisors(k))
    end do
  end do
  call arrival()
  call bytes()
  call derived()
  call errors()
  call MPI_Finalize()
end program
