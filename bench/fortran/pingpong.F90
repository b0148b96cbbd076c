! SPDX-License-Identifier: BSD-3-Clause
! Ping-pong of 8 bytes and of rows of a matrix, in ns a call (half of a one-way trip): mpi_f08.
module rounds
  use mpi_f08
  implicit none
  integer :: rank
contains
  double precision function small(buffer, count)
    double precision, intent(inout) :: buffer
    integer, intent(in) :: count
    integer :: round
    do round = -count/10, count - 1
      if (round == 0) small = MPI_Wtime()
      if (rank == 0) then
        call MPI_Send(buffer, 1, MPI_DOUBLE_PRECISION, 1, 1, MPI_COMM_WORLD)
        call MPI_Recv(buffer, 1, MPI_DOUBLE_PRECISION, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      else
        call MPI_Recv(buffer, 1, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call MPI_Send(buffer, 1, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_WORLD)
      end if
    end do
    small = (MPI_Wtime() - small)/count/4*1d9
  end function
  double precision function section(matrix, n, count)
    double precision, intent(inout) :: matrix(:,:)
    integer, intent(in) :: n, count
    integer :: round
    do round = -count/10, count - 1
      if (round == 0) section = MPI_Wtime()
      if (rank == 0) then
        call MPI_Send(matrix(4,1:n), n, MPI_DOUBLE_PRECISION, 1, 1, MPI_COMM_WORLD)
        call MPI_Recv(matrix(4,1:n), n, MPI_DOUBLE_PRECISION, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
      else
        call MPI_Recv(matrix(4,1:n), n, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        call MPI_Send(matrix(4,1:n), n, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_WORLD)
      end if
    end do
    section = (MPI_Wtime() - section)/count/4*1d9
  end function
  ! Shortest time of many short batches, see pingpong.c. n is 0 for calls to no process.
  double precision function alone(matrix, n, batches, calls) result(best)
    double precision, intent(in) :: matrix(:,:)
    integer, intent(in) :: n, batches, calls
    double precision, save :: received(4096)
    double precision :: start
    type(MPI_Request) :: request
    integer :: i, batch
    best = 1
    do batch = 1, batches
      start = MPI_Wtime()
      do i = 1, calls
        if (n == 0) then
          call MPI_Send(matrix(1,1), 1, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 1, MPI_COMM_SELF)
          call MPI_Recv(received, 1, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 1, MPI_COMM_SELF, MPI_STATUS_IGNORE)
        else
          call MPI_Irecv(received, n, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_SELF, request)
          call MPI_Send(matrix(4,1:n), n, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_SELF)
          call MPI_Wait(request, MPI_STATUS_IGNORE)
        end if
      end do
      best = min(best, (MPI_Wtime() - start)/calls)
    end do
    best = best*1d9
  end function
end module

program pingpong
  use rounds
  double precision, save :: matrix(64,4096) = 0
  double precision :: time
  integer :: n, count
  character(len=20) :: argument
  count = 200000
  call get_command_argument(1, argument)
  if (argument /= " ") read (argument, *) count
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  time = small(matrix(1,1), count)
  if (rank == 0) print '("8 ",f0.1)', time
  if (rank == 0) print '("call ",f0.1)', alone(matrix, 0, 2000, 500)/2
  if (rank == 0) print '("self_8 ",f0.1)', alone(matrix, 1, 2000, 100)
  n = 8
  do while (n <= 4096)
    time = section(matrix, n, max(50, count/8/(1 + n/64)))
    if (rank == 0) print '("section",i0," ",f0.1)', 8*n, time
    if (rank == 0) print '("self_section",i0," ",f0.1)', 8*n, alone(matrix, n, 2000, 4000/n + 1)
    n = 8*n
  end do
  call MPI_Finalize()
end program
