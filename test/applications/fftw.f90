! SPDX-License-Identifier: BSD-3-Clause
! FFTW's Fortran interface with MPI: transforms of sums of waves, whose coefficients are known, with module mpi_f08.
program transforms
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  include 'fftw3-mpi.f03'
  integer(C_INTPTR_T), parameter :: rows = 20, columns = 24, planes = 12
  real(C_DOUBLE), parameter :: two_pi = 6.283185307179586_C_DOUBLE
  type(MPI_Comm) :: reversed
  integer :: rank, size
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, size)
  call MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, reversed)
  call fftw_mpi_init()
  call matrix(MPI_COMM_WORLD, "world")
  call matrix(reversed, "reversed")  ! its number in Fortran is not predefined
  call real_cube()
  call fftw_mpi_cleanup()
  call MPI_Finalize()
contains
  subroutine report(name, error)
    character(len=*), intent(in) :: name
    real(C_DOUBLE), intent(in) :: error
    real(C_DOUBLE) :: largest
    call MPI_Reduce(error, largest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD)
    if (rank == 0) print "(a, 1x, a, i0, 1x, a)", "fortran", name // " ", size, merge("passed", "FAILED", largest < 1d-10)
  end subroutine

  ! Two waves, of amplitudes 1 and 2, in both directions.
  subroutine matrix(comm, name)
    type(MPI_Comm), intent(in) :: comm
    character(len=*), intent(in) :: name
    integer(C_INTPTR_T) :: local, first, total, i, k
    complex(C_DOUBLE_COMPLEX), pointer :: values(:,:)
    complex(C_DOUBLE_COMPLEX) :: wanted
    type(C_PTR) :: forward, backward, memory
    real(C_DOUBLE) :: error
    total = fftw_mpi_local_size_2d(rows, columns, comm%MPI_VAL, local, first)
    memory = fftw_alloc_complex(total)
    call c_f_pointer(memory, values, [columns, local])
    forward = fftw_mpi_plan_dft_2d(rows, columns, values, values, comm%MPI_VAL, FFTW_FORWARD, FFTW_ESTIMATE)
    backward = fftw_mpi_plan_dft_2d(rows, columns, values, values, comm%MPI_VAL, FFTW_BACKWARD, FFTW_ESTIMATE)
    do k = 1, local
      do i = 1, columns
        values(i, k) = wave(i, k + first, 3, 5) + 2*wave(i, k + first, 17, 0)
      end do
    end do
    call fftw_mpi_execute_dft(forward, values, values)
    error = 0
    do k = 1, local
      do i = 1, columns
        wanted = 0
        if (i == 4 .and. k + first == 6) wanted = 1
        if (i == 18 .and. k + first == 1) wanted = 2
        error = max(error, abs(values(i, k)/(rows*columns) - wanted))
      end do
    end do
    call fftw_mpi_execute_dft(backward, values, values)
    do k = 1, local
      do i = 1, columns
        error = max(error, abs(values(i, k)/(rows*columns) - wave(i, k + first, 3, 5) - 2*wave(i, k + first, 17, 0)))
      end do
    end do
    call report("matrix " // name, error)
    call fftw_destroy_plan(forward)
    call fftw_destroy_plan(backward)
    call fftw_free(memory)
  end subroutine
  complex(C_DOUBLE_COMPLEX) function wave(i, k, m, n)
    integer(C_INTPTR_T), intent(in) :: i, k
    integer, intent(in) :: m, n
    real(C_DOUBLE) :: angle
    angle = two_pi*(real(m*(i - 1), C_DOUBLE)/columns + real(n*(k - 1), C_DOUBLE)/rows)
    wave = cmplx(cos(angle), sin(angle), C_DOUBLE_COMPLEX)
  end function

  ! A cosine in three dimensions, transformed from real to complex.
  subroutine real_cube()
    integer(C_INTPTR_T) :: local, first, total, i, j, k
    real(C_DOUBLE), pointer :: values(:,:,:)
    complex(C_DOUBLE_COMPLEX), pointer :: frequencies(:,:,:)
    complex(C_DOUBLE_COMPLEX) :: wanted
    type(C_PTR) :: plan, memory
    real(C_DOUBLE) :: error
    total = fftw_mpi_local_size_3d(planes, rows, columns/2 + 1, MPI_COMM_WORLD%MPI_VAL, local, first)
    memory = fftw_alloc_complex(total)
    call c_f_pointer(memory, frequencies, [columns/2 + 1, rows, local])
    call c_f_pointer(memory, values, [2*(columns/2 + 1), rows, local])
    plan = fftw_mpi_plan_dft_r2c_3d(planes, rows, columns, values, frequencies, MPI_COMM_WORLD%MPI_VAL, FFTW_ESTIMATE)
    do k = 1, local
      do j = 1, rows
        do i = 1, columns
          values(i, j, k) = cos(two_pi*(real(4*(i - 1), C_DOUBLE)/columns + real(7*(j - 1), C_DOUBLE)/rows &
              + real(2*(k + first - 1), C_DOUBLE)/planes))
        end do
      end do
    end do
    call fftw_mpi_execute_dft_r2c(plan, values, frequencies)
    error = 0
    do k = 1, local
      do j = 1, rows
        do i = 1, columns/2 + 1
          wanted = 0
          if (i == 5 .and. j == 8 .and. k + first == 3) wanted = 0.5d0
          error = max(error, abs(frequencies(i, j, k)/(rows*columns*planes) - wanted))
        end do
      end do
    end do
    call report("cube", error)
    call fftw_destroy_plan(plan)
    call fftw_free(memory)
  end subroutine
end program
