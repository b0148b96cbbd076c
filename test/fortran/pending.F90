! SPDX-License-Identifier: BSD-3-Clause
! Module mpi_f08: array sections with two strides in all nonblocking and persistent collectives.
module checks
  use mpi_f08
  implicit none
  integer :: rank, size
  integer :: source(5,4), target(5,4)               ! sections of four elements, columns in reverse order
  integer, allocatable :: blocks(:,:), results(:,:) ! sections of two elements for each rank
  integer, allocatable :: twos(:), places(:), bytes(:)
  integer(kind=MPI_ADDRESS_KIND), allocatable :: byte_places(:)
  type(MPI_Datatype), allocatable :: types(:)
  type(MPI_Comm) :: ring
contains
  include "check.inc"

  subroutine prepare(round)
    integer, intent(in) :: round
    integer :: i
    source = -1
    source(1:5:3,4:1:-3) = reshape((/ (100*round + 10*rank + i, i = 1, 4) /), (/ 2, 2 /))
    target = -1
    do i = 0, size - 1
      blocks(:,i) = -1
      blocks(1:4:3,i) = 100*round + 10*rank + i + (/ 1000, 2000 /)
    end do
    results = -1
  end subroutine

  integer function sum_of(round, first, last)
    integer, intent(in) :: round, first, last
    integer :: process
    sum_of = 0
    do process = first, last
      sum_of = sum_of + 100*round + 10*process
    end do
  end function

  ! The section has `base` + `ranks` * (1 to 4); other elements are as they were.
  logical function reduced(base, ranks)
    integer, intent(in) :: base, ranks
    integer :: i
    reduced = all(target(1:5:3,4:1:-3) == base + ranks*reshape((/ (i, i = 1, 4) /), (/ 2, 2 /))) .and. count(target /= -1) == 4
  end function
  logical function untouched()
    untouched = all(target == -1)
  end function
  ! Two results for each rank, `step` apart from one rank to the next.
  logical function gathered(values, step)
    integer, intent(in) :: values(2), step
    integer :: i
    gathered = count(results /= -1) == 2*size
    do i = 0, size - 1
      gathered = gathered .and. all(results(2:5:3,i) == values + step*i)
    end do
  end function

  subroutine check_reduction(round, number)
    integer, intent(in) :: round, number
    integer :: mine(2)
    select case (number)
    case (1)
      if (rank == size - 1) call check(reduced(sum_of(round, 0, size - 1), size), 1)
      if (rank /= size - 1) call check(untouched(), 1)
    case (2)
      call check(reduced(sum_of(round, 0, size - 1), size), 2)
    case (3)
      call check(reduced(sum_of(round, 0, rank), rank + 1), 3)
    case (4)
      if (rank > 0) call check(reduced(sum_of(round, 0, rank - 1), rank), 4)
      if (rank == 0) call check(untouched(), 4)
    case (5, 6)
      mine = sum_of(round, 0, size - 1) + size*(rank + (/ 1000, 2000 /))
      call check(all(target(1:5:4,2) == mine) .and. count(target /= -1) == 2, number)
    end select
  end subroutine

  subroutine start_reduction(number, request)
    integer, intent(in) :: number
    type(MPI_Request), intent(out) :: request
    select case (number)
    case (1)
      call MPI_Ireduce(source(1:5:3,4:1:-3), target(1:5:3,4:1:-3), 4, MPI_INTEGER, MPI_SUM, size - 1, MPI_COMM_WORLD, request)
    case (2)
      call MPI_Iallreduce(source(1:5:3,4:1:-3), target(1:5:3,4:1:-3), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
    case (3)
      call MPI_Iscan(source(1:5:3,4:1:-3), target(1:5:3,4:1:-3), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
    case (4)
      call MPI_Iexscan(source(1:5:3,4:1:-3), target(1:5:3,4:1:-3), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
    case (5)
      call MPI_Ireduce_scatter(blocks(1:4:3,:), target(1:5:4,2), twos, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
    case (6)
      call MPI_Ireduce_scatter_block(blocks(1:4:3,:), target(1:5:4,2), 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
    end select
  end subroutine

  subroutine init_reduction(number, request)
    integer, intent(in) :: number
    type(MPI_Request), intent(out) :: request
    select case (number)
    case (1)
      call MPI_Reduce_init(source(1:5:3,4:1:-3), target(1:5:3,4:1:-3), 4, MPI_INTEGER, MPI_SUM, size - 1, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (2)
      call MPI_Allreduce_init(source(1:5:3,4:1:-3), target(1:5:3,4:1:-3), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (3)
      call MPI_Scan_init(source(1:5:3,4:1:-3), target(1:5:3,4:1:-3), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (4)
      call MPI_Exscan_init(source(1:5:3,4:1:-3), target(1:5:3,4:1:-3), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (5)
      call MPI_Reduce_scatter_init(blocks(1:4:3,:), target(1:5:4,2), twos, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (6)
      call MPI_Reduce_scatter_block_init(blocks(1:4:3,:), target(1:5:4,2), 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    end select
  end subroutine

  subroutine check_movement(round, number)
    integer, intent(in) :: round, number
    integer :: base
    base = 100*round
    select case (number)
    case (11, 12)  ! gather at rank 0
      if (rank == 0) call check(gathered(base + (/ 1, 2 /), 10), number)
      if (rank /= 0) call check(all(results == -1), number)
    case (13, 14)
      call check(gathered(base + (/ 1, 2 /), 10), number)
    case (15, 16)  ! scatter from rank 0
      call check(all(target(1:5:3,4) == base + rank + (/ 1000, 2000 /)) .and. count(target /= -1) == 2, number)
    case (17, 18, 19)
      call check(gathered(base + rank + (/ 1000, 2000 /), 10), number)
    case (20, 21)  ! neighbors: the previous and the next rank
      call check(all(results(2:5:3,0) == base + 10*before() + (/ 1, 2 /)), number)
      call check(all(results(2:5:3,1) == base + 10*after() + (/ 1, 2 /)) .and. count(results /= -1) == 4, number)
    case (22, 23, 24)
      call check(all(results(2:5:3,0) == base + 10*before() + 1 + (/ 1000, 2000 /)), number)
      call check(all(results(2:5:3,1) == base + 10*after() + (/ 1000, 2000 /)) .and. count(results /= -1) == 4, number)
    end select
  end subroutine
  integer function before()
    before = modulo(rank - 1, size)
  end function
  integer function after()
    after = modulo(rank + 1, size)
  end function

  subroutine start_movement(number, request)
    integer, intent(in) :: number
    type(MPI_Request), intent(out) :: request
    select case (number)
    case (11)
      call MPI_Igather(source(1:5:3,4), 2, MPI_INTEGER, results(2:5:3,:), 2, MPI_INTEGER, 0, MPI_COMM_WORLD, request)
    case (12)
      call MPI_Igatherv(source(1:5:3,4), 2, MPI_INTEGER, results(2:5:3,:), twos, places, MPI_INTEGER, 0, MPI_COMM_WORLD, request)
    case (13)
      call MPI_Iallgather(source(1:5:3,4), 2, MPI_INTEGER, results(2:5:3,:), 2, MPI_INTEGER, MPI_COMM_WORLD, request)
    case (14)
      call MPI_Iallgatherv(source(1:5:3,4), 2, MPI_INTEGER, results(2:5:3,:), twos, places, MPI_INTEGER, MPI_COMM_WORLD, request)
    case (15)
      call MPI_Iscatter(blocks(1:4:3,:), 2, MPI_INTEGER, target(1:5:3,4), 2, MPI_INTEGER, 0, MPI_COMM_WORLD, request)
    case (16)
      call MPI_Iscatterv(blocks(1:4:3,:), twos, places, MPI_INTEGER, target(1:5:3,4), 2, MPI_INTEGER, 0, MPI_COMM_WORLD, request)
    case (17)
      call MPI_Ialltoall(blocks(1:4:3,:), 2, MPI_INTEGER, results(2:5:3,:), 2, MPI_INTEGER, MPI_COMM_WORLD, request)
    case (18)
      call MPI_Ialltoallv(blocks(1:4:3,:), twos, places, MPI_INTEGER, results(2:5:3,:), twos, places, MPI_INTEGER, &
          MPI_COMM_WORLD, request)
    case (19)
      call MPI_Ialltoallw(blocks(1:4:3,:), twos, bytes, types, results(2:5:3,:), twos, bytes, types, MPI_COMM_WORLD, request)
    case (20)
      call MPI_Ineighbor_allgather(source(1:5:3,4), 2, MPI_INTEGER, results(2:5:3,:), 2, MPI_INTEGER, ring, request)
    case (21)
      call MPI_Ineighbor_allgatherv(source(1:5:3,4), 2, MPI_INTEGER, results(2:5:3,:), twos, places, MPI_INTEGER, ring, request)
    case (22)
      call MPI_Ineighbor_alltoall(blocks(1:4:3,:), 2, MPI_INTEGER, results(2:5:3,:), 2, MPI_INTEGER, ring, request)
    case (23)
      call MPI_Ineighbor_alltoallv(blocks(1:4:3,:), twos, places, MPI_INTEGER, results(2:5:3,:), twos, places, MPI_INTEGER, &
          ring, request)
    case (24)
      call MPI_Ineighbor_alltoallw(blocks(1:4:3,:), twos, byte_places, types, results(2:5:3,:), twos, byte_places, types, &
          ring, request)
    end select
  end subroutine

  subroutine init_movement(number, request)
    integer, intent(in) :: number
    type(MPI_Request), intent(out) :: request
    select case (number)
    case (11)
      call MPI_Gather_init(source(1:5:3,4), 2, MPI_INTEGER, results(2:5:3,:), 2, MPI_INTEGER, 0, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (12)
      call MPI_Gatherv_init(source(1:5:3,4), 2, MPI_INTEGER, results(2:5:3,:), twos, places, MPI_INTEGER, 0, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (13)
      call MPI_Allgather_init(source(1:5:3,4), 2, MPI_INTEGER, results(2:5:3,:), 2, MPI_INTEGER, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (14)
      call MPI_Allgatherv_init(source(1:5:3,4), 2, MPI_INTEGER, results(2:5:3,:), twos, places, MPI_INTEGER, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (15)
      call MPI_Scatter_init(blocks(1:4:3,:), 2, MPI_INTEGER, target(1:5:3,4), 2, MPI_INTEGER, 0, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (16)
      call MPI_Scatterv_init(blocks(1:4:3,:), twos, places, MPI_INTEGER, target(1:5:3,4), 2, MPI_INTEGER, 0, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (17)
      call MPI_Alltoall_init(blocks(1:4:3,:), 2, MPI_INTEGER, results(2:5:3,:), 2, MPI_INTEGER, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (18)
      call MPI_Alltoallv_init(blocks(1:4:3,:), twos, places, MPI_INTEGER, results(2:5:3,:), twos, places, MPI_INTEGER, &
          MPI_COMM_WORLD, MPI_INFO_NULL, request)
    case (19)
      call MPI_Alltoallw_init(blocks(1:4:3,:), twos, bytes, types, results(2:5:3,:), twos, bytes, types, MPI_COMM_WORLD, &
          MPI_INFO_NULL, request)
    case (20)
      call MPI_Neighbor_allgather_init(source(1:5:3,4), 2, MPI_INTEGER, results(2:5:3,:), 2, MPI_INTEGER, ring, &
          MPI_INFO_NULL, request)
    case (21)
      call MPI_Neighbor_allgatherv_init(source(1:5:3,4), 2, MPI_INTEGER, results(2:5:3,:), twos, places, MPI_INTEGER, ring, &
          MPI_INFO_NULL, request)
    case (22)
      call MPI_Neighbor_alltoall_init(blocks(1:4:3,:), 2, MPI_INTEGER, results(2:5:3,:), 2, MPI_INTEGER, ring, &
          MPI_INFO_NULL, request)
    case (23)
      call MPI_Neighbor_alltoallv_init(blocks(1:4:3,:), twos, places, MPI_INTEGER, results(2:5:3,:), twos, places, MPI_INTEGER, &
          ring, MPI_INFO_NULL, request)
    case (24)
      call MPI_Neighbor_alltoallw_init(blocks(1:4:3,:), twos, byte_places, types, results(2:5:3,:), twos, byte_places, types, &
          ring, MPI_INFO_NULL, request)
    end select
  end subroutine

  subroutine run_all()
    integer :: number, round, index
    type(MPI_Request) :: requests(1)
    logical :: flag
    do number = 1, 24
      if (number > 6 .and. number < 11) cycle
      if (number >= 20 .and. size < 3) cycle  ! one rank, or twice the same neighbor
      call prepare(number)
      if (number < 10) call start_reduction(number, requests(1))
      if (number > 10) call start_movement(number, requests(1))
      ! The ways to complete a request take turns.
      flag = .false.
      do while (.not. flag)
        select case (modulo(number, 4))
        case (0)
          call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
          flag = .true.
        case (1)
          call MPI_Test(requests(1), flag, MPI_STATUS_IGNORE)
        case (2)
          call MPI_Waitall(1, requests, MPI_STATUSES_IGNORE)
          flag = .true.
        case (3)
          call MPI_Testany(1, requests, index, flag, MPI_STATUS_IGNORE)
        end select
      end do
      if (number < 10) call check_reduction(number, number)
      if (number > 10) call check_movement(number, number)

      if (number < 10) call init_reduction(number, requests(1))
      if (number > 10) call init_movement(number, requests(1))
      do round = 1, 3
        call prepare(round)
        call MPI_Start(requests(1))
        ! The result is there when MPI_Request_get_status says so; completion does not copy it again.
        flag = .false.
        do while (.not. flag)
          call MPI_Request_get_status(requests(1), flag, MPI_STATUS_IGNORE)
        end do
        if (number < 10) call check_reduction(round, number)
        if (number > 10) call check_movement(round, number)
        target = -2
        results = -2
        call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
        call check(all(target == -2) .and. all(results == -2), 30)
      end do
      call MPI_Request_free(requests(1))
    end do
  end subroutine

  ! Calls whose sections are one array, with parts of their own; the communicator is freed meanwhile.
  subroutine share_parts()
    type(MPI_Comm) :: other
    type(MPI_Request) :: requests(3)
    integer :: ones(size), odd(size)
    call prepare(1)
    call MPI_Comm_dup(MPI_COMM_WORLD, other)
    ones = 1
    odd = places + 1
    call MPI_Iallgatherv(source(1,4), 1, MPI_INTEGER, results(2:5:3,:), ones, places, MPI_INTEGER, MPI_COMM_WORLD, requests(1))
    call MPI_Iallgatherv(source(4,4), 1, MPI_INTEGER, results(2:5:3,:), ones, odd, MPI_INTEGER, other, requests(2))
    call MPI_Iallreduce(MPI_IN_PLACE, target(1:5:3,4:1:-3), 4, MPI_INTEGER, MPI_MAX, other, requests(3))
    call MPI_Comm_free(other)
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
    call MPI_Wait(requests(3), MPI_STATUS_IGNORE)
    call check(gathered(100 + (/ 1, 2 /), 10) .and. untouched(), 40)
  end subroutine
end module

program pending
  use checks
  integer :: i
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  allocate(blocks(5,0:size-1), results(5,0:size-1), twos(size), places(size), bytes(size), byte_places(size), types(size))
  twos = 2
  places = (/ (2*i, i = 0, size - 1) /)
  bytes = 4*places
  byte_places = bytes
  types = MPI_INTEGER
  call MPI_Cart_create(MPI_COMM_WORLD, 1, (/ size /), (/ .true. /), .false., ring)
  call run_all()
  call share_parts()
  call MPI_Comm_free(ring)
  call MPI_Finalize()
end program
