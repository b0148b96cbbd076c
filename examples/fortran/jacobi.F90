! SPDX-License-Identifier: BSD-3-Clause
! Solves the Laplace equation on a square by Jacobi iteration, with module mpi_f08. The grid is cut in two dimensions:
! rows of a block are array sections, which nonblocking calls take as they are.
!   mpifort -O3 jacobi.F90 -o jacobi && mpiexec -n 4 ./jacobi [points in each direction] [iterations]
module solver
  use mpi_f08
  implicit none
  integer, parameter :: dp = kind(1d0)

  !> The block of one rank: points 1:rows, 1:columns, with a border of neighbors' points.
  type block
    type(MPI_Comm) :: grid
    integer :: up, down, left, right
    real(dp), allocatable :: values(:,:), next(:,:)
  end type

contains

  !> Number of points in part `place` of `parts`.
  pure integer function share(points, parts, place)
    integer, intent(in) :: points, parts, place
    share = points*(place + 1)/parts - points*place/parts
  end function

  subroutine create(part, points)
    type(block), intent(out) :: part
    integer, intent(in) :: points
    integer :: ranks, rank, shape(2), place(2), rows, columns
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    shape = 0
    call MPI_Dims_create(ranks, 2, shape)
    call MPI_Cart_create(MPI_COMM_WORLD, 2, shape, [.false., .false.], .true., part%grid)
    call MPI_Comm_rank(part%grid, rank)
    call MPI_Cart_coords(part%grid, rank, 2, place)
    call MPI_Cart_shift(part%grid, 0, 1, part%up, part%down)
    call MPI_Cart_shift(part%grid, 1, 1, part%left, part%right)
    rows = share(points, shape(1), place(1))
    columns = share(points, shape(2), place(2))
    allocate(part%values(0:rows+1, 0:columns+1), part%next(0:rows+1, 0:columns+1))
    ! The upper side of the square is at 1, the others are at 0.
    part%values = 0
    if (part%up == MPI_PROC_NULL) part%values(0,:) = 1
    part%next = part%values
  end subroutine

  !> Exchanges the borders of a block with its neighbors. Missing neighbors are MPI_PROC_NULL.
  subroutine exchange(part)
    type(block), intent(inout), asynchronous :: part
    type(MPI_Request) :: requests(8)
    integer :: m, n
    m = size(part%values, 1) - 2
    n = size(part%values, 2) - 2
    associate (v => part%values)
      call MPI_Irecv(v(0, 1:n), n, MPI_DOUBLE_PRECISION, part%up, 1, part%grid, requests(1))
      call MPI_Irecv(v(m+1, 1:n), n, MPI_DOUBLE_PRECISION, part%down, 2, part%grid, requests(2))
      call MPI_Irecv(v(1:m, 0), m, MPI_DOUBLE_PRECISION, part%left, 3, part%grid, requests(3))
      call MPI_Irecv(v(1:m, n+1), m, MPI_DOUBLE_PRECISION, part%right, 4, part%grid, requests(4))
      call MPI_Isend(v(m, 1:n), n, MPI_DOUBLE_PRECISION, part%down, 1, part%grid, requests(5))
      call MPI_Isend(v(1, 1:n), n, MPI_DOUBLE_PRECISION, part%up, 2, part%grid, requests(6))
      call MPI_Isend(v(1:m, n), m, MPI_DOUBLE_PRECISION, part%right, 3, part%grid, requests(7))
      call MPI_Isend(v(1:m, 1), m, MPI_DOUBLE_PRECISION, part%left, 4, part%grid, requests(8))
      call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE)
    end associate
  end subroutine

  !> One iteration. Returns the largest change of a point of all ranks.
  real(dp) function iterate(part) result(change)
    type(block), intent(inout) :: part
    integer :: i, j
    call exchange(part)
    change = 0
    do j = 1, size(part%values, 2) - 2
      do i = 1, size(part%values, 1) - 2
        part%next(i,j) = (part%values(i-1,j) + part%values(i+1,j) + part%values(i,j-1) + part%values(i,j+1))/4
        change = max(change, abs(part%next(i,j) - part%values(i,j)))
      end do
    end do
    do j = 1, size(part%values, 2) - 2
      part%values(1:size(part%values, 1)-2, j) = part%next(1:size(part%values, 1)-2, j)
    end do
    call MPI_Allreduce(MPI_IN_PLACE, change, 1, MPI_DOUBLE_PRECISION, MPI_MAX, part%grid)
  end function
end module

program jacobi
  use solver
  type(block) :: part
  real(dp) :: change, start, mean
  integer :: points, iterations, iteration, rank, ranks
  points = argument(1, 256)
  iterations = argument(2, 1000)
  call MPI_Init()
  call create(part, points)
  call MPI_Comm_rank(part%grid, rank)
  call MPI_Comm_size(part%grid, ranks)
  start = MPI_Wtime()
  do iteration = 1, iterations
    change = iterate(part)
  end do
  mean = total(part)/points/points
  if (rank == 0) then
    print '(i0," ranks, ",i0," x ",i0," points, ",i0," iterations: ",f0.3," s")', &
      ranks, points, points, iterations, MPI_Wtime() - start
    print '("largest change ",es12.5,", mean ",f10.8)', change, mean
  end if
  call MPI_Comm_free(part%grid)
  call MPI_Finalize()
contains
  !> The sum of all points of all ranks.
  real(dp) function total(part)
    type(block), intent(in) :: part
    total = sum(part%next(1:ubound(part%next, 1)-1, 1:ubound(part%next, 2)-1))
    call MPI_Allreduce(MPI_IN_PLACE, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, part%grid)
  end function
  integer function argument(place, default)
    integer, intent(in) :: place, default
    character(len=20) :: text
    call get_command_argument(place, text)
    argument = default
    if (text /= " ") read (text, *) argument
  end function
end program
