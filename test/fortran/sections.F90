! SPDX-License-Identifier: BSD-3-Clause
! Module mpi_f08: array sections that are not contiguous in all kinds of calls; their gaps keep their values.
module checks
  use mpi_f08
  implicit none
  integer :: rank, size, next, previous
contains
  include "check.inc"

  subroutine point_to_point()
    integer :: cube(4,6,5), got(4,6,5), line(60), i
    type(MPI_Request) :: requests(2)
    type(MPI_Status) :: status
    integer :: count
    cube = reshape((/ (1000*rank + i, i = 1, 120) /), (/ 4, 6, 5 /))
    ! Rows of a matrix: one stride.
    got = -1
    call MPI_Sendrecv(cube(2,:,1), 6, MPI_INTEGER, next, 1, got(3,:,2), 6, MPI_INTEGER, previous, 1, MPI_COMM_WORLD, status)
    call check(all(got(3,:,2) - 1000*previous == cube(2,:,1) - 1000*rank), 1)
    call check(count_of(got /= -1) == 6, 2)
    call MPI_Get_count(status, MPI_INTEGER, count)
    call check(count == 6 .and. status%MPI_SOURCE == previous, 3)
    ! Three strides, one of them negative; fewer elements than the section has, so the last slices are partial.
    got = -1
    call MPI_Irecv(got(1:4:2,6:1:-1,1:5:2), 31, MPI_INTEGER, previous, 2, MPI_COMM_WORLD, requests(1))
    call MPI_Isend(cube(2:4,1:6:2,2:5), 31, MPI_INTEGER, next, 2, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    line(:31) = first_31(pack(got(1:4:2,6:1:-1,1:5:2), .true.)) - 1000*previous
    call check(all(line(:31) == first_31(pack(cube(2:4,1:6:2,2:5), .true.)) - 1000*rank), 4)
    call check(count_of(got /= -1) == 31, 5)
    ! The same section again comes from the cache; another count does not.
    do i = 1, 20
      call MPI_Sendrecv(cube(2,1:i/4,3), i/4, MPI_INTEGER, next, i, line(1:2*(i/4):2), i/4, MPI_INTEGER, previous, i, &
          MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      call check(all(line(1:2*(i/4):2) - 1000*previous == cube(2,1:i/4,3) - 1000*rank), 6)
    end do
    ! Bytes and other types than the elements: parts of elements, items of several elements.
    got = -1
    call MPI_Sendrecv(cube(1,:,1), 18, MPI_BYTE, next, 3, got(1,:,1), 24, MPI_BYTE, previous, 3, MPI_COMM_WORLD, status)
    call check(all(got(1,1:4,1) - 1000*previous == cube(1,1:4,1) - 1000*rank) .and. count_of(got /= -1) == 5, 7)
    call MPI_Sendrecv(cube(1,:,1), 3, MPI_2INTEGER, next, 4, line(2:12:2), 6, MPI_INTEGER, previous, 4, MPI_COMM_WORLD, status)
    call check(all(line(2:12:2) - 1000*previous == cube(1,:,1) - 1000*rank), 8)
    call MPI_Sendrecv_replace(cube(2:3,:,1:5:2), 36, MPI_INTEGER, next, 5, previous, 5, MPI_COMM_WORLD, status)
    call check(cube(3,6,5) == 1000*previous + 119 .and. cube(1,6,5) == 1000*rank + 117, 9)
  end subroutine

  pure integer function count_of(mask)
    logical, intent(in) :: mask(:,:,:)
    count_of = count(mask)
  end function
  pure function first_31(values)
    integer, intent(in) :: values(:)
    integer :: first_31(31)
    first_31 = values(:31)
  end function

  subroutine derived_types()
    integer :: source(20), target(40), i
    type(MPI_Datatype) :: vector, resized, two
    type(MPI_Request) :: requests(6)
    type(MPI_Status) :: status
    integer(kind=MPI_ADDRESS_KIND) :: lower, extent
    ! Elements 1, 3, 5 of every seven elements of the section.
    call MPI_Type_vector(3, 1, 2, MPI_INTEGER, vector)
    lower = 0
    extent = 28
    call MPI_Type_create_resized(vector, lower, extent, resized)
    call MPI_Type_commit(resized)
    call MPI_Type_vector(2, 1, 2, MPI_INTEGER, two)
    call MPI_Type_commit(two)
    source = (/ (1000*rank + i, i = 1, 20) /)
    target = -1
    call MPI_Sendrecv(source, 6, MPI_INTEGER, next, 1, target(1:40:2), 2, resized, previous, 1, MPI_COMM_WORLD, status)
    call check(all(target((/ 1, 5, 9, 15, 19, 23 /)) == (/ (1000*previous + i, i = 1, 6) /)), 20)
    call check(count(target /= -1) == 6, 21)
    call MPI_Sendrecv(target(1:40:2), 2, resized, next, 1, source, 6, MPI_INTEGER, previous, 1, MPI_COMM_WORLD, status)
    call check(all(source(1:6) == (/ (1000*modulo(rank - 2, size) + i, i = 1, 6) /)), 22)
    ! Datatypes of these sections are not kept: they are freed while the calls are pending.
    target = -1
    do i = 1, 3
      call MPI_Irecv(target(2*i:40:6), 1, resized, previous, i, MPI_COMM_WORLD, requests(2*i-1))
      call MPI_Isend(source(6+i:20:3), 1, two, next, i, MPI_COMM_WORLD, requests(2*i))
    end do
    call MPI_Type_free(two)
    call MPI_Type_free(resized)
    call MPI_Type_free(vector)
    call MPI_Waitall(6, requests, MPI_STATUSES_IGNORE)
    do i = 1, 3
      call check(target(2*i) == 1000*previous + 6 + i .and. target(2*i + 12) == 1000*previous + 12 + i, 23)
    end do
    call check(count(target /= -1) == 6, 24)
  end subroutine

  subroutine collectives()
    integer, allocatable :: all(:,:), counts(:), places(:), send(:,:)
    integer :: mine(3,4), i, sum(8)
    type(MPI_Request) :: request
    mine = reshape((/ (100*rank + i, i = 1, 12) /), (/ 3, 4 /))
    allocate(all(2,4*size), send(2,4*size), counts(size), places(size))
    all = -1
    call MPI_Allgather(mine(2,:), 4, MPI_INTEGER, all(2,:), 4, MPI_INTEGER, MPI_COMM_WORLD)
    call check(compare(all(2,:), 1) .and. maxval(all(1,:)) == -1, 30)
    all = -1
    call MPI_Iallgather(mine(3,:), 4, MPI_INTEGER, all(1,:), 4, MPI_INTEGER, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(compare(all(1,:), 2) .and. maxval(all(2,:)) == -1, 31)
    counts = 4
    places = (/ (4*(size - 1 - i), i = 0, size - 1) /)
    all = -1
    call MPI_Gatherv(mine(1,:), 4, MPI_INTEGER, all(2,:), counts, places, MPI_INTEGER, 0, MPI_COMM_WORLD)
    if (rank == 0) call check(all(2,1) == 100*(size - 1) + 1 .and. all(2,4*size) == 10 .and. maxval(all(1,:)) == -1, 32)
    all = -1
    call MPI_Igatherv(mine(1,:), 4, MPI_INTEGER, all(2,:), counts, places, MPI_INTEGER, 0, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (rank == 0) call check(all(2,1) == 100*(size - 1) + 1 .and. all(2,4*size) == 10 .and. maxval(all(1,:)) == -1, 33)
    send(1,:) = (/ (i, i = 1, 4*size) /)
    mine = -1
    call MPI_Scatter(send(1,:), 4, MPI_INTEGER, mine(2,:), 4, MPI_INTEGER, 0, MPI_COMM_WORLD)
    call check(mine(2,1) == 4*rank + 1 .and. mine(2,4) == 4*rank + 4 .and. mine(1,1) == -1, 34)
    all = -1
    call MPI_Ialltoall(send(1,:), 4, MPI_INTEGER, all(1,:), 4, MPI_INTEGER, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    do i = 0, size - 1
      call check(all(1,4*i+1) == 4*rank + 1 .and. all(1,4*i+4) == 4*rank + 4, 35)
    end do
    mine(1,:) = rank + (/ 1, 2, 3, 4 /)
    sum = -1
    call MPI_Allreduce(mine(1,:), sum(1:7:2), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call check(sum(1) == size*(size + 1)/2 .and. sum(7) == size*(size - 1)/2 + 4*size .and. sum(2) == -1, 36)
    call MPI_Allreduce(MPI_IN_PLACE, sum(1:7:2), 4, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
    call check(sum(1) == size*(size + 1)/2 .and. sum(2) == -1, 37)
    mine(2,:) = rank
    call MPI_Bcast(mine(2,:), 4, MPI_INTEGER, size - 1, MPI_COMM_WORLD)
    call check(mine(2,4) == size - 1 .and. mine(1,4) == rank + 4, 38)
    call MPI_Ibcast(mine(1:3:2,2:4:2), 4, MPI_INTEGER, 0, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call check(mine(1,2) == 2 .and. mine(1,4) == 4 .and. mine(2,2) == size - 1, 39)
  contains
    logical function compare(values, row)
      integer, intent(in) :: values(:), row
      integer :: process, column
      compare = .true.
      do process = 0, size - 1
        do column = 1, 4
          compare = compare .and. values(4*process + column) == 100*process + 3*(column - 1) + row + 1
        end do
      end do
    end function
  end subroutine

  subroutine packing()
    integer :: values(10), back(10), position
    character :: buffer(2,40)
    values = (/ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 /)
    position = 0
    call MPI_Pack(values(1:10:2), 5, MPI_INTEGER, buffer(2,:), 40, position, MPI_COMM_WORLD)
    call check(position == 20, 40)
    position = 0
    back = 0
    call MPI_Unpack(buffer(2,:), 40, position, back(10:2:-2), 5, MPI_INTEGER, MPI_COMM_WORLD)
    call check(all(back == (/ 0, 9, 0, 7, 0, 5, 0, 3, 0, 1 /)), 41)
    call MPI_Reduce_local(values(1:5:2), back(2:6:2), 3, MPI_INTEGER, MPI_SUM)
    call check(all(back == (/ 0, 10, 0, 10, 0, 10, 0, 3, 0, 1 /)), 42)
  end subroutine

  subroutine windows_and_files()
    integer :: memory(20), values(5,4), i
    type(MPI_Win) :: window
    type(MPI_File) :: file
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    integer(kind=MPI_ADDRESS_KIND) :: place
    integer(kind=MPI_OFFSET_KIND) :: offset
    memory = 0
    values = reshape((/ (100*rank + i, i = 1, 20) /), (/ 5, 4 /))
    place = 80
    call MPI_Win_create(memory, place, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window)
    call MPI_Win_fence(0, window)
    place = 3
    call MPI_Put(values(2,:), 4, MPI_INTEGER, next, place, 4, MPI_INTEGER, window)
    call MPI_Win_fence(0, window)
    call check(all(memory(4:7) == 100*previous + (/ 2, 7, 12, 17 /)), 50)
    call MPI_Get(values(5:1:-2,3), 3, MPI_INTEGER, next, place, 3, MPI_INTEGER, window)
    call MPI_Win_fence(0, window)
    call check(all(values(5:1:-2,3) == 100*rank + (/ 2, 7, 12 /)) .and. values(2,3) == 100*rank + 12, 51)
    ! One element of the section holds the item.
    call MPI_Fetch_and_op(values(2,:), values(4,2:1:-1), MPI_INTEGER, next, place, MPI_SUM, window)
    call MPI_Win_fence(0, window)
    call check(values(4,2) == 100*rank + 2 .and. values(4,1) == 100*rank + 4 .and. memory(4) == 2*(100*previous + 2), 54)
    call MPI_Win_free(window)

    values = reshape((/ (100*rank + i, i = 1, 20) /), (/ 5, 4 /))
    call MPI_File_open(MPI_COMM_WORLD, "sections.bin", MPI_MODE_CREATE + MPI_MODE_RDWR + MPI_MODE_DELETE_ON_CLOSE, &
        MPI_INFO_NULL, file)
    offset = 16*rank
    call MPI_File_write_at_all(file, offset, values(3,:), 4, MPI_INTEGER, status)
    values = -1
    call MPI_File_iread_at(file, offset, values(1:2,1:4:3), 4, MPI_INTEGER, request)
    call MPI_Wait(request, status)
    call check(all(values(1:2,1) == 100*rank + (/ 3, 8 /)) .and. all(values(1:2,4) == 100*rank + (/ 13, 18 /)), 52)
    call check(count(values /= -1) == 4, 53)
    call MPI_File_close(file)
  end subroutine

  subroutine persistent()
    integer :: values(12), got(24), round
    type(MPI_Request) :: requests(2)
    call MPI_Send_init(values(1:12:3), 4, MPI_INTEGER, next, 1, MPI_COMM_WORLD, requests(1))
    call MPI_Recv_init(got(24:2:-6), 4, MPI_INTEGER, previous, 1, MPI_COMM_WORLD, requests(2))
    do round = 1, 3
      values = 1000*rank + round
      got = -1
      call MPI_Startall(2, requests)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
      call check(all(got(6:24:6) == 1000*previous + round) .and. count(got /= -1) == 4, 60)
    end do
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
    call check(requests(1) == MPI_REQUEST_NULL, 61)
  end subroutine

  subroutine errors()
    integer :: values(10), code, class, length
    integer(kind=MPI_ADDRESS_KIND) :: bytes
    character(len=MPI_MAX_ERROR_STRING) :: text
    type(MPI_Win) :: window
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
    values = 1
    call MPI_Send(values(1:10:2), 6, MPI_INTEGER, next, 1, MPI_COMM_WORLD, code)
    call MPI_Error_class(code, class)
    call MPI_Error_string(code, text, length)
    call check(class == MPI_ERR_BUFFER .and. index(text, "fewer elements") > 0, 70)
    bytes = 20
    call MPI_Win_create(values(1:10:2), bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, code)
    call MPI_Error_class(code, class)
    call check(class == MPI_ERR_BUFFER, 71)
    ! Empty sections and calls without data are no errors.
    call MPI_Sendrecv(values(5:4:2), 0, MPI_INTEGER, next, 1, values(1:10:2), 0, MPI_INTEGER, previous, 1, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE, code)
    call check(code == MPI_SUCCESS, 72)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
  end subroutine
end module

program sections
  use checks
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  next = mod(rank + 1, size)
  previous = mod(rank + size - 1, size)
  call check(MPI_SUBARRAYS_SUPPORTED .and. MPI_ASYNC_PROTECTS_NONBLOCKING, 0)
  call point_to_point()
  call derived_types()
  call collectives()
  call packing()
  call windows_and_files()
  call persistent()
  call errors()
  call MPI_Finalize()
end program
